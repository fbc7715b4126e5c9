"""Reading the ledger: a read-only connection on a thread of its own, short transactions, all rows copied out.

An open cursor keeps the write-ahead log growing (HOLES H24), so none survives a call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw

from app.ledger.errors import LedgerUnavailable, presentable

T = TypeVar("T")
Row = dict[str, Any]


STEPS = 200_000
"""Of SQLite's machine between two looks at whether a search is still wanted: some milliseconds."""


class CursorLeftOpen(Exception):
    """A read returned without reading its rows to the end: it would keep the log from being copied."""


def open_read_only(path: Path) -> apsw.Connection:
    """A connection that cannot change the ledger. Close it within a second, or read in short transactions."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(2_000)
        # As in `store.open_ledger`: a statement that is kept is planned once.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA query_only = ON").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def read(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
    """All rows of one SELECT, each as a dict by column name."""
    cursor = connection.execute(sql, tuple(bindings))
    try:
        names = [column[0] for column in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return []
    return [dict(zip(names, row, strict=True)) for row in cursor]


class SearchEnded(Exception):
    """Nobody waits for this search any more."""


class Reader:
    """Runs reads on its own thread, one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ledger-reader")
        self._connection: apsw.Connection | None = None
        self._closed = False

    async def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """All rows of one SELECT, each as a dict by column name. Raises as `call`."""
        return await self.call(lambda connection: read(connection, sql, bindings))

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work(connection)` in one read transaction, so that several reads see one moment.

        Raises LedgerUnavailable if the ledger cannot be read, or what `work` raised.
        """
        if self._closed:
            raise LedgerUnavailable("stopping", "Onefill is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._in_transaction, work)

    async def close(self) -> None:
        """Waits for the read that runs, then closes the connection. Before the writer's close."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._executor, self._shut)
        self._executor.shutdown(wait=False)  # joining would block the loop; nothing is left to run

    def _in_transaction(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = open_read_only(self._path)
            connection = self._connection
            connection.execute("BEGIN").fetchall()
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK").fetchall()
                if connection.txn_state() != apsw.SQLITE_TXN_NONE:
                    self._shut()
                    raise CursorLeftOpen("a read was not read to its end; its connection has been closed")
        except apsw.Error as error:
            self._shut()
            raise presentable(error) from error

    def _shut(self) -> None:
        if self._connection is not None:
            self._connection.close(True)
            self._connection = None


class Searches:
    """Runs searches on a thread of its own, one after the other, each on a connection that it closes again:
    a long one keeps no short read waiting, and none is open when the ledger is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ledger-search")
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._ended = False
        self._closed = False

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Runs `work(connection)`.

        Raises SearchEnded if it was ended, LedgerUnavailable, or what `work` raised.
        """
        if self._closed:
            raise SearchEnded
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, work)

    def end(self) -> None:
        """Ends the search that runs, if one does. Any thread; returns at once."""
        with self._lock:
            if self._connection is not None:
                self._ended = True
                self._connection.interrupt()

    def close(self) -> None:
        """Ends the search that runs and takes no other. Does not block."""
        self._closed = True
        self.end()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            connection = open_read_only(self._path)
            with self._lock:
                self._connection, self._ended = connection, False
            # An interrupt between two statements is lost: this one is not.
            connection.set_progress_handler(lambda: self._ended, STEPS)
            try:
                if self._closed:
                    raise SearchEnded
                return work(connection)
            finally:
                with self._lock:
                    self._connection = None
                connection.close(True)
        except apsw.InterruptError as ended:
            raise SearchEnded from ended
        except apsw.Error as error:
            raise presentable(error) from error
