"""The simulated exchange's file: what it has accepted, and nothing that was not committed before the answer.

Knows no rule of trading. One connection, used by one thread; a checker reads the same file beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

SCHEMA = """
CREATE TABLE IF NOT EXISTS starts (number INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS accounts (
    number TEXT PRIMARY KEY, id TEXT NOT NULL, cash TEXT NOT NULL, shorting INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS keys (
    key_id TEXT PRIMARY KEY, secret TEXT NOT NULL, account TEXT NOT NULL REFERENCES accounts) STRICT;
CREATE TABLE IF NOT EXISTS assets (
    symbol TEXT PRIMARY KEY, class TEXT NOT NULL, tradable INTEGER NOT NULL, shortable INTEGER NOT NULL,
    fractionable INTEGER NOT NULL, price TEXT NOT NULL, price_at INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS orders (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, start INTEGER NOT NULL, account TEXT NOT NULL,
    client_order_id TEXT NOT NULL, origin TEXT NOT NULL, symbol TEXT NOT NULL, side TEXT NOT NULL,
    qty TEXT NOT NULL, type TEXT NOT NULL, limit_price TEXT, stop_price TEXT, tif TEXT NOT NULL,
    extended_hours INTEGER NOT NULL, status TEXT NOT NULL, filled_qty TEXT NOT NULL,
    filled_value TEXT NOT NULL, stop_reached INTEGER NOT NULL, created_ns INTEGER NOT NULL,
    updated_ns INTEGER NOT NULL, ended_at INTEGER, body_digest TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS orders_by_client_id ON orders (account, client_order_id);
CREATE TABLE IF NOT EXISTS fills (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL,
    order_seq INTEGER NOT NULL REFERENCES orders, side TEXT NOT NULL, qty TEXT NOT NULL,
    price TEXT NOT NULL, cum_qty TEXT NOT NULL, at_ns INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS movements (
    seq INTEGER PRIMARY KEY, account TEXT NOT NULL, symbol TEXT NOT NULL, qty TEXT NOT NULL,
    price TEXT NOT NULL, at INTEGER NOT NULL, fill_seq INTEGER REFERENCES fills) STRICT;
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, account TEXT NOT NULL, endpoint TEXT NOT NULL,
    client_order_id TEXT NOT NULL, outcome TEXT NOT NULL, answered TEXT NOT NULL) STRICT;
"""
"""Quantities and prices are decimal text; times are microseconds, `_ns` nanoseconds, of the exchange's clock.

A movement without a fill is a change of position from outside. `requests` has every order and cancel that
came in by the wire: what was done with it, and what was answered.
"""


class Store:
    def __init__(self, path: Path, now: int) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(5_000)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        for statement in filter(str.strip, SCHEMA.split(";")):
            self._connection.execute(statement).fetchall()
        with self.writing():
            self.start = self.insert("starts", at=now)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, committed when the block ends; nested blocks belong to the outer one."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN IMMEDIATE").fetchall()
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK").fetchall()
            raise
        self._connection.execute("COMMIT").fetchall()

    def rows(self, sql: str, *bindings: str | int | None) -> list[dict[str, Any]]:
        # The names are there while the statement still runs, not after its last row.
        cursor = self._connection.execute(sql, bindings)
        names: list[str] = []
        found: list[dict[str, Any]] = []
        for row in cursor:
            names = names or [column[0] for column in cursor.get_description()]
            found.append(dict(zip(names, row, strict=True)))
        return found

    def row(self, sql: str, *bindings: str | int | None) -> dict[str, Any] | None:
        found = self.rows(sql, *bindings)
        return found[0] if found else None

    def insert(self, table: str, **values: str | int | Decimal | None) -> int:
        """Returns the row's number."""
        names = ", ".join(values)
        marks = ", ".join("?" * len(values))
        bindings = tuple(text(value) for value in values.values())
        self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", bindings).fetchall()
        return self._connection.last_insert_rowid()

    def update(self, table: str, key: str, number: str | int, **values: str | int | Decimal | None) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        bindings = (*(text(value) for value in values.values()), number)
        self._connection.execute(f"UPDATE {table} SET {names} WHERE {key} = ?", bindings).fetchall()


def text(value: str | int | Decimal | None) -> str | int | None:
    return plain(value) if isinstance(value, Decimal) else value


def plain(value: Decimal) -> str:
    """Without exponent and without zeros at the end."""
    shown = format(value, "f")
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
