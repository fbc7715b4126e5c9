"""The only thing that writes the ledger: one thread, one connection, one transaction for all that waits.

This room is the queue in front of that thread (`batch` is what it does with it). An operation is answered
only after COMMIT has returned; a slow disk delays answers, never the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeVar

import apsw
import structlog

from app.clock import SECOND, Clock
from app.ledger import wal
from app.ledger.batch import Committer
from app.ledger.entry import Entry
from app.ledger.errors import LedgerUnavailable
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction

log = structlog.get_logger(__name__)
T = TypeVar("T")

OVERDUE = 5 * SECOND
"""An operation that has waited this long makes the door refuse at once (HOLES H20)."""
POST_DELAY = 0.05
"""Seconds that a posted operation waits for a commit to ride along with."""
MAX_BATCH = 256
GATHER = 0.003
GATHER_FROM = 5
"""After a batch of so many the next one is taken so many seconds later. Where many wait at once, more come
while they are answered, and a loop that hands them over one by one, as the window's does, would else pay a
sync for every few of them. PostgreSQL's commit_delay and commit_siblings are the same."""
PROBE_BYTES = 8 * 1024

Listener = Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class Health:
    """`word` is `ok`, or what is wrong, as in LedgerUnavailable; `wal_bytes` is what awaits a checkpoint.

    `detail` may carry a warning beside `ok`. `commits` and `operations` count since the start.
    """

    word: str
    detail: str
    wal_bytes: int
    commits: int
    operations: int


