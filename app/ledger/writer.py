"""The only thing that writes the ledger: one thread, one connection, one transaction for all that waits.

An operation is answered only after COMMIT has returned. Nothing here knows what an operation means, and
no operation's error may stop the thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import apsw
import structlog

from app.clock import SECOND, Clock
from app.failpoint import failpoint
from app.ledger.errors import CommitUnknown, LedgerUnavailable, TicketLate, named, word_of
from app.ledger.ticket import Outcome, Ticket
from app.ledger.transaction import Transaction

log = structlog.get_logger(__name__)
T = TypeVar("T")

LOCK_WAIT_MS = 200
"""How long one BEGIN waits for another process's lock before late tickets are let go."""
PATIENCE = 10 * SECOND
"""How long an operation without a ticket waits for the lock before it fails."""
OVERDUE = 5 * SECOND
"""An operation that has waited this long makes the door refuse at once (HOLES H20)."""
POST_DELAY = 0.05
"""Seconds that a posted operation waits for a commit to ride along with."""
MAX_BATCH = 256
CHECKPOINT_PAGES = 1_000
CHECKPOINT_PAGES_BUSY = 4_000


@dataclass(frozen=True, slots=True)
class Health:
    """`word` is `ok`, or what is wrong, as in LedgerUnavailable; `wal_bytes` is what awaits a checkpoint."""

    word: str
    detail: str
    wal_bytes: int
    commits: int
    operations: int


@dataclass(slots=True, eq=False)
class _Entry:
    operation: Callable[[Transaction], Any]
    ticket: Ticket | None
    on_void: Callable[[Transaction, Any], None] | None
    loop: asyncio.AbstractEventLoop | None
    future: asyncio.Future[Any] | None
    since: int
    value: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)


