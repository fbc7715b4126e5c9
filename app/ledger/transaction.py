"""What an operation may do inside the writer's transaction: read, change, count, and leave a trace.

Operations are pure functions of their arguments and of what they read here, because the writer may run one
again (HOLES H18). Everything is fetched before `execute` returns, so no cursor is ever left open.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

Row = tuple[Any, ...]
Value = None | int | float | str | bytes

GENESIS = bytes(32)
"""What stands before the first event's hash."""

_encoder = msgspec.json.Encoder(order="deterministic")


class LostUpdate(Exception):
    """A compare-and-set that matched no row: somebody else moved it first."""


class TransactionOver(Exception):
    """A transaction was used after its operation had returned."""


def event_hash(
    previous: bytes, number: int, at: int, actor: str, what: str, subject: str, detail: str
) -> bytes:
    """SHA-256 over the previous row's hash and this row's content, id included, as a canonical JSON list."""
    content = _encoder.encode([number, at, actor, what, subject, detail])
    return hashlib.sha256(previous + content).digest()


class Transaction:
    """One operation's view of the open write transaction.

    `topics` collects the names of what changed; they are announced once the commit has returned.
    """

    def __init__(self, connection: apsw.Connection, topics: set[str]) -> None:
        self._connection = connection
        self._topics = topics
        self._began_inside = connection.in_transaction
        self._over = False
        self.lost: apsw.Error | None = None
        """The error at which SQLite rolled the whole transaction back by itself."""

    def execute(self, sql: str, bindings: Sequence[Value] = ()) -> list[Row]:
        """Runs one statement and returns all of its rows.

        Once SQLite has rolled back by itself every further call raises that same error: outside the
        transaction each statement would commit on its own (HOLES H18).
        """
        if self._over:
            raise TransactionOver("the operation has returned; its transaction is over")
        if self.lost is not None:
            raise self.lost
        try:
            return self._connection.execute(sql, tuple(bindings)).fetchall()
        except apsw.Error as error:
            if self._began_inside and not self._connection.in_transaction:
                self.lost = error
            raise

    def one(self, sql: str, bindings: Sequence[Value] = ()) -> Row | None:
        rows = self.execute(sql, bindings)
        return rows[0] if rows else None

    def insert(self, table: str, values: Mapping[str, Value]) -> int:
        """Inserts one row and returns its row id (0 for a table without row ids)."""
        columns = ", ".join(values)
        marks = ", ".join("?" * len(values))
        # SQLite keeps the last one for ever; a table without row ids would return another table's.
        self._connection.set_last_insert_rowid(0)
        self.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))
        self._topics.add(table)
        return self._connection.last_insert_rowid()

    def change(self, table: str, sql: str, bindings: Sequence[Value] = ()) -> int:
        """Runs one UPDATE, INSERT OR IGNORE or DELETE on `table` and returns how many rows it changed.

        The count is taken at once: after any other statement it would be that statement's (HOLES H21).
        What triggers changed besides is not counted.
        """
        before = self._connection.total_changes()
        self.execute(sql, bindings)
        # `changes` keeps an older statement's count where this one was not an INSERT, UPDATE or DELETE.
        changed = self._connection.changes() if self._connection.total_changes() != before else 0
        if changed:
            self._topics.add(table)
        return changed

    def event(
        self, at: int, actor: str, what: str, subject: str, detail: Mapping[str, Any] | None = None
    ) -> int:
        """Appends to the audit chain and returns the event's id. `at` is UTC in microseconds.

        The previous hash is read here, inside the operation's own savepoint: a head kept in memory would
        run ahead of what is rolled back (HOLES H23).
        """
        last = self.one("SELECT id, hash FROM events ORDER BY id DESC LIMIT 1")
        number, previous = (last[0] + 1, last[1]) if last else (1, GENESIS)
        text = _encoder.encode(dict(detail or {})).decode()
        return self.insert(
            "events",
            {
                "id": number,
                "at": at,
                "actor": actor,
                "what": what,
                "subject": subject,
                "detail": text,
                "hash": event_hash(previous, number, at, actor, what, subject, text),
            },
        )

    def meta(self, name: str) -> str | None:
        row = self.one("SELECT value FROM meta WHERE name = ?", (name,))
        return row[0] if row else None

    def set_meta(self, name: str, value: str) -> None:
        if not self.change("meta", "UPDATE meta SET value = ? WHERE name = ?", (value, name)):
            self.insert("meta", {"name": name, "value": value})

    def end(self) -> None:
        """The writer's call when the operation has returned: nothing may be written through this any more."""
        self._over = True
