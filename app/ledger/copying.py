"""A ledger copied whole through SQLite's own backup, and looked at before it gets its name.

Never by copying files: what is still in the log would be missing, and every claim in it could be claimed
again (facts/idempotency.md 4.5). Blocking; a copy is one moment of the ledger, whatever is written meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from app.clock import SECOND
from app.ledger.reader import open_read_only

FOLDER = "backups"
"""In the home."""
SUFFIXES = ("", "-wal", "-shm", "-journal")
"""What may lie beside a database's file and belongs to it."""
SPARE = 64 * 1024 * 1024
"""Bytes that a copy leaves free on its disk."""
PAGES_A_STEP = 1_000
"""Between two steps a stop is noticed."""


class CopyFailed(Exception):
    """No copy was made, and nothing is left of the attempt. One line."""


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """What a ledger file is. `head` is the newest event's hash (b"" without one), `newest_at` its time in
    UTC microseconds."""

    ledger_id: str
    version: int
    event: int
    head: bytes
    newest_at: int | None
    signals: int
    orders: int

    @property
    def anchor(self) -> str:
        """The head of the audit chain, as it is written outside the file (H23): `E12-0123456789abcdef`."""
        return f"E{self.event}-{self.head.hex()[:16] or 'none'}"


def stamp(now: int) -> str:
    """`20260302T120000Z`."""
    return datetime.fromtimestamp(now // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")


def read_facts(connection: apsw.Connection) -> LedgerFacts:
    """Raises apsw.Error where the file is no ledger of any version."""
    newest: list[tuple[Any, ...]] = connection.execute(
        "SELECT id, hash, at FROM events ORDER BY id DESC LIMIT 1"
    ).fetchall()
    event, digest, at = newest[0] if newest else (0, b"", None)
    return LedgerFacts(
        ledger_id=str(_scalar(connection, "SELECT value FROM meta WHERE name = 'ledger_id'") or ""),
        version=_scalar(connection, "PRAGMA user_version"),
        event=event,
        head=digest,
        newest_at=at,
        signals=_scalar(connection, "SELECT count(*) FROM claims"),
        orders=_scalar(connection, "SELECT count(*) FROM orders"),
    )


def copy_ledger(
    ledger: Path,
    target: Path | Callable[[LedgerFacts], Path],
    stopped: Callable[[], bool] = lambda: False,
    *,
    at_rest: bool = False,
) -> tuple[Path, LedgerFacts]:
    """Copies `ledger` into a new file that its owner alone can read, and returns its path and what is in it.

    `target` may be made of the facts. `at_rest`: nobody writes it, and nothing may be made beside it. The
    copy is complete, checked and on disk before it has that name, and is one file. Raises CopyFailed: there
    is such a file already, no room, a copy that is not sound.
    """
    temporary: Path | None = None
    try:
        opened = read_untouched(ledger) if at_rest else contextlib.closing(open_read_only(ledger))
        with opened as source:
            source.execute("BEGIN").fetchall()
            facts = read_facts(source)
            path = target if isinstance(target, Path) else target(facts)
            if os.path.lexists(path):
                raise CopyFailed(f"{path} is there already: name a new file")
            _need_room(ledger, path.parent)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            _copy(source, temporary, stopped)
        _check(temporary, facts)
        sync_file(temporary)
        os.replace(temporary, path)
        temporary = None
        sync_folder(path.parent)
    except (apsw.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CopyFailed(
            f"{ledger.name} could not be copied ({reason or error}): nothing was left"
        ) from error
    else:
        return path, facts
    finally:
        if temporary is not None:
            for suffix in SUFFIXES:
                temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def copy_before_upgrade(ledger: Path, now: int, to_version: int) -> Path:
    """Keeps the ledger as it was before its tables change; never removed by us. Raises CopyFailed."""
    folder = ledger.parent / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CopyFailed(f"{folder} cannot be made ({error.strerror or error}): allow it") from error
    path, _ = copy_ledger(
        ledger, lambda facts: folder / f"before-version-{to_version}-{stamp(now)}-{facts.anchor}.sqlite3"
    )
    return path


@contextlib.contextmanager
def read_untouched(path: Path) -> Iterator[apsw.Connection]:
    """A connection that changes no byte beside `path` either; a log that lies there is read with it."""
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size > 0 else "mode=ro&immutable=1"
    connection = apsw.Connection(
        f"{path.absolute().as_uri()}?{mode}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        connection.set_busy_timeout(2_000)
        yield connection
    finally:
        connection.close(True)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """A new name is durable only once its folder is; Windows and some network shares have no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _need_room(ledger: Path, folder: Path) -> None:
    """A copy must not take the room that the next claim needs."""
    log = ledger.with_name(ledger.name + "-wal")
    size = ledger.stat().st_size + (log.stat().st_size if log.exists() else 0)
    free = shutil.disk_usage(folder).free
    if free < size + SPARE:
        raise CopyFailed(f"{folder} has {free // 1_000_000} MB free: too little for a copy of the ledger")


def _copy(source: apsw.Connection, target: Path, stopped: Callable[[], bool]) -> None:
    """`source` is inside a read transaction, so that no writer's commit makes the copy begin anew."""
    with contextlib.closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
        # Synced by hand, piece by piece: one large write at the end would hold up the ledger's own syncs.
        copy.execute("PRAGMA synchronous = OFF").fetchall()
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                if stopped():
                    raise CopyFailed("Onefill is stopping: the copy was not finished")
                backup.step(PAGES_A_STEP)
                sync_file(target)
        # Else the copy would ask for a log beside it wherever it is opened.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()


def _check(copy: Path, wanted: LedgerFacts) -> None:
    with read_untouched(copy) as connection:
        damage = _scalar(connection, "PRAGMA quick_check(1)")
        if damage != "ok":
            raise CopyFailed(
                f"the copy is not sound ({damage}), so the ledger may not be either: nothing was left"
            )
        found = read_facts(connection)
        if found != wanted:
            raise CopyFailed("the copy is not what was copied: nothing was left")


def _scalar(connection: apsw.Connection, sql: str) -> Any:
    rows = connection.execute(sql).fetchall()
    return rows[0][0] if rows else None
