"""The paper exchange as a broker: its own thread, its own file, its own luck with the disk (HOLES H42).

Everything that touches the file runs on the exchange's one thread; the loop only waits for replies. Nothing
here retries a placement or reads the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import structlog

from app.brokers.base import (
    Account,
    BrokerFacts,
    BrokerOrder,
    Fill,
    IdClass,
    InstrumentRules,
    LastCheck,
    LookupFailed,
    Market,
    OrderRequest,
    Snapshot,
    SubmitReply,
    Unsent,
)
from app.brokers.paper_book import PaperBook
from app.brokers.paper_file import PaperBookRefused
from app.brokers.paper_match import FillMode
from app.clock import Clock
from app.domain.sizing import SMALLEST_STEP

__all__ = ["FILE_NAME", "FillMode", "PaperBookRefused", "PaperBroker", "PaperExchange"]

log = structlog.get_logger(__name__)
T = TypeVar("T")

FILE_NAME = "paper.sqlite3"

FACTS = BrokerFacts(
    id_class=IdClass.B,
    flips_in_one_order=True,
    reduce_only_enforced=False,
    priced_by_payload=True,
    absence_is_immediate=True,
)

ALWAYS_OPEN = Market(is_open=True, reason="the paper exchange never closes")
RULES = InstrumentRules(step=SMALLEST_STEP, minimum=SMALLEST_STEP, is_tradable=True, is_shortable=True)


class PaperExchange:
    """One exchange file and the thread that owns it. Several accounts may trade there.

    After each job, while the book owes fills, one more job makes one fill for each order that is owed one.
    So an `async` order is filled right after its reply; the second half of a `partial` one after the next
    call, whatever it asks, so that the first can be seen; and a fill that failed (disk full) is tried again
    with the next call.
    """

    def __init__(self, path: Path, clock: Clock, vfs: str | None = None) -> None:
        """`path` is the file, `paper.sqlite3` in the home. `vfs` names an apsw VFS, for power-cut tests."""
        self._path = path
        self._clock = clock
        self._vfs = vfs
        self._executor: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._book: PaperBook | None = None
        self._is_follow_up_queued = False
        self._wakes: dict[str, list[Callable[[], None]]] = {}

    async def open(self) -> None:
        """Starts the thread, opens or makes the file, and fills what an interrupted run left to fill.

        Raises PaperBookRefused where the file must not be used.
        """
        if self._executor is not None:
            raise RuntimeError("the paper exchange is open already")
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="paper-exchange")
        try:
            await self._loop.run_in_executor(self._executor, self._open_book)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Waits for the jobs already handed over, closes the file, ends the thread. May be called twice."""
        executor, self._executor = self._executor, None
        self._wakes.clear()
        if executor is None or self._loop is None:
            return
        try:
            await self._loop.run_in_executor(executor, self._close_book)
        finally:
            # Joining would block the loop; the file is closed and the thread has nothing left but to end.
            executor.shutdown(wait=False)

    async def run(self, job: Callable[[PaperBook], T]) -> T:
        """Runs `job` on the exchange's thread. Raises LookupFailed when the exchange is not open."""
        if self._executor is None or self._loop is None:
            raise LookupFailed("the paper exchange is not open")
        return await self._loop.run_in_executor(self._executor, self._run_job, job)

    def wake_on_activity(self, account: str, wake: Callable[[], None]) -> None:
        """`wake` is called on the loop whenever an order of `account` has changed, until either closes."""
        self._wakes.setdefault(account, []).append(wake)

    def forget(self, account: str) -> None:
        """No more wakes for `account`."""
        self._wakes.pop(account, None)

    # ------------------------------------------------------------------ on the exchange's thread

    def _open_book(self) -> None:
        self._book = PaperBook(self._path, self._clock, self._vfs)
        try:
            self._book.fill_all_due()
        except LookupFailed as error:
            log.warning("fills of an earlier run are still owed", error=str(error))
        self._book.take_touched()

    def _close_book(self) -> None:
        book, self._book = self._book, None
        if book is not None:
            book.close()

    def _run_job(self, job: Callable[[PaperBook], T]) -> T:
        if self._book is None:
            raise LookupFailed("the paper exchange is closed")
        try:
            return job(self._book)
        finally:
            self._queue_follow_up(self._book)

    def _queue_follow_up(self, book: PaperBook) -> None:
        """A job of its own, so that fills and wakes do not hold back the reply of what caused them."""
        executor = self._executor
        if self._is_follow_up_queued or executor is None:
            return
        try:
            is_needed = book.has_touched or book.owes_fills()
        except LookupFailed:
            return
        if is_needed:
            self._is_follow_up_queued = True
            executor.submit(self._follow_up)

    def _follow_up(self) -> None:
        self._is_follow_up_queued = False
        book, loop = self._book, self._loop
        if book is None or loop is None:
            return
        try:
            book.fill_due()
        except LookupFailed as error:
            log.warning("a paper fill failed and is still owed", error=str(error))
        except Exception as error:  # nobody awaits this job: its error must be seen here
            log.exception("a paper fill failed", error=repr(error))
        for account in sorted(book.take_touched()):
            loop.call_soon_threadsafe(self._wake, account)

    def _wake(self, account: str) -> None:
        for wake in list(self._wakes.get(account, ())):
            wake()


