"""Opening the ledger: created once, migrated forward, checked, and never silently made anew.

A missing, damaged or foreign file is refused with the reason, and a refusal changes no byte; what was lost is
for a person to restore.
"""

from __future__ import annotations

import os
import sys
import uuid
from importlib import resources
from pathlib import Path
from typing import Any

import apsw

from app.ledger.copying import CopyFailed, copy_before_upgrade
from app.ledger.transaction import GENESIS, Transaction, event_hash

FILE_NAME = "ledger.sqlite3"
MARKER_NAME = "ledger.id"
"""Holds the ledger's id: that a home once had a ledger is known even when the ledger is gone."""
APPLICATION_ID = 0x4F4E4546  # "ONEF"
MAGIC = b"SQLite format 3\0"
CHAIN_ROWS_AT_START = 10_000
LOG_BYTES_KEPT = 16 * 1024 * 1024
"""The write-ahead log is cut back to this size once it has been copied."""


class LedgerRefused(Exception):
    """The ledger at this path must not be used. The message says why and what to do."""


def open_ledger(home: Path, now: int, vfs: str | None = None) -> apsw.Connection:
    """Opens the home's ledger for writing; creates it only where none has ever been.

    `now` is UTC in microseconds. Raises LedgerRefused. The caller holds the instance lock.
    """
    path, marker = home / FILE_NAME, home / MARKER_NAME
    connection: apsw.Connection | None = None
    try:
        known = _read_marker(marker)
        if path.exists() and path.stat().st_size > 0:
            _inspect(path, known, vfs)
        elif known is not None:
            raise LedgerRefused(
                f"the ledger {path} is missing, but {marker.name} says that there was one: put it back or "
                "restore a backup. Only if nothing was ever traded from this home: delete "
                f"{marker.name} to begin anew"
            )
        else:
            _create(path, now, vfs)
        _make_private(path)
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        connection.set_busy_timeout(2_000)
        # Else SQLite plans a search of `orders` anew at each call: a bound value might fit a partial index.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        configure(connection)
        _keep_before_upgrade(connection, path, now)
        _migrate(connection, now)
        ledger_id = _ledger_id(connection)
        if ledger_id != known:
            _write_marker(marker, ledger_id)
        return connection
    except BaseException as error:
        if connection is not None:
            connection.close(True)
        if isinstance(error, apsw.Error | OSError):
            raise LedgerRefused(_why(path, error)) from error
        raise


def configure(connection: apsw.Connection) -> None:
    """Sets what durability rests on, one pragma a call, and reads each back (HOLES H22).

    WAL with synchronous FULL is the pair that keeps every acknowledged commit
    (facts/libraries-and-proof.md 2.2). Raises LedgerRefused where a setting does not hold.
    """
    wanted: list[tuple[str, str | int, str | int]] = [
        ("journal_mode", "wal", "wal"),
        ("synchronous", "FULL", 2),
        ("foreign_keys", "ON", 1),
        # Else a REPLACE would delete a row without its trigger (HOLES H21).
        ("recursive_triggers", "ON", 1),
        ("trusted_schema", "OFF", 0),
        ("journal_size_limit", LOG_BYTES_KEPT, LOG_BYTES_KEPT),
    ]
    if sys.platform == "darwin":
        # Apple's plain fsync does not reach the platter.
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

    A red fact, never a reason to refuse an exit (HOLES H23). A chain cannot show that its own tail was cut:
    that takes the head as it stood elsewhere (a backup, the log).
    """
    # Texts as bytes, since what is not UTF-8 must be found, not raised.
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT * FROM (SELECT id, at, CAST(actor AS BLOB), CAST(what AS BLOB), CAST(subject AS BLOB), "
        "CAST(detail AS BLOB), hash FROM events ORDER BY id DESC LIMIT ?) ORDER BY id",
        (newest + 1,),
    ).fetchall()
    previous: bytes = GENESIS
    if len(rows) > newest:
        previous = rows.pop(0)[-1]
    for number, at, *texts, digest in rows:
        try:
            actor, what, subject, detail = (text.decode() for text in texts)
        except UnicodeDecodeError:
            return int(number)
        if event_hash(previous, number, at, actor, what, subject, detail) != digest:
            return int(number)
        previous = digest
    return None


def migrations() -> list[tuple[str, str]]:
    """The numbered SQL files, in order: (name, text)."""
    folder = resources.files("app.ledger") / "schema"
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name
    )
    return [(entry.name, entry.read_text(encoding="utf-8")) for entry in files]


def _scalar(connection: apsw.Connection, sql: str) -> Any:
    rows = connection.execute(sql).fetchall()
    return rows[0][0] if rows else None


def _inspect(path: Path, known: str | None, vfs: str | None) -> None:
    """Refuses what is not this home's sound ledger, before anything is written, by reading only.

    Setting WAL alone would already change a foreign file. Without a log beside it the file is read as
    immutable, so that no log is made either.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise LedgerRefused(
                f"{path} is not a database: it is kept as it is; restore a backup, or move it away"
            )
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size > 0 else "mode=ro&immutable=1"
    connection = apsw.Connection(
        f"{path.absolute().as_uri()}?{mode}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs=vfs
    )
    try:
        connection.set_busy_timeout(2_000)
        version = _scalar(connection, "PRAGMA user_version")
        application = _scalar(connection, "PRAGMA application_id")
        tables = _scalar(connection, "SELECT count(*) FROM sqlite_schema")
        if (tables or version or application) and application != APPLICATION_ID:
            raise LedgerRefused(f"{path} is not an Onefill ledger: move it away")
        if version > len(migrations()):
            raise LedgerRefused(
                f"the ledger {path} was written by a newer Onefill (version {version}, this one knows "
                f"{len(migrations())}): update"
            )
        if version == 0 and known is not None:
            raise LedgerRefused(
                f"the ledger {path} is empty, but {MARKER_NAME} says that it was not: restore a backup"
            )
        _read_through(path)
        damage = _scalar(connection, "PRAGMA quick_check(1)")
        if damage != "ok":
            raise LedgerRefused(
                f"the ledger {path} is damaged ({damage}): it is kept as it is; restore a backup"
            )
        if known and _ledger_id(connection) != known:
            raise LedgerRefused(
                f"{path} is not the ledger of this home ({MARKER_NAME} names another): put the right one back"
            )
    finally:
        connection.close(True)


