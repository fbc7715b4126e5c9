"""Opening the ledger: made once, moved forward, refused when in doubt; and a refusal changes nothing."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from app.ledger import store
from app.ledger.store import FILE_NAME, MARKER_NAME, LedgerRefused, broken_chain, migrations, open_ledger
from app.ledger.transaction import Transaction
from tests.ledger.faulty_vfs import Call, FaultyVFS, disk_full

NOW = 1_772_465_400_000_000


def contents(home: Path) -> dict[str, tuple[bytes | None, float]]:
    """Every file with its bytes and the time of its last change; of a shared-memory file only the name."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime) if path.is_file() else (None, 0)
        for path in sorted(home.iterdir())
        if not path.name.endswith("-shm")
    }


def make(home: Path, *, killed: bool = False) -> str:
    """A ledger with something in it; `killed` leaves its log behind. Returns its id."""
    home.mkdir(exist_ok=True)
    connection = open_ledger(home, NOW)
    transaction = Transaction(connection, set())
    connection.execute("BEGIN")
    for n in range(200):
        transaction.event(NOW, "test", f"n{n}", "", {"filler": "x" * 200})
    connection.execute("COMMIT")
    ledger_id = transaction.meta("ledger_id")
    assert ledger_id
    if killed:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        transaction.event(NOW, "test", "only in the log", "")
        other = home.with_name(home.name + " as killed")
        shutil.copytree(home, other)
        connection.close()
        shutil.rmtree(home)
        other.rename(home)
    else:
        connection.close()
    return ledger_id


def refused(home: Path) -> str:
    """Opens, expects a refusal that changes no byte and makes no file, and returns its words."""
    before = contents(home)
    with pytest.raises(LedgerRefused) as refusal:
        open_ledger(home, NOW)
    assert contents(home) == before
    # And it is the same the second time.
    with pytest.raises(LedgerRefused):
        open_ledger(home, NOW)
    assert contents(home) == before
    return str(refusal.value)


@contextlib.contextmanager
def opened(home: Path) -> Iterator[apsw.Connection]:
    connection = open_ledger(home, NOW + 1)
    yield connection
    connection.close()


def test_a_fresh_home_gets_a_ledger_and_a_marker(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        transaction = Transaction(connection, set())
        assert (tmp_path / MARKER_NAME).read_text().strip() == transaction.meta("ledger_id")
        assert connection.pragma("user_version") == len(migrations())
        assert connection.pragma("application_id") == store.APPLICATION_ID
        assert connection.pragma("integrity_check") == "ok"
        detail = f'{{"name":"{migrations()[-1][0]}","to":{len(migrations())}}}'
        assert transaction.execute("SELECT at, actor, what, subject, detail FROM events") == [
            (NOW + 1, "onefill", "migrated", "ledger", detail)
        ]
        assert broken_chain(connection) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER_NAME, FILE_NAME]


