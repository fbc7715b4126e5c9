"""Backups: one moment of a ledger that goes on, checked, private, named by its head; and what is refused."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from app.ledger import backup as backups
from app.ledger import copying, store
from app.ledger.backup import inspect_backup, make_backup, make_daily_backup, newest_daily
from app.ledger.copying import FOLDER, CopyFailed
from app.ledger.store import FILE_NAME, LedgerRefused, broken_chain, migrations, open_ledger
from tests.ledger.ledger_rows import NOON, SECOND, Rows

DAY = 86_400 * SECOND


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def rows(home: Path) -> Iterator[Rows]:
    made = Rows(home)
    made.tx.event(NOON, "test", "begun", "")
    yield made
    made.close()


def events(path: Path) -> list[str]:
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return [str(row[0]) for row in connection.execute("SELECT what FROM events ORDER BY id")]


def test_a_backup_has_what_is_only_in_the_log(home: Path, rows: Rows, tmp_path: Path) -> None:
    """Copying the file would lose it (facts/idempotency.md 4.5)."""
    rows.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    rows.tx.event(NOON, "test", "only in the log", "")
    made = make_backup(home, tmp_path / "copy.sqlite3", NOON)
    assert made.path == tmp_path / "copy.sqlite3"
    assert events(made.path)[-1] == "only in the log"
    shutil.copy(home / FILE_NAME, tmp_path / "naive.sqlite3")
    assert events(tmp_path / "naive.sqlite3")[-1] != "only in the log"


def test_a_backup_is_one_private_file_and_nothing_is_left_beside_it(
    home: Path, rows: Rows, tmp_path: Path
) -> None:
    target = tmp_path / "there"
    target.mkdir()
    before = os.umask(0)
    try:
        made = make_backup(home, target / "copy.sqlite3", NOON)
    finally:
        os.umask(before)
    assert [path.name for path in target.iterdir()] == ["copy.sqlite3"]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    with contextlib.closing(apsw.Connection(str(made.path))) as connection:
        assert connection.pragma("journal_mode") == "delete"
        assert connection.pragma("integrity_check") == "ok"
    assert [path.name for path in target.iterdir()] == ["copy.sqlite3"]


def test_h23_its_name_carries_the_head_of_the_audit_chain(home: Path, rows: Rows, tmp_path: Path) -> None:
    number, head = rows.tx.execute("SELECT id, hash FROM events ORDER BY id DESC LIMIT 1")[0]
    made = make_backup(home, tmp_path, NOON)
    assert made.path.name == f"ledger-20260302T120000Z-E{number}-{head.hex()[:16]}.sqlite3"
    assert made.facts.head == head


def test_h23_a_backup_whose_tail_was_cut_is_refused(home: Path, rows: Rows, tmp_path: Path) -> None:
    rows.tx.event(NOON, "test", "cut away", "")
    made = make_backup(home, tmp_path, NOON)
    with contextlib.closing(apsw.Connection(str(made.path))) as connection:
        connection.execute("DROP TRIGGER events_stay").fetchall()
        connection.execute("DELETE FROM events WHERE what = 'cut away'").fetchall()
        # The chain itself does not show it.
        assert broken_chain(connection) is None
    with pytest.raises(LedgerRefused, match="changed after it was made"):
        inspect_backup(made.path)


def test_what_is_written_meanwhile_is_not_in_it_and_does_not_stop_it(
    home: Path, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the copy is followed by a commit of the writer: the copy is of one moment, and ends."""
    monkeypatch.setattr(copying, "PAGES_A_STEP", 3)
    steps = 0

    def writes() -> bool:
        nonlocal steps
        steps += 1
        rows.tx.event(NOON, "test", f"meanwhile {steps}", "", {"filler": "x" * 9_000})
        return False

    made = make_backup(home, tmp_path / "copy.sqlite3", NOON, writes)
    assert steps > 3
    assert not [what for what in events(made.path) if what.startswith("meanwhile")]
    assert events(home / FILE_NAME)[-1] == f"meanwhile {steps}"


