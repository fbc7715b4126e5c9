"""Opening the paper exchange's file: made once, set up for durability, checked, never silently made anew.

Knows nothing of orders. A damaged, incomplete or foreign file is refused with the reason, and left as it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from importlib import resources
from pathlib import Path

import apsw

from app.brokers.paper_upgrade import added_since, upgrade

APPLICATION_ID = 0x4F4E4550  # "ONEP"
VERSION = 2
"""What is older is brought up to date by paper_upgrade.py."""
LOCK_WAIT_MS = 1_000
"""How long one BEGIN waits for another program's lock on the file."""

SETTINGS: tuple[tuple[str, str, str | int], ...] = (
    ("journal_mode", "wal", "wal"),
    ("synchronous", "FULL", 2),
    ("foreign_keys", "ON", 1),
    ("trusted_schema", "OFF", 0),
)
MACOS_SETTINGS: tuple[tuple[str, str, str | int], ...] = (
    ("fullfsync", "ON", 1),
    ("checkpoint_fullfsync", "ON", 1),
)
"""Name, value, and what must be read back. WAL with FULL is the pair that keeps every acknowledged commit
(facts/libraries-and-proof 0.1); on macOS a plain fsync does not reach the platter (0.4)."""


class PaperBookRefused(Exception):
    """The paper exchange's file must not be used. The message says why and what to do."""


def open_paper_file(path: Path, vfs: str | None = None) -> apsw.Connection:
    """Opens the exchange's file for writing; makes it where there is none. Raises PaperBookRefused.

    The caller holds the home's instance lock. `vfs` names an apsw VFS, for power-cut tests.
    """
    try:
        if not path.exists():
            _create(path, vfs)
        elif os.name == "posix":
            path.chmod(0o600)
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    except (apsw.Error, OSError) as error:
        raise PaperBookRefused(f"the paper exchange's file {path} cannot be opened: {error}") from error
    try:
        connection.set_busy_timeout(LOCK_WAIT_MS)
        version = _check_owner(connection, path)
        configure(connection)
        _check_content(connection, path, version)
        if version != VERSION:
            upgrade(connection)
            _check_content(connection, path, VERSION)
    except apsw.Error as error:
        connection.close()
        raise PaperBookRefused(
            f"the paper exchange's file {path} cannot be read ({error}): {_REMEDY}"
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


_REMEDY = (
    "it is kept as it is; put back a copy of it, or move it away to begin with a new paper exchange, "
    "whose accounts are then new ones"
)


def configure(connection: apsw.Connection) -> None:
    """Sets what durability rests on, one pragma a call, and reads each back (HOLES H22)."""
    for name, value, expected in SETTINGS + (MACOS_SETTINGS if sys.platform == "darwin" else ()):
        connection.pragma(name, value)
        actual = connection.pragma(name)
        if actual != expected:
            raise PaperBookRefused(
                f"the paper exchange's file refuses {name} = {value} (it stays {actual}): "
                "an order in it could be lost after its reply"
            )


def _create(path: Path, vfs: str | None) -> None:
    """Makes the file under another name and moves it into place, so that it is there whole or not at all."""
    leftover = [name for name in ("-wal", "-journal") if Path(f"{path}{name}").exists()]
    if leftover:
        raise PaperBookRefused(
            f"the paper exchange's file {path} is missing, but {path.name}{leftover[0]} beside it says that "
            "there was one: put it back, or move that away too to begin with a new paper exchange"
        )
    unfinished = Path(f"{path}.new")
    for name in ("", "-wal", "-shm", "-journal"):
        Path(f"{unfinished}{name}").unlink(missing_ok=True)
    # Nobody else's business; SQLite gives -wal and -shm the mode of their file.
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = apsw.Connection(str(unfinished), vfs=vfs)
    with contextlib.closing(connection):
        configure(connection)
        connection.execute("BEGIN IMMEDIATE")
        for statement in _schema():
            connection.execute(statement)
        connection.execute("INSERT INTO exchange (only_row, id) VALUES (1, ?)", (str(uuid.uuid4()),))
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", VERSION)
        connection.execute("COMMIT")
    unfinished.rename(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _schema() -> list[str]:
    """The statements that make the tables, one by one (HOLES H22)."""
    text = resources.files("app.brokers").joinpath("schema_paper.sql").read_text(encoding="utf-8")
    bare = "\n".join(line.split("--", 1)[0] for line in text.splitlines())
    return [statement.strip() for statement in bare.split(";") if statement.strip()]


def _check_owner(connection: apsw.Connection, path: Path) -> int:
    """Before anything is set: is this a paper exchange's file at all? Returns its version, if we know it."""
    application, version = connection.pragma("application_id"), connection.pragma("user_version")
    if application != APPLICATION_ID:
        raise PaperBookRefused(f"{path} is not a paper exchange's file: {_REMEDY}")
    if not 1 <= version <= VERSION:
        raise PaperBookRefused(
            f"the paper exchange's file {path} has version {version}, this program knows {VERSION}: "
            "use the Onefill that wrote it"
        )
    return int(version)


def _check_content(connection: apsw.Connection, path: Path, version: int) -> None:
    """Refuses a file that lacks a table, column or index of its version, or that SQLite finds damaged."""
    with contextlib.closing(apsw.Connection(":memory:")) as model:
        for statement in _schema():
            model.execute(statement)
        expected, actual = _shape(model), _shape(connection)
    expected -= added_since(version)
    missing = sorted(expected - actual, key=lambda part: (not part.startswith("table"), part))
    if missing:
        raise PaperBookRefused(f"the paper exchange's file {path} lacks {missing[0]}: {_REMEDY}")
    damage = connection.execute("PRAGMA quick_check(1)").fetchall()
    if damage != [("ok",)]:
        raise PaperBookRefused(f"the paper exchange's file {path} is damaged ({damage[0][0]}): {_REMEDY}")
    if connection.execute("SELECT count(*) FROM exchange").fetchall() != [(1,)]:
        raise PaperBookRefused(f"the paper exchange's file {path} does not say who it is: {_REMEDY}")


def _shape(connection: apsw.Connection) -> set[str]:
    """What a file has, in words: `table orders`, `column orders.status`, `index orders_due`."""
    shape: set[str] = set()
    rows = connection.execute(
        "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    for kind, name in rows:
        shape.add(f"{kind} {name}")
        if kind == "table":
            columns = connection.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
            shape |= {f"column {name}.{column}" for (column,) in columns}
    return shape