class PaperBroker:
    """One account at a paper exchange. The exchange itself is opened and closed by its owner.

    `reference_price` of a request is the alert's price, never the order's own limit or stop price: it is kept
    as the symbol's last price and decides whether the order fills at once.
    """

    def __init__(
        self, exchange: PaperExchange, account_name: str, cash: Decimal, fill_mode: FillMode | str
    ) -> None:
        self._exchange = exchange
        self._name = account_name
        self._cash = cash
        self._mode = FillMode(fill_mode)

    @property
    def facts(self) -> BrokerFacts:
        return FACTS

    async def connect(self) -> Account:
        """Makes the account on first sight; its identity is made once and stays."""
        return await self._exchange.run(lambda book: book.open_account(self._name, self._cash))

    async def close(self) -> None:
        self._exchange.forget(self._name)

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        """`last_check` is called on the exchange's thread, with the write lock held, before the first write.

        Refused codes: INVALID_ORDER, NO_PRICE, INSUFFICIENT_FUNDS. A refused order leaves no row and does not
        use up its client order id.
        """
        try:
            return await self._exchange.run(
                lambda book: book.submit(self._name, request, self._mode, last_check)
            )
        except LookupFailed as error:
            return Unsent(str(error))

    async def cancel(self, client_order_id: str) -> None:
        await self._exchange.run(lambda book: book.cancel(self._name, client_order_id))

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        return await self._exchange.run(lambda book: book.find(self._name, client_order_id))

    async def account(self) -> Account:
        return await self._exchange.run(lambda book: book.account(self._name))

    async def position(self, instrument: str) -> Decimal:
        return await self._exchange.run(lambda book: book.position(self._name, instrument))

    async def quote(self, instrument: str) -> Decimal | None:
        return await self._exchange.run(lambda book: book.quote(instrument))

    async def fills(self, client_order_id: str) -> list[Fill]:
        return await self._exchange.run(lambda book: book.fills(self._name, client_order_id))

    async def snapshot(self, since: int) -> Snapshot:
        return await self._exchange.run(lambda book: book.snapshot(self._name, since))

    async def market(self, _instrument: str) -> Market:
        return ALWAYS_OPEN

    async def rules(self, _instrument: str) -> InstrumentRules:
        return RULES

    async def observe_price(self, instrument: str, price: Decimal) -> None:
        """Keeps the price as the symbol's last one, for every account, and lets it fill what rests there."""
        await self._exchange.run(lambda book: book.show_price(instrument, price))

    def on_activity(self, wake: Callable[[], None]) -> None:
        self._exchange.wake_on_activity(self._name, wake)