@pytest.mark.parametrize("killed", [False, True])
def test_an_existing_ledger_is_opened_as_it_is(tmp_path: Path, killed: bool) -> None:
    ledger_id = make(tmp_path / "home", killed=killed)
    with opened(tmp_path / "home") as connection:
        transaction = Transaction(connection, set())
        assert transaction.meta("ledger_id") == ledger_id
        assert transaction.one("SELECT count(*) FROM events WHERE actor = 'test'") == (200 + killed,)
        assert transaction.one("SELECT count(*) FROM events WHERE what = 'migrated'") == (1,)
        assert broken_chain(connection) is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_can_read_it(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with opened(tmp_path) as connection:
            Transaction(connection, set()).event(1, "test", "something", "")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {
        FILE_NAME: 0o600,
        FILE_NAME + "-wal": 0o600,
        FILE_NAME + "-shm": 0o600,
        MARKER_NAME: 0o600,
    }


def test_rights_that_were_given_to_others_are_taken_back(tmp_path: Path) -> None:
    make(tmp_path / "home", killed=True)
    for path in (tmp_path / "home").iterdir():
        path.chmod(0o644)
    with opened(tmp_path / "home"):
        for name in ("", "-wal", "-shm"):
            assert stat.S_IMODE((tmp_path / "home" / (FILE_NAME + name)).stat().st_mode) == 0o600


# ------------------------------------------------------------------ refusals


def test_a_missing_ledger_with_a_marker_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    assert "is missing" in refused(tmp_path)


def test_a_zero_length_ledger_with_a_marker_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(b"")
    assert "is missing" in refused(tmp_path)


def test_an_empty_database_with_a_marker_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    empty = apsw.Connection(str(tmp_path / FILE_NAME))
    empty.execute("PRAGMA user_version = 1")
    empty.execute("PRAGMA user_version = 0")
    empty.close()
    assert "is empty" in refused(tmp_path)


def test_a_zero_length_ledger_without_a_marker_is_a_creation_that_was_cut_short(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"")
    with opened(tmp_path) as connection:
        assert Transaction(connection, set()).meta("ledger_id")


def test_a_creation_cut_short_at_a_call_to_the_disk_is_done_again(tmp_path: Path) -> None:
    """Killed before one write or sync and another: the next start finds no ledger or a whole one."""
    disk = FaultyVFS()
    images: list[Path] = []

    def before(call: Call) -> None:
        number = len(disk.calls)
        # Of the many writes of pages in a row a few stand for all.
        if call.what != "write" or number % 5 == 0:
            images.append(Path(shutil.copytree(tmp_path / "home", tmp_path / f"killed {number}")))

    disk.before = before
    (tmp_path / "home").mkdir()
    open_ledger(tmp_path / "home", NOW, disk.name).close()
    disk.close()
    assert len(images) > 8
    for image in images:
        with opened(image) as connection:
            assert connection.pragma("integrity_check") == "ok"
            ledger_id = Transaction(connection, set()).meta("ledger_id")
            assert (image / MARKER_NAME).read_text().strip() == ledger_id
        assert sorted(path.name for path in image.iterdir()) == [MARKER_NAME, FILE_NAME]


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_creation_that_fails_leaves_nothing_behind(tmp_path: Path, what: str) -> None:
    disk = FaultyVFS()

    def before(call: Call) -> None:
        if (call.file, call.what) == ("main", what):
            raise disk_full()

    disk.before = before
    with pytest.raises(LedgerRefused, match="is full"):
        open_ledger(tmp_path, NOW, disk.name)
    disk.close()
    assert list(tmp_path.iterdir()) == []
    with opened(tmp_path) as connection:
        assert connection.pragma("integrity_check") == "ok"


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    newer = apsw.Connection(str(tmp_path / FILE_NAME))
    newer.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    newer.close()
    assert "newer Onefill" in refused(tmp_path)


def test_a_newer_ledger_is_refused_even_if_only_its_log_says_so(tmp_path: Path) -> None:
    make(tmp_path / "home")
    newer = apsw.Connection(str(tmp_path / "home" / FILE_NAME))
    newer.execute(f"PRAGMA user_version = {len(migrations()) + 1}")
    killed = Path(shutil.copytree(tmp_path / "home", tmp_path / "killed"))
    newer.close()
    header = (killed / FILE_NAME).read_bytes()[60:64]
    assert int.from_bytes(header) == len(migrations())
    assert "newer Onefill" in refused(killed)


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("marked", [False, True])
def test_a_foreign_database_is_refused(tmp_path: Path, mode: str, marked: bool) -> None:
    if marked:
        make(tmp_path)
        (tmp_path / FILE_NAME).unlink()
    foreign = apsw.Connection(str(tmp_path / FILE_NAME))
    foreign.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    assert "not an Onefill ledger" in refused(tmp_path)


@pytest.mark.parametrize("name", ["application_id", "user_version"])
def test_another_programs_empty_database_is_refused(tmp_path: Path, name: str) -> None:
    foreign = apsw.Connection(str(tmp_path / FILE_NAME))
    foreign.execute(f"PRAGMA {name} = 77")
    foreign.close()
    assert "not an Onefill ledger" in refused(tmp_path)


@pytest.mark.parametrize("junk", [b"x", b"not a database at all" * 500, bytes(8192)])
@pytest.mark.parametrize("marked", [False, True])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, junk: bytes, marked: bool) -> None:
    if marked:
        make(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(junk)
    refused(tmp_path)


def damage_page(path: Path, number: int) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(b"\x55" * 4096)


@pytest.mark.parametrize("killed", [False, True])
def test_a_corrupt_page_is_refused(tmp_path: Path, killed: bool) -> None:
    home = tmp_path / "home"
    make(home, killed=killed)
    pages = (home / FILE_NAME).stat().st_size // 4096
    found = 0
    for number in range(2, pages + 1, max(1, pages // 12)):
        copy = Path(shutil.copytree(home, tmp_path / f"damaged {number}"))
        damage_page(copy / FILE_NAME, number)
        if killed and number == pages:
            continue  # that page may be whole in the log
        assert "kept as it is" in refused(copy), number
        found += 1
    assert found > 5


def test_a_ledger_cut_short_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:-4096])
    refused(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
def test_another_homes_ledger_is_refused(tmp_path: Path, killed: bool) -> None:
    make(tmp_path / "a", killed=killed)
    make(tmp_path / "b")
    shutil.copy(tmp_path / "b" / MARKER_NAME, tmp_path / "a" / MARKER_NAME)
    assert "not the ledger of this home" in refused(tmp_path / "a")


def test_a_ledger_that_lost_its_id_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    with contextlib.closing(apsw.Connection(str(tmp_path / FILE_NAME))) as connection:
        connection.execute("DELETE FROM meta")
    assert "lost its id" in refused(tmp_path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    (tmp_path / FILE_NAME / "x").touch()
    refused(tmp_path)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("marker", [None, "", "\n"])
def test_a_copied_home_without_its_marker_is_adopted(
    tmp_path: Path, killed: bool, marker: str | None
) -> None:
    home = tmp_path / "home"
    ledger_id = make(home, killed=killed)
    if marker is None:
        (home / MARKER_NAME).unlink()
    else:
        (home / MARKER_NAME).write_text(marker)
    with opened(home) as connection:
        assert Transaction(connection, set()).one("SELECT count(*) FROM events WHERE actor = 'test'") == (
            200 + killed,
        )
    assert (home / MARKER_NAME).read_text().strip() == ledger_id


def test_a_marker_that_says_nothing_still_says_that_there_was_a_ledger(tmp_path: Path) -> None:
    (tmp_path / MARKER_NAME).write_text("")
    assert "is missing" in refused(tmp_path)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (apsw.BusyError("x"), "another program holds"),
        (apsw.FullError("x"), "is full"),
        (apsw.ReadOnlyError("x"), "cannot be opened for writing"),
        (apsw.CantOpenError("x"), "cannot be opened for writing"),
        (PermissionError("x"), "cannot be opened for writing"),
        (apsw.IOError("x"), "kept as it is"),
        (apsw.CorruptError("x"), "kept as it is"),
    ],
)
def test_each_refusal_says_what_to_do_and_leaves_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    make(tmp_path)
    kept: list[apsw.Connection] = []

    def fails(connection: apsw.Connection) -> None:
        kept.append(connection)
        raise error

    monkeypatch.setattr(store, "configure", fails)
    with pytest.raises(LedgerRefused, match=words):
        open_ledger(tmp_path, NOW)
    with pytest.raises(apsw.ConnectionClosedError):
        kept[0].execute("SELECT 1")


# ------------------------------------------------------------------ migrations


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A later Onefill, whose next migration is the given SQL."""

    def upgrade(sql: str) -> None:
        steps = [*migrations(), ("next.sql", sql)]
        monkeypatch.setattr(store, "migrations", lambda: steps)

    return upgrade


@pytest.mark.parametrize("killed", [False, True])
def test_an_older_ledger_is_moved_forward_and_keeps_what_it_has(
    tmp_path: Path, two_steps: Callable[[str], None], killed: bool
) -> None:
    home = tmp_path / "home"
    make(home, killed=killed)
    two_steps(
        "CREATE TABLE more (x INTEGER) STRICT;"
        "INSERT INTO more VALUES (1); SELECT 1; INSERT INTO more VALUES (2);"
    )
    for _ in range(2):
        with opened(home) as connection:
            transaction = Transaction(connection, set())
            assert connection.pragma("user_version") == len(migrations()) + 1
            # A statement that returns rows does not end the script (HOLES H22).
            assert transaction.execute("SELECT x FROM more") == [(1,), (2,)]
            assert transaction.one("SELECT count(*) FROM events WHERE actor = 'test'") == (200 + killed,)
            assert transaction.one("SELECT count(*) FROM events WHERE what = 'migrated'") == (2,)
            assert broken_chain(connection) is None


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, two_steps: Callable[[str], None]) -> None:
    make(tmp_path)
    two_steps("CREATE TABLE more (x INTEGER) STRICT; DROP TABLE bodies; INSERT INTO nowhere VALUES (1);")
    with pytest.raises(LedgerRefused, match="no such table"):
        open_ledger(tmp_path, NOW)
    with contextlib.closing(apsw.Connection(str(tmp_path / FILE_NAME))) as connection:
        assert connection.pragma("user_version") == len(migrations())
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert "bodies" in tables
    assert "more" not in tables


def test_migrations_are_numbered_without_gaps() -> None:
    names = [name for name, _ in migrations()]
    assert [int(name[:3]) for name in names] == list(range(1, len(names) + 1))
