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


def event_hash(previous: bytes, at: int, actor: str, what: str, subject: str, detail: str) -> bytes:
    """SHA-256 over the previous row's hash and this row's content as a canonical JSON list."""
    return hashlib.sha256(previous + _encoder.encode([at, actor, what, subject, detail])).digest()


class Transaction:
    """One operation's view of the open write transaction.

    `topics` collects the names of what changed; they are announced once the commit has returned.
    """

    def __init__(self, connection: apsw.Connection, topics: set[str]) -> None:
        self._connection = connection
        self._topics = topics

    def execute(self, sql: str, bindings: Sequence[Value] = ()) -> list[Row]:
        """Runs one statement and returns all of its rows."""
        return self._connection.execute(sql, tuple(bindings)).fetchall()

    def one(self, sql: str, bindings: Sequence[Value] = ()) -> Row | None:
        rows = self.execute(sql, bindings)
        return rows[0] if rows else None

    def insert(self, table: str, values: Mapping[str, Value]) -> int:
        """Inserts one row and returns its row id."""
        columns = ", ".join(values)
        marks = ", ".join("?" * len(values))
        self.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))
        self._topics.add(table)
        return self._connection.last_insert_rowid()

    def change(self, table: str, sql: str, bindings: Sequence[Value] = ()) -> int:
        """Runs one UPDATE, INSERT OR IGNORE or DELETE on `table` and returns how many rows it changed.

        The count is taken at once: after any other statement it would be that statement's (HOLES H21).
        """
        before = self._connection.total_changes()
        self.execute(sql, bindings)
        changed = self._connection.changes() if self._connection.total_changes() != before else 0
        if changed:
            self._topics.add(table)
        return changed

    def event(
        self, at: int, actor: str, what: str, subject: str, detail: Mapping[str, Any] | None = None
    ) -> int:
        """Appends to the audit chain; the previous hash is read here, inside the same savepoint (HOLES H23)."""
        last = self.one("SELECT hash FROM events ORDER BY id DESC LIMIT 1")
        text = _encoder.encode(dict(detail or {})).decode()
        digest = event_hash(last[0] if last else GENESIS, at, actor, what, subject, text)
        return self.insert(
            "events",
            {"at": at, "actor": actor, "what": what, "subject": subject, "detail": text, "hash": digest},
        )

    def meta(self, name: str) -> str | None:
        row = self.one("SELECT value FROM meta WHERE name = ?", (name,))
        return row[0] if row else None

    def set_meta(self, name: str, value: str) -> None:
        if not self.change("meta", "UPDATE meta SET value = ? WHERE name = ?", (value, name)):
            self.insert("meta", {"name": name, "value": value})