def _read_through(path: Path) -> None:
    """Brings the file into the system's memory from its front to its end, before the check jumps about in it.

    After the machine's own start nothing of it is there, and a gigabyte took 20 s to check and takes 5.
    """
    part = bytearray(1024 * 1024)
    with path.open("rb", buffering=0) as file:
        while file.readinto(part):
            pass


def _create(path: Path, now: int, vfs: str | None) -> None:
    """Makes the ledger under another name and renames it, so that it is there whole or not at all."""
    new = path.with_name(path.name + ".new")
    _remove(new)
    try:
        _make_private(new)
        # Not in WAL mode yet: the one file must hold everything when it gets its name.
        connection = apsw.Connection(str(new), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
        try:
            _migrate(connection, now)
        finally:
            connection.close(True)
        new.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        _remove(new)
        raise


def _remove(path: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _keep_before_upgrade(connection: apsw.Connection, path: Path, now: int) -> None:
    """A program that is older than its ledger refuses it, so the way back leads over this copy."""
    version, newest = _scalar(connection, "PRAGMA user_version"), len(migrations())
    if not 0 < version < newest:
        return
    try:
        copy_before_upgrade(path, now, newest)
    except CopyFailed as error:
        raise LedgerRefused(f"{error}; without a copy the ledger {path} is not upgraded") from error


def _migrate(connection: apsw.Connection, now: int) -> None:
    """Moves the ledger forward, one version a transaction; a new one is made at the newest at once."""
    version = _scalar(connection, "PRAGMA user_version")
    newer = list(enumerate(migrations(), start=1))[version:]
    for steps in [newer] if version == 0 else [[step] for step in newer]:
        connection.execute("BEGIN IMMEDIATE").fetchall()
        try:
            for _, (_, sql) in steps:
                connection.execute(sql).fetchall()
            number, (name, _) = steps[-1]
            connection.execute(f"PRAGMA user_version = {number}").fetchall()
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
            transaction = Transaction(connection, set())
            if version == 0:
                transaction.set_meta("ledger_id", uuid.uuid4().hex)
            transaction.event(now, "onefill", "migrated", "ledger", {"to": number, "name": name})
            connection.execute("COMMIT").fetchall()
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK").fetchall()
            raise


def _ledger_id(connection: apsw.Connection) -> str:
    ledger_id = _scalar(connection, "SELECT value FROM meta WHERE name = 'ledger_id'")
    if not isinstance(ledger_id, str) or not ledger_id:
        raise LedgerRefused(
            f"the ledger {connection.filename} has lost its id: it is kept as it is; restore a backup"
        )
    return ledger_id


def _read_marker(marker: Path) -> str | None:
    """The id of the ledger that this home has had; '' if the marker says nothing; None if there was none."""
    try:
        return marker.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None


def _write_marker(marker: Path, ledger_id: str) -> None:
    """Whole or not at all, and on disk before the first order is."""
    new = marker.with_name(marker.name + ".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(ledger_id + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(marker)
    _sync_folder(marker.parent)


def _make_private(path: Path) -> None:
    """Creates the file for its owner only (SQLite gives its log the same mode), or shuts others out."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    _sync_folder(path.parent)
    if os.name == "nt":
        return
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        file = path.with_name(name)
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)


def _sync_folder(folder: Path) -> None:
    """A new name is durable only once its folder is; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _why(path: Path, error: apsw.Error | OSError) -> str:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return f"another program holds the ledger {path} (a backup, a virus scanner?): try again later"
    if isinstance(error, apsw.FullError):
        return f"the disk of {path} is full: make room"
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError | OSError):
        return (
            f"the ledger {path} cannot be opened for writing ({error}): check the rights of file and folder"
        )
    return (
        f"the ledger {path} cannot be read ({error}): it is kept as it is; restore a backup, or move it away "
        f"together with {MARKER_NAME} if nothing in it matters"
    )
