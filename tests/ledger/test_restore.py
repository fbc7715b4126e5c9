"""Restore: what a ledger that went back in time is made to say, and what a kill on the way leaves (H39)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.ledger.backup import make_backup
from app.ledger.restore import (
    LOOKUP_BEFORE_SEND,
    REFUSE_WITHOUT_TIME,
    lift_refusal,
    mark_restored,
    restore_ledger,
)
from app.ledger.store import FILE_NAME, MARKER_NAME, LedgerRefused, broken_chain, open_ledger
from app.ledger.transaction import Transaction
from tests.ledger.ledger_rows import NOON, SECOND, Rows

LATER = NOON + 3_600 * SECOND
STATES = {
    "PENDING": (),
    "SUBMITTING": ("SUBMITTING",),
    "AMBIGUOUS": ("SUBMITTING", "AMBIGUOUS"),
    "WORKING": ("SUBMITTING", "WORKING"),
    "NEEDS_OPERATOR": ("NEEDS_OPERATOR",),
    "DENIED": ("DENIED",),
    "NOT_PLACED": ("SUBMITTING", "NOT_PLACED"),
    "DONE": ("SUBMITTING", "WORKING", "DONE"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def rows(home: Path) -> Iterator[Rows]:
    made = Rows(home)
    yield made
    made.close()


def finish(tx: Transaction, kept: str | None) -> dict[str, Any]:
    mark_restored(tx, LATER, "test")
    tx.event(LATER, "test", "restored", "ledger")
    return {"kept": kept}


def look(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return connection.execute(sql).fetchall()


def test_h39_every_order_gets_the_state_that_can_be_vouched_for(rows: Rows) -> None:
    names: dict[str, str] = {}
    for state, steps in STATES.items():
        order = rows.order(rows.claim(state))
        rows.move(order, *steps)
        names[state] = f"O{order}"
    marked = mark_restored(rows.tx, LATER, "command:me")
    assert marked.denied == (names["PENDING"],)
    assert marked.ambiguous == (names["SUBMITTING"],)
    assert marked.open == (names["AMBIGUOUS"], names["WORKING"], names["NEEDS_OPERATOR"])
    found: dict[str, str] = dict(rows.tx.execute("SELECT id, state FROM v_orders"))
    became = {"PENDING": "DENIED", "SUBMITTING": "AMBIGUOUS"}
    assert found == {name: became.get(state, state) for state, name in names.items()}
    reasons = rows.tx.execute("SELECT reason FROM orders WHERE id IN (1, 2) ORDER BY id")
    assert [text.partition(" ")[0] for (text,) in reasons] == ["RESTORED", "RESTORED"]
    moves = rows.tx.execute("SELECT actor, subject FROM events WHERE what = 'order moved'")
    assert moves == [("command:me", names["PENDING"]), ("command:me", names["SUBMITTING"])]


def test_h39_trading_is_halted_and_every_source_has_its_watermark(rows: Rows) -> None:
    rows.tx.insert("sources", {"id": "ahead", "name": "ahead", "watermark": LATER + 1})
    rows.tx.set_meta("trading_state", "active")
    mark_restored(rows.tx, LATER, "test")
    assert rows.tx.meta("trading_state") == "halted"
    assert rows.tx.execute("SELECT id, watermark FROM sources ORDER BY id") == [
        ("ahead", LATER + 1),
        ("src", LATER),
    ]
    assert rows.tx.meta(REFUSE_WITHOUT_TIME) == rows.tx.meta(LOOKUP_BEFORE_SEND) == str(LATER)


def test_the_refusal_is_lifted_once_by_a_persons_word_and_the_look_before_the_send_stays(rows: Rows) -> None:
    assert not lift_refusal(rows.tx, LATER, "command:me", "nothing to lift")
    mark_restored(rows.tx, LATER, "test")
    assert lift_refusal(rows.tx, LATER, "command:me", "the sender was off")
    assert not lift_refusal(rows.tx, LATER, "command:me", "again")
    assert rows.tx.meta(REFUSE_WITHOUT_TIME) is None
    assert rows.tx.meta(LOOKUP_BEFORE_SEND) is not None
    assert rows.tx.execute("SELECT what, detail FROM events WHERE id > 1") == [
        ("signals without a time admitted again", '{"why":"the sender was off"}')
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_the_ledger_that_was_there_is_kept_aside_whole(
    home: Path, rows: Rows, tmp_path: Path, killed: bool
) -> None:
    """Its log as well: `killed` leaves what was written last in it alone."""
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    rows.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    rows.tx.event(NOON, "test", "after the backup", "")
    if killed:
        other = shutil.copytree(home, tmp_path / "killed")
        rows.close()
        home = Path(other)
    else:
        rows.close()
    kept = restore_ledger(home, backup, LATER, finish)["kept"]
    assert kept == "ledger-replaced-20260302T130000Z.sqlite3"
    assert look(home / kept, "SELECT what FROM events ORDER BY id DESC LIMIT 1") == [("after the backup",)]
    assert look(home / FILE_NAME, "SELECT what FROM events WHERE what = 'after the backup'") == []
    names = sorted(path.name for path in home.iterdir() if not path.name.endswith(("-shm", "-wal")))
    assert names == [kept, MARKER_NAME, FILE_NAME]
    connection = open_ledger(home, LATER)
    assert broken_chain(connection) is None
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


def test_two_restores_in_one_second_keep_both(home: Path, rows: Rows, tmp_path: Path) -> None:
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    rows.close()
    kept = {restore_ledger(home, backup, LATER, finish)["kept"] for _ in range(3)}
    assert len(kept) == 3
    assert all(name and (home / name).exists() for name in kept)


def test_a_damaged_or_missing_ledger_is_restored_and_the_damaged_one_kept(
    home: Path, rows: Rows, tmp_path: Path
) -> None:
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    rows.close()
    (home / FILE_NAME).write_bytes(b"damaged" * 1000)
    with pytest.raises(LedgerRefused):
        open_ledger(home, LATER)
    kept = restore_ledger(home, backup, LATER, finish)["kept"]
    assert kept is not None
    assert (home / kept).read_bytes() == b"damaged" * 1000
    open_ledger(home, LATER).close()
    (home / FILE_NAME).unlink()
    assert restore_ledger(home, backup, LATER, finish)["kept"] is None
    open_ledger(home, LATER).close()


def test_into_an_empty_home(rows: Rows, home: Path, tmp_path: Path) -> None:
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    restore_ledger(fresh, backup, LATER, finish)
    assert (fresh / MARKER_NAME).read_text() == (home / MARKER_NAME).read_text()
    open_ledger(fresh, LATER).close()


def test_the_backup_itself_is_never_changed(home: Path, rows: Rows, tmp_path: Path) -> None:
    folder = tmp_path / "read only"
    folder.mkdir()
    backup = make_backup(home, folder / "backup.sqlite3", NOON).path
    content = backup.read_bytes()
    rows.close()
    restore_ledger(home, backup, LATER, finish)
    assert backup.read_bytes() == content
    assert [path.name for path in folder.iterdir()] == [backup.name]


def test_a_refusal_at_the_end_leaves_everything_as_it_was(home: Path, rows: Rows, tmp_path: Path) -> None:
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    rows.close()
    before = {path.name: path.read_bytes() for path in home.iterdir()}

    def refuses(_tx: Transaction, _kept: str | None) -> dict[str, Any]:
        raise LookupError("not like this")

    with pytest.raises(LookupError, match="not like this"):
        restore_ledger(home, backup, LATER, refuses)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before


class Killed(BaseException):
    """The program ended here."""


class Steps:
    """Renames in a home, of which one is not done any more; nobody tidies up after a kill."""

    def __init__(self, home: Path, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._home, self._left = home, left
        self._rename, self._replace = os.rename, os.replace
        monkeypatch.setattr(os, "rename", lambda *names: self._step(self._rename, *names))
        monkeypatch.setattr(os, "replace", lambda *names: self._step(self._replace, *names))
        monkeypatch.setattr(shutil, "rmtree", lambda *_arguments, **_options: None)

    def _step(self, do: Callable[[Any, Any], None], old: Any, new: Any) -> None:
        if Path(new).parent == self._home:
            if self._left == 0:
                raise Killed
            self._left -= 1
        do(old, new)


def test_h39_killed_at_any_step_there_is_the_old_ledger_or_the_new_one_or_a_refused_start(
    home: Path, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = make_backup(home, tmp_path / "backup.sqlite3", NOON).path
    rows.tx.event(NOON, "test", "after the backup", "")
    rows.close()
    found = []
    for last in range(8):
        image = Path(shutil.copytree(home, tmp_path / f"killed before step {last}"))
        with monkeypatch.context() as armed, contextlib.suppress(Killed):
            Steps(image, last, armed)
            restore_ledger(image, backup, LATER, finish)
        found.append(state_of(image))
        restore_ledger(image, backup, LATER + SECOND, finish)
        assert state_of(image) == "new"
        assert not list(image.glob(".restoring*"))
        kept = [last_event(path) for path in image.glob("ledger-replaced-*.sqlite3")]
        assert "after the backup" in kept
    order = ["old", "refused", "new"]
    assert sorted(found, key=order.index) == found
    assert set(found) == set(order)


def state_of(home: Path) -> str:
    try:
        connection = open_ledger(home, LATER)
    except LedgerRefused as refusal:
        return "refused" if "is missing" in str(refusal) else str(refusal)
    whats = {row[0] for row in connection.execute("SELECT what FROM events")}
    connection.close()
    return "new" if "restored" in whats else "old" if "after the backup" in whats else "neither"


def last_event(path: Path) -> str:
    return str(look(path, "SELECT what FROM events ORDER BY id DESC LIMIT 1")[0][0])