def test_a_copy_that_is_stopped_leaves_nothing(home: Path, rows: Rows, tmp_path: Path) -> None:
    target = tmp_path / "there"
    target.mkdir()
    with pytest.raises(CopyFailed, match="stopping"):
        make_backup(home, target / "copy.sqlite3", NOON, lambda: True)
    assert list(target.iterdir()) == []


def test_nothing_is_ever_overwritten(home: Path, rows: Rows, tmp_path: Path) -> None:
    target = tmp_path / "mine.txt"
    target.write_text("something of mine")
    for path in (target, home / FILE_NAME):
        with pytest.raises(CopyFailed, match="there already"):
            make_backup(home, path, NOON)
    assert target.read_text() == "something of mine"
    with pytest.raises(CopyFailed, match="no folder"):
        make_backup(home, tmp_path / "nowhere" / "copy.sqlite3", NOON)


def test_a_damaged_ledger_makes_no_backup(home: Path, rows: Rows, tmp_path: Path) -> None:
    """A copy of damage must not push a sound backup out."""
    for n in range(400):
        rows.tx.event(NOON, "test", f"n{n}", "", {"filler": "x" * 500})
    rows.close()
    pages = (home / FILE_NAME).stat().st_size // 4096
    with (home / FILE_NAME).open("r+b") as file:
        file.seek(pages // 2 * 4096)
        file.write(b"\x55" * 4096)
    with pytest.raises(CopyFailed, match="nothing was left"):
        make_backup(home, tmp_path / "copy.sqlite3", NOON)
    assert not (tmp_path / "copy.sqlite3").exists()


def test_a_full_disk_leaves_nothing(
    home: Path, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise apsw.FullError("database or disk is full")

    target = tmp_path / "there"
    target.mkdir()
    monkeypatch.setattr(copying, "_copy", full)
    with pytest.raises(CopyFailed, match="full"):
        make_backup(home, target, NOON)
    assert list(target.iterdir()) == []


def test_a_copy_leaves_the_room_that_claims_need(
    home: Path, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (home / FILE_NAME).stat().st_size + (home / f"{FILE_NAME}-wal").stat().st_size
    free = size + copying.SPARE - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=free))
    with pytest.raises(CopyFailed, match="MB free"):
        make_backup(home, tmp_path / "copy.sqlite3", NOON)
    free += 1
    assert make_backup(home, tmp_path / "copy.sqlite3", NOON).path.exists()


def test_seven_daily_backups_are_kept_and_nobody_elses_file_is_touched(home: Path, rows: Rows) -> None:
    folder = home / FOLDER
    assert newest_daily(home) is None
    made = []
    for day in range(9):
        rows.tx.event(NOON, "test", f"day {day}", "")
        made.append(make_daily_backup(home, NOON + day * DAY, keep=7)[0].path.name)
        (folder / f"notes of day {day}.txt").touch()
    kept = sorted(path.name for path in folder.iterdir() if path.suffix == ".sqlite3")
    assert kept == made[2:]
    assert len([path for path in folder.iterdir() if path.suffix == ".txt"]) == 9
    assert newest_daily(home) == NOON + 8 * DAY
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_backup_that_fails_removes_no_older_one(
    home: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_daily_backup(home, NOON, keep=1)

    def fails(*_arguments: object, **_named: object) -> None:
        raise CopyFailed("no room")

    monkeypatch.setattr(backups, "copy_ledger", fails)
    with pytest.raises(CopyFailed, match="no room"):
        make_daily_backup(home, NOON + DAY, keep=1)
    assert newest_daily(home) == NOON


# ------------------------------------------------------------------------------------- looked at before use


def test_a_sound_backup_says_what_is_in_it(home: Path, rows: Rows, tmp_path: Path) -> None:
    claim = rows.claim("one")
    rows.order(claim)
    made = make_backup(home, tmp_path, NOON)
    facts = inspect_backup(made.path, rows.tx.meta("ledger_id"))
    assert facts == made.facts
    assert (facts.signals, facts.orders, facts.newest_at) == (1, 1, NOON)


def test_each_unfit_file_is_refused_with_one_line_and_stays_as_it_is(
    home: Path, rows: Rows, tmp_path: Path
) -> None:
    sound = make_backup(home, tmp_path / "sound.sqlite3", NOON).path

    def altered(name: str, sql: str) -> Path:
        path = Path(shutil.copy(sound, tmp_path / name))
        with contextlib.closing(apsw.Connection(str(path))) as connection:
            connection.execute(sql).fetchall()
        return path

    (tmp_path / "text.sqlite3").write_text("not a database" * 1000)
    (tmp_path / "empty.sqlite3").touch()
    damaged = Path(shutil.copy(sound, tmp_path / "damaged.sqlite3"))
    with damaged.open("r+b") as file:
        file.seek(4 * 4096)
        file.write(b"\x55" * 4096 * 20)
    unfit = {
        tmp_path / "missing.sqlite3": "no file",
        tmp_path: "no file",
        tmp_path / "text.sqlite3": "cannot be read as a ledger",
        tmp_path / "empty.sqlite3": "not a backup",
        altered("foreign.sqlite3", "PRAGMA application_id = 5"): "not a backup",
        altered("newer.sqlite3", f"PRAGMA user_version = {len(migrations()) + 1}"): "newer Onefill",
        altered("without id.sqlite3", "DELETE FROM meta"): "another home",
        damaged: "damaged",
    }
    for path, reason in unfit.items():
        content = path.read_bytes() if path.is_file() else b""
        with pytest.raises(LedgerRefused, match=reason) as refusal:
            inspect_backup(path)
        assert "\n" not in str(refusal.value), path
        assert not path.is_file() or path.read_bytes() == content
    with pytest.raises(LedgerRefused, match="another home"):
        inspect_backup(sound, "some other ledger")
    assert not list(tmp_path.glob("*-wal")) + list(tmp_path.glob("*-shm")) + list(tmp_path.glob("*-journal"))


# ---------------------------------------------------------------------------------------------- upgrades


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> int:
    """A later Onefill with one more migration; returns its ledger's version."""
    steps = [*migrations(), ("next.sql", "CREATE TABLE more (x INTEGER) STRICT;")]
    monkeypatch.setattr(store, "migrations", lambda: steps)
    return len(steps)


def test_h41_a_copy_is_made_before_an_upgrade_and_open_rows_go_along(
    home: Path, rows: Rows, request: pytest.FixtureRequest
) -> None:
    order = rows.order(rows.claim("open"))
    rows.move(order, "SUBMITTING", "AMBIGUOUS")
    before = rows.tx.execute("SELECT * FROM orders")
    rows.close()
    version = request.getfixturevalue("later")
    for _ in range(2):
        connection = open_ledger(home, NOON)
        assert connection.pragma("user_version") == version
        assert connection.execute("SELECT * FROM orders").fetchall() == before
        connection.close()
    (copy,) = (home / FOLDER).iterdir()
    assert copy.name.startswith(f"before-version-{version}-20260302T120000Z-E2-")
    with contextlib.closing(apsw.Connection(str(copy))) as connection:
        assert connection.pragma("user_version") == version - 1
        assert connection.execute("SELECT * FROM orders").fetchall() == before
    # It is no daily backup, and is not counted or removed as one.
    assert newest_daily(home) is None
    assert inspect_backup(copy).orders == 1


def test_h41_without_room_for_the_copy_nothing_is_upgraded(
    home: Path, rows: Rows, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.close()

    def full(*_arguments: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(copying, "_copy", full)
    with pytest.raises(LedgerRefused, match="not upgraded"):
        open_ledger(home, NOON)
    with contextlib.closing(apsw.Connection(str(home / FILE_NAME))) as connection:
        assert connection.pragma("user_version") == later - 1


def test_a_new_ledger_needs_no_copy(home: Path, later: int) -> None:
    open_ledger(home, NOON).close()
    assert not (home / FOLDER).exists()


def test_a_copy_may_be_made_on_any_thread(home: Path, rows: Rows, tmp_path: Path) -> None:
    made: list[Path] = []
    thread = threading.Thread(target=lambda: made.append(make_backup(home, tmp_path, NOON).path))
    thread.start()
    thread.join()
    assert made[0].exists()