class Writer:
    """Takes operations from any thread with a running loop and commits them in groups.

    `fatal` is called, on the writer's thread, when the ledger can no longer be trusted in this process.
    """

    def __init__(self, connection: apsw.Connection, clock: Clock, fatal: Callable[[str], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._fatal = fatal
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ledger-writer")
        self._lock = threading.Lock()
        self._pending: deque[_Entry] = deque()
        self._posted: deque[_Entry] = deque()
        self._draining = False
        self._kick_due = False
        self._closed = False
        self._held_since: int | None = None
        self._voided: list[tuple[Callable[[Transaction, Any], None], Any]] = []
        self._barrier_failures = 0
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Callable[[frozenset[str]], None]]] = []
        self._word = "ok"
        self._detail = ""
        self._wal_pages = 0
        self._commits = 0
        self._operations = 0
        connection.set_busy_timeout(LOCK_WAIT_MS)
        connection.wal_autocheckpoint(0)
        connection.set_wal_hook(self._note_wal)

    # ------------------------------------------------------------------ called on a loop

    async def run(
        self,
        operation: Callable[[Transaction], T],
        *,
        ticket: Ticket | None = None,
        on_void: Callable[[Transaction, T], None] | None = None,
    ) -> T:
        """Runs `operation` in a write transaction and returns its value once that is on disk.

        `on_void` runs in a later transaction if the value was not acknowledged although it may be on disk:
        the ticket went late during COMMIT, or COMMIT raised. Raises TicketLate, LedgerUnavailable, or what
        the operation raised (its changes are undone). Cancelling the caller does not cancel the operation.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._add(_Entry(operation, ticket, cast(Any, on_void), loop, future, self._clock.boot()))
        return cast(T, await future)

    def post(self, operation: Callable[[Transaction], Any]) -> None:
        """Runs `operation` with the next commit that somebody waits for, or soon; nobody waits for it.

        Riding along with another commit keeps what is written after an answer from costing a sync of its own.
        """
        with self._lock:
            if self._closed:
                return
            self._posted.append(_Entry(operation, None, None, None, None, self._clock.boot()))
            if self._kick_due:
                return
            self._kick_due = True
        asyncio.get_running_loop().call_later(POST_DELAY, self._kick)

    def listen(self, listener: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        """Calls `listener(tables)` on the current loop after each commit; returns what ends it."""
        entry = (asyncio.get_running_loop(), listener)
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry) if entry in self._listeners else None

    @property
    def health(self) -> Health:
        if self.is_overdue and self._word == "ok":
            return Health(
                "locked",
                "a write has waited more than 5 s",
                self._wal_bytes(),
                self._commits,
                self._operations,
            )
        return Health(self._word, self._detail, self._wal_bytes(), self._commits, self._operations)

    @property
    def is_overdue(self) -> bool:
        """Whether the oldest waiting operation has waited so long that the door should not queue another."""
        since = self._held_since
        return since is not None and self._clock.boot() - since > OVERDUE

    async def close(self) -> None:
        """Commits what still waits, checkpoints, and closes the connection."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._closed = True
        await loop.run_in_executor(self._executor, self._shut)
        self._executor.shutdown(wait=True)

    # ------------------------------------------------------------------ the queue

    def _add(self, entry: _Entry) -> None:
        with self._lock:
            if self._closed:
                raise LedgerUnavailable("stopping", "Onefill is stopping")
            self._pending.append(entry)
        self._start_draining()

    def _kick(self) -> None:
        with self._lock:
            self._kick_due = False
        self._start_draining()

    def _start_draining(self) -> None:
        with self._lock:
            if self._draining or self._closed:
                return
            self._draining = True
        self._executor.submit(self._drain)

    def _take(self) -> list[_Entry]:
        with self._lock:
            batch: list[_Entry] = []
            for queue in (self._pending, self._posted):
                while queue and len(batch) < MAX_BATCH:
                    batch.append(queue.popleft())
            if not batch:
                self._draining = False
            return batch

    def _drain(self) -> None:
        while batch := self._take():
            self._held_since = min(entry.since for entry in batch)
            try:
                self._run_batch(batch)
            except BaseException as error:  # noqa: BLE001 - one batch's fault must not end the thread (HOLES H20)
                log.critical("ledger batch failed", error=repr(error), exc_info=error)
                self._settle([entry for entry in batch if entry.error is None], error)
            finally:
                self._roll_back()
                self._held_since = None
                self._maybe_checkpoint(CHECKPOINT_PAGES_BUSY)
        self._maybe_checkpoint(CHECKPOINT_PAGES)

    def _shut(self) -> None:
        self._drain()
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            log.warning("ledger not checkpointed at stop", error=str(error))
        self._connection.close()

    # ------------------------------------------------------------------ one batch

    def _run_batch(self, batch: list[_Entry]) -> None:
        batch = self._begin(batch)
        if not batch:
            return
        ran: list[_Entry] = []
        for position, entry in enumerate(batch):
            if entry.ticket is not None and entry.ticket.outcome is Outcome.LATE:
                self._settle([entry], TicketLate(ran=False))
                continue
            ran.append(entry)
            try:
                self._run_in_savepoint(entry)
            except apsw.Error as error:
                if self._connection.in_transaction:
                    entry.error = named(error)
                    continue
                # SQLite has rolled everything back by itself: nothing of this batch stands, and no further
                # statement of it may run, for each would commit on its own (HOLES H18).
                self._run_one_by_one(ran + batch[position + 1 :])
                return
            except Exception as error:  # noqa: BLE001 - the operation's own error goes to its caller
                entry.error = error
        failpoint("before_commit")
        self._commit(ran)

    def _run_in_savepoint(self, entry: _Entry) -> None:
        entry.topics = set()
        connection = self._connection
        connection.execute("SAVEPOINT operation")
        try:
            entry.value = entry.operation(Transaction(connection, entry.topics))
        except BaseException:
            entry.value = None
            entry.topics = set()
            if connection.in_transaction:
                connection.execute("ROLLBACK TO operation")
                connection.execute("RELEASE operation")
            raise
        connection.execute("RELEASE operation")

    def _run_one_by_one(self, entries: list[_Entry]) -> None:
        for entry in entries:
            entry.error = None
            entry.value = None
            if not self._begin([entry]):
                continue
            if entry.ticket is not None and entry.ticket.outcome is Outcome.LATE:
                self._roll_back()
                self._settle([entry], TicketLate(ran=False))
                continue
            try:
                entry.topics = set()
                entry.value = entry.operation(Transaction(self._connection, entry.topics))
            except Exception as error:  # noqa: BLE001 - the operation's own error goes to its caller
                entry.error = named(error) if isinstance(error, apsw.Error) else error
                self._note(entry.error)
                self._roll_back()
                self._settle([entry], entry.error)
                continue
            self._commit([entry])

    def _begin(self, batch: list[_Entry]) -> list[_Entry]:
        """Opens the transaction, first the barrier's where one is owed. Returns what is left of the batch."""
        while True:
            try:
                if self._voided:
                    self._run_barrier()
                self._connection.execute("BEGIN IMMEDIATE")
                return batch
            except apsw.BusyError as error:
                self._word, self._detail = "locked", "another program holds the ledger's lock"
                late = [e for e in batch if e.ticket is not None and e.ticket.outcome is Outcome.LATE]
                self._settle(late, TicketLate(ran=False))
                now = self._clock.boot()
                tired = [e for e in batch if e.ticket is None and now - e.since > PATIENCE]
                self._settle(tired, LedgerUnavailable("locked", str(error)))
                batch = [e for e in batch if e not in late and e not in tired]
                if not batch:
                    return []
            except apsw.Error as error:
                unavailable = named(error)
                self._note(unavailable)
                self._roll_back()
                self._settle(batch, unavailable)
                return []

    def _commit(self, ran: list[_Entry]) -> None:
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            unknown = CommitUnknown(word_of(error) or "failing", str(error))
            self._note(unknown)
            self._roll_back()
            self._voided += [(e.on_void, e.value) for e in ran if e.error is None and e.on_void is not None]
            for entry in ran:
                self._settle([entry], entry.error or unknown)
            return
        failpoint("after_commit")
        self._commits += 1
        self._operations += len(ran)
        self._word, self._detail = "ok", ""
        topics: set[str] = set()
        late: list[_Entry] = []
        for entry in ran:
            topics |= entry.topics
            acknowledged = entry.ticket is None or entry.ticket.acknowledge()
            if entry.error is not None:
                self._note(entry.error)
                self._settle([entry], entry.error)
            elif acknowledged:
                self._settle([entry], None)
            else:
                late.append(entry)
        if late:
            self._voided += [(e.on_void, e.value) for e in late if e.on_void is not None]
            self._settle(late, TicketLate(ran=True))
            try:
                self._run_barrier()
            except apsw.Error as error:
                self._note(named(error))
                self._roll_back()
        self._announce(frozenset(topics))

    def _run_barrier(self) -> None:
        """Marks what was refused although it may be on disk, before anything else may run (HOLES H17, H19)."""
        if not self._voided:
            return
        topics: set[str] = set()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            transaction = Transaction(self._connection, topics)
            for on_void, value in self._voided:
                on_void(transaction, value)
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            self._barrier_failures += 1
            if (
                isinstance(error, apsw.IOError | apsw.CorruptError | apsw.NotADBError)
                and self._barrier_failures >= 3
            ):
                self._fatal(f"the ledger cannot be written safely any more: {error}")
            raise
        self._barrier_failures = 0
        self._voided = []
        self._announce(frozenset(topics))

    # ------------------------------------------------------------------ small parts

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except apsw.Error as error:
                log.exception("rollback failed", error=str(error))

    def _settle(self, entries: list[_Entry], error: BaseException | None) -> None:
        for entry in entries:
            entry.error = error
            if entry.loop is None or entry.future is None:
                if error is not None:
                    log.error("posted ledger write failed", error=repr(error))
                continue
            try:
                entry.loop.call_soon_threadsafe(_resolve, entry.future, entry.value, error)
            except RuntimeError:
                log.warning("a ledger write ended after its loop had closed")

    def _announce(self, topics: frozenset[str]) -> None:
        if not topics:
            return
        for loop, listener in list(self._listeners):
            try:
                loop.call_soon_threadsafe(listener, topics)
            except RuntimeError:
                log.warning("a ledger listener's loop has closed")

    def _note(self, error: BaseException) -> None:
        if isinstance(error, LedgerUnavailable):
            self._word, self._detail = error.word, error.detail

    def _note_wal(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _wal_bytes(self) -> int:
        return self._wal_pages * 4096

    def _maybe_checkpoint(self, pages: int) -> None:
        """Copies into the main file between batches, never inside somebody's COMMIT (HOLES H24)."""
        if self._wal_pages < pages:
            return
        try:
            left, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._wal_pages = max(0, left - copied)
        except apsw.Error as error:
            log.warning("checkpoint failed", error=str(error))


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
