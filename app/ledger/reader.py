"""Reading the ledger: a read-only connection on a thread of its own, short transactions, everything copied out.

An open cursor keeps the write-ahead log growing (HOLES H24), so none survives a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

T = TypeVar("T")
Row = dict[str, Any]


def open_read_only(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(2_000)
    connection.execute("PRAGMA query_only = ON").fetchall()
    return connection


def read(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
    """All rows of one SELECT, each as a dict by column name."""
    cursor = connection.execute(sql, tuple(bindings))
    try:
        names = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return []
    return [dict(zip(names, row, strict=True)) for row in cursor]


class Reader:
    """Runs reads on its own thread, one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ledger-reader")
        self._connection: apsw.Connection | None = None

    async def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """All rows of one SELECT, each as a dict by column name."""
        return await self.call(lambda connection: read(connection, sql, bindings))

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work(connection)` in one read transaction, so that several reads see one moment."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._in_transaction, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, self._shut)
        self._executor.shutdown(wait=True)

    def _in_transaction(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._connection is None:
            self._connection = open_read_only(self._path)
        with self._connection:
            return work(self._connection)

    def _shut(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
