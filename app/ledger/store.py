"""Opening the ledger: created once, migrated forward, checked, and never silently made anew.

A missing, damaged or foreign file is refused with the reason; what was lost is for a person to restore.
"""

from __future__ import annotations

import sys
import uuid
from importlib import resources
from pathlib import Path
from typing import Any

import apsw

from app.ledger.transaction import GENESIS, Transaction, event_hash

FILE_NAME = "ledger.sqlite3"
MARKER_NAME = "ledger.id"
APPLICATION_ID = 0x4F4E4546  # "ONEF"
CHAIN_ROWS_AT_START = 10_000


class LedgerRefused(Exception):
    """The ledger at this path must not be used. The message says why and what to do."""


def open_ledger(home: Path, now: int, vfs: str | None = None) -> apsw.Connection:
    """Opens the home's ledger for writing; creates it only where none has ever been.

    Raises LedgerRefused. The caller holds the instance lock.
    """
    path, marker = home / FILE_NAME, home / MARKER_NAME
    known = marker.read_text().strip() if marker.exists() else None
    if known is not None and (not path.exists() or path.stat().st_size == 0):
        raise LedgerRefused(
            f"the ledger {path} is missing, but {marker.name} says that there was one: put it back or restore a "
            f"backup. Only if nothing was ever traded from this home: delete {marker.name} to begin anew"
        )
    try:
        connection = apsw.Connection(str(path), vfs=vfs)
        connection.set_busy_timeout(2_000)
        configure(connection)
        _check(connection, path)
        _migrate(connection, path, now)
        ledger_id = _identify(connection, path, known)
    except apsw.Error as error:
        raise LedgerRefused(
            f"the ledger {path} cannot be read ({error}): it is kept as it is; restore a backup, or move it away "
            f"together with {marker.name} if nothing in it matters"
        ) from error
    if known is None:
        marker.write_text(ledger_id + "\n")
    return connection


def _scalar(connection: apsw.Connection, sql: str) -> Any:
    return connection.execute(sql).fetchall()[0][0]


def configure(connection: apsw.Connection) -> None:
    """Sets what durability rests on, one pragma a call, and reads each back (HOLES H22).

    WAL with synchronous FULL is the pair that keeps every acknowledged commit
    (facts/libraries-and-proof.md 2.2). Raises LedgerRefused where a setting does not hold.
    """
    wanted: list[tuple[str, str, str | int]] = [
        ("journal_mode", "wal", "wal"),
        ("synchronous", "FULL", 2),
        ("foreign_keys", "ON", 1),
        ("recursive_triggers", "ON", 1),
        ("trusted_schema", "OFF", 0),
    ]
    if sys.platform == "darwin":
        wanted += [("fullfsync", "ON", 1), ("checkpoint_fullfsync", "ON", 1)]
    for name, value, expected in wanted:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        actual = _scalar(connection, f"PRAGMA {name}")
        if actual != expected:
            raise LedgerRefused(
                f"the ledger refuses {name} = {value} (it stays {actual}): not safe to trade with"
            )


def broken_chain(connection: apsw.Connection, newest: int = CHAIN_ROWS_AT_START) -> int | None:
    """The id of the first of the `newest` events whose hash does not follow from the one before, or None.

    A red fact, never a reason to refuse an exit (HOLES H23).
    """
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT * FROM (SELECT id, at, actor, what, subject, detail, hash FROM events ORDER BY id DESC LIMIT ?) ORDER BY id",
        (newest + 1,),
    ).fetchall()
    if not rows:
        return None
    previous: bytes = GENESIS
    first = 0
    if len(rows) > newest:
        previous, first = rows[0][6], 1
    for number, at, actor, what, subject, detail, digest in rows[first:]:
        if event_hash(previous, at, actor, what, subject, detail) != digest:
            return int(number)
        previous = digest
    return None


def _check(connection: apsw.Connection, path: Path) -> None:
    result = _scalar(connection, "PRAGMA quick_check(1)")
    if result != "ok":
        raise LedgerRefused(f"the ledger {path} is damaged ({result}): it is kept as it is; restore a backup")


def _migrate(connection: apsw.Connection, path: Path, now: int) -> None:
    steps = migrations()
    version = _scalar(connection, "PRAGMA user_version")
    application = _scalar(connection, "PRAGMA application_id")
    tables = _scalar(connection, "SELECT count(*) FROM sqlite_schema")
    if (tables or version) and application != APPLICATION_ID:
        raise LedgerRefused(f"{path} is not an Onefill ledger: move it away")
    if version > len(steps):
        raise LedgerRefused(
            f"the ledger {path} was written by a newer Onefill (version {version}, this one knows {len(steps)}): update"
        )
    for number, (name, sql) in enumerate(steps, start=1):
        if number <= version:
            continue
        with connection:
            connection.execute(sql).fetchall()
            connection.execute(f"PRAGMA user_version = {number}").fetchall()
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
            Transaction(connection, set()).event(
                now, "onefill", "migrated", "ledger", {"to": number, "name": name}
            )


def migrations() -> list[tuple[str, str]]:
    """The numbered SQL files, in order: (name, text)."""
    folder = resources.files("app.ledger") / "schema"
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name
    )
    return [(entry.name, entry.read_text(encoding="utf-8")) for entry in files]


def _identify(connection: apsw.Connection, path: Path, known: str | None) -> str:
    with connection:
        transaction = Transaction(connection, set())
        ledger_id = transaction.meta("ledger_id")
        if ledger_id is None:
            if known is not None:
                raise LedgerRefused(
                    f"{path} is not the ledger of this home ({MARKER_NAME} names another): restore a backup"
                )
            ledger_id = uuid.uuid4().hex
            transaction.set_meta("ledger_id", ledger_id)
    if known is not None and ledger_id != known:
        raise LedgerRefused(
            f"{path} is not the ledger of this home ({MARKER_NAME} names another): put the right one back"
        )
    return ledger_id