class Writer:
    """Takes operations from any thread with a running loop and commits them in groups.

    `fatal` is called, on the writer's thread, when the ledger can no longer be trusted in this process;
    after that every operation is refused.
    """

    def __init__(self, connection: apsw.Connection, clock: Clock, fatal: Callable[[str], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._committer = Committer(connection, clock, fatal, self._announce)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="ledger-writer")
        self._lock = threading.Lock()
        self._waiting: deque[Entry] = deque()
        self._due = False
        self._draining = False
        self._closed = False
        self._held: list[Entry] = []
        self._kick_loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[tuple[asyncio.AbstractEventLoop, Listener]] = []

    # ------------------------------------------------------------------ called on a loop

    async def run(
        self,
        operation: Callable[[Transaction], T],
        *,
        ticket: Ticket | None = None,
        on_void: Callable[[Transaction, T], None] | None = None,
        about: Hashable | None = None,
    ) -> T:
        """Runs `operation` in a write transaction and returns its value once that is on disk.

        Raises as `submit`. Cancelling the caller does not cancel the operation.
        """
        return await self.submit(operation, ticket=ticket, on_void=on_void, about=about)

    def submit(
        self,
        operation: Callable[[Transaction], T],
        *,
        ticket: Ticket | None = None,
        on_void: Callable[[Transaction, T], None] | None = None,
        about: Hashable | None = None,
        on_unrun: Callable[[], None] | None = None,
    ) -> asyncio.Future[T]:
        """Queues `operation` for a write transaction; the future has its value once that is on disk.

        `operation` may run more than once, and may not begin or end transactions. `on_void` runs in the very
        next transaction, perhaps more than once, if the value was not acknowledged although it may be on
        disk: the ticket went late during COMMIT, or COMMIT raised. `about` names what a ticketed operation
        decides on (a claim's key): operations about different things do not rest on each other, so one that
        goes late in their shared commit does not take the other with it. `on_unrun` is called on the loop if
        the ticket went late and nothing of the operation is on disk.

        The future raises TicketLate, LedgerUnavailable, or what the operation raised (its changes are
        undone). Whoever waits may end it before, by a cancellation or an error of his own: the operation goes
        on, and its value is told to nobody. Raises LedgerUnavailable itself if the ledger has closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        entry = Entry(operation, self._clock.boot(), ticket, on_void, about, loop, future, on_unrun)
        with self._lock:
            if self._closed:
                raise LedgerUnavailable("stopping", "Onefill is stopping")
            self._waiting.append(entry)
        self._start_draining()
        return future

    def post(self, operation: Callable[[Transaction], Any]) -> None:
        """Runs `operation` with the next commit that somebody waits for, or soon; nobody waits for it.

        Riding along with another commit keeps what is written after an answer from costing a sync of its own.
        Operations run in the order in which they were given, those with a ticket after the others of a batch.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._closed:
                log.warning("a ledger write was posted after the ledger had closed")
                return
            self._waiting.append(Entry(operation, self._clock.boot()))
            if self._kick_loop is not None and not self._kick_loop.is_closed():
                return
            self._kick_loop = loop
        loop.call_later(POST_DELAY, self._kick)

    async def probe(self) -> Health:
        """Writes something and returns the health after it.

        For a timer: where no delivery comes, this is what finds out that the ledger is full or locked, and
        that it is not any more, and what passes a barrier that is still owed.
        """
        with contextlib.suppress(LedgerUnavailable):
            await self.run(_take_and_return_space)
        return self.health

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener(tables)` on the current loop after each commit; returns what ends it."""
        entry = (asyncio.get_running_loop(), listener)
        self._listeners.append(entry)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(entry)

        return end

    @property
    def health(self) -> Health:
        word, detail = self._committer.trouble
        if word == "ok":
            detail = self._committer.wal.warning
            if self.is_overdue:
                word, detail = "locked", "a write has waited more than 5 s"
        return Health(
            word, detail, self._committer.wal.bytes, self._committer.commits, self._committer.operations
        )

    @property
    def is_overdue(self) -> bool:
        """Whether the oldest waiting operation has waited so long that the door should not queue another."""
        with self._lock:
            since = _awaited_since(self._held)
            if since is None and self._due:
                since = _awaited_since(self._waiting)
        return since is not None and self._clock.boot() - since > OVERDUE

    async def close(self) -> None:
        """Commits what still waits, checkpoints, closes the connection; at most two seconds for a lock."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._committer.closing = True
        await asyncio.get_running_loop().run_in_executor(self._executor, self._shut)
        self._executor.shutdown(wait=False)  # joining would block the loop; nothing is left to run

    # ------------------------------------------------------------------ the queue

    def _kick(self) -> None:
        with self._lock:
            self._kick_loop = None
        self._start_draining()

    def _start_draining(self) -> None:
        with self._lock:
            self._due = True
            if self._draining or self._closed:
                return
            self._draining = True
            self._executor.submit(self._drain)

    def _take(self) -> list[Entry]:
        """The next batch, oldest first; none while all that waits was posted and its time has not come."""
        with self._lock:
            count = min(len(self._waiting), MAX_BATCH) if self._due else 0
            batch = [self._waiting.popleft() for _ in range(count)]
            self._due = count > 0 and bool(self._waiting)
            self._draining = count > 0
            self._held = batch
            return batch

    def _put_back(self, entries: list[Entry]) -> None:
        """What waits for the lock waits at the front, and what has come meanwhile is let in beside it."""
        with self._lock:
            self._waiting.extendleft(reversed(entries))
            self._due = self._due or bool(entries)
            if not entries:
                self._held = []

    def _drain(self) -> None:
        try:
            while batch := self._take():
                self._put_back(self._committer.run(batch))
                if len(batch) >= GATHER_FROM and not self._closed:
                    sleep(GATHER)
                self._committer.wal.copy(wal.PAGES_BUSY)
            self._committer.wal.copy(wal.PAGES_IDLE)
        except BaseException as error:
            # The executor would keep it to itself, and nothing would ever be drained again (HOLES H20).
            log.critical("ledger writer failed", error=repr(error), exc_info=error)
            with self._lock:
                self._held = []
                self._draining = bool(self._waiting) and not self._closed
                if self._draining:
                    self._executor.submit(self._drain)

    def _shut(self) -> None:
        self._due = True
        self._drain()
        self._committer.settle_debts()
        self._committer.wal.empty()
        self._connection.close()

    def _announce(self, topics: frozenset[str]) -> None:
        for entry in list(self._listeners):
            loop, listener = entry
            try:
                loop.call_soon_threadsafe(listener, topics)
            except RuntimeError:
                log.warning("a ledger listener's loop has closed")
                with contextlib.suppress(ValueError):
                    self._listeners.remove(entry)


def _take_and_return_space(transaction: Transaction) -> None:
    """A change that needs new pages, so that it fails where a claim would, and leaves nothing behind."""
    transaction.set_meta("probe", " " * PROBE_BYTES)
    transaction.execute("DELETE FROM meta WHERE name = 'probe'")


def _awaited_since(entries: Iterable[Entry]) -> int | None:
    """Since when the oldest operation waits that somebody waits for: what is posted may take its time."""
    return min(
        (entry.since for entry in entries if entry.future is not None and not entry.settled), default=None
    )
