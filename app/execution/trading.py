"""Trading as one part: sessions and lanes, started after recovery, stopped before the brokers close.

Lanes are made from what the ledger holds, never from a handler's call alone, and a sweep finds whatever a
wake-up has missed: orders that nobody works on, sends that nobody waits for, lanes and sessions that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from app.clock import SECOND, Clock
from app.domain.order import State
from app.domain.risk import TradingState
from app.execution.lanes import Lane, ShownPrices
from app.execution.policy import AccountSetup
from app.execution.reconciler import Report
from app.execution.ruling import EarlierRuns
from app.execution.session import AccountFact, Session
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.ledger.orders import OPEN
from app.ledger.reader import Reader, Row
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.tasks import Tasks

log = structlog.get_logger(__name__)

SWEEP = 1.0
"""Seconds between two looks for what no commit has woken: orders past their time, brokers to try again."""
UNATTENDED = 5 * SECOND
"""A PENDING order that no lane has said a word about for this long is critical (HOLES H34)."""
DRAIN = 2.0
"""Seconds that orders on their way get at stop; what is still out then is asked for at the next start."""


class Trading:
    """`changed` is called on the loop whenever a fact of `facts` or the trading state may have changed.

    Where it does not send it has sessions and no lanes: brokers are asked, and nothing else.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        tasks: Tasks,
        accounts: Mapping[str, AccountSetup],
        interval: int,
        changed: Callable[[], None],
        sends: bool = True,
        steady: Callable[[], bool] = lambda: True,
    ) -> None:
        """`steady` says whether time has not jumped since it was last looked at. Any thread."""
        self._sends = sends
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._tasks = tasks
        self._changed = changed
        self._sessions = {
            name: Session(
                setup,
                writer,
                reader,
                clock,
                interval,
                self._account_changed,
                sends=sends,
                peers=tuple(other for other in accounts if other != name),
                steady=steady,
            )
            for name, setup in accounts.items()
        }
        self._prices = ShownPrices(0)
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._due = asyncio.Event()
        self._ignore: Callable[[], None] = lambda: None
        self._state = TradingState.ACTIVE
        self._earlier = EarlierRuns()
        self._silent: dict[int, int] = {}
        """PENDING orders without a word from a lane, and since when that has been seen."""
        self.unattended = 0
        """PENDING orders that nobody works on."""

    @property
    def state(self) -> TradingState:
        return self._state

    def facts(self) -> list[AccountFact]:
        return [session.fact for session in self._sessions.values()]

    async def start(self, wall_mark: int) -> None:
        """Starts every account. `wall_mark` is the newest wall time that an earlier run recorded (H32)."""
        left = await self._reader.rows(f"SELECT id, not_after FROM orders WHERE {OPEN} AND state = 'PENDING'")
        self._earlier = EarlierRuns(wall_mark, {row["id"]: row["not_after"] for row in left})
        (newest,) = await self._reader.rows("SELECT coalesce(max(id), 0) AS id FROM claims")
        self._prices = ShownPrices(newest["id"])
        rows = await self._reader.rows("SELECT value FROM meta WHERE name = 'trading_state'")
        self._state = TradingState(rows[0]["value"]) if rows else TradingState.ACTIVE
        self._ignore = self._writer.listen(self._on_commit)
        self._keep_sessions_running()
        if self._sends:
            self._running["sweep"] = self._tasks.start("sweep", self._sweep_for_ever())

    async def settle(self, seconds: float) -> None:
        """Where nothing is sent: waits until each account is ready or has failed, or the time is over."""
        assert not self._sends, "the sweep waits for the same event"
        try:
            async with asyncio.timeout(seconds):
                while any(fact.word in ("connecting", "reconciling") for fact in self.facts()):
                    self._due.clear()
                    await self._due.wait()
        except TimeoutError:
            log.warning("accounts are not ready", facts=[f"{fact.name} {fact.word}" for fact in self.facts()])

    def session(self, account: str) -> Session | None:
        """The session of an account, None where none of that name is configured."""
        return self._sessions.get(account)

    async def stop(self) -> None:
        """Takes no new order, lets what is on its way come back, then closes the brokers."""
        self._ignore()
        for session in self._sessions.values():
            session.closing = True
        sweep = self._running.pop("sweep", None)
        if sweep is not None:
            sweep.cancel()
        await self._drain()
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), *([sweep] if sweep else []), return_exceptions=True)
        await asyncio.gather(*(session.close() for session in self._sessions.values()))

    async def reconcile(self, account: str | None, cause: str) -> list[Report]:
        """Reconciles one account or all of them now. Raises LookupError for an unknown name."""
        if account is not None and account not in self._sessions:
            raise LookupError(f"there is no account {account!r}")
        chosen = self._sessions.values() if account is None else [self._sessions[account]]
        return [await session.reconcile(cause) for session in chosen]

    def note_state(self, state: TradingState) -> None:
        """The trading state as it is set: the last check before a send reads it (HOLES H30). What waits is
        decided anew when the state has been committed, so that nothing is kept for the resume."""
        self._state = state
        self._changed()

    def begin_anew(self) -> None:
        """Time has jumped: what the sessions know is old. Each opens and reconciles anew before it sends."""
        for session in self._sessions.values():
            session.begin_anew()

    def held_back(self, *, exits: bool) -> str | None:
        """Why nothing may be sent right now, or None. Any thread."""
        if self._state is TradingState.HALTED or (self._state is TradingState.EXITS_ONLY and not exits):
            return f"TRADING_HALTED state={self._state.value}"
        return None

    # ---------------------------------------------------------------- what is woken, and by what

    def _on_commit(self, tables: frozenset[str]) -> None:
        if "orders" in tables or "fills" in tables or "books" in tables or "meta" in tables:
            self._due.set()

    def _account_changed(self) -> None:
        self._due.set()
        self._changed()

    async def _sweep_for_ever(self) -> None:
        while True:
            self._due.clear()
            try:
                await self._sweep()
            except LedgerUnavailable as error:
                log.warning("sweep waits", error=str(error))
            except Exception as error:
                log.exception("a sweep failed", error=repr(error))
            try:
                async with asyncio.timeout(SWEEP):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _sweep(self) -> None:
        self._keep_sessions_running()
        rows = await self._reader.rows(
            "SELECT id, account, instrument, state, reason FROM orders "
            f"WHERE {OPEN} AND state IN ('PENDING', 'SUBMITTING')"
        )
        for account, instrument in {(row["account"], row["instrument"]) for row in rows}:
            self._wake_lane(account, instrument)
        in_hand = {lane.in_hand for lane in self._lanes.values()}
        if any(row["state"] == State.SUBMITTING and row["id"] not in in_hand for row in rows):
            await self._writer.run(self._doubt_orphans)
        self._note_unattended(rows)

    def _keep_sessions_running(self) -> None:
        for name, session in self._sessions.items():
            task = self._running.get(name)
            if task is None or task.done():
                self._running[name] = self._tasks.start(f"account {name}", session.run())

    def _wake_lane(self, account: str, instrument: str) -> None:
        """Wakes the lane of an account and instrument, made at first sight and made anew if it has died."""
        session = self._sessions.get(account)
        if session is None:
            return
        key, name = (account, instrument), f"{account}:{instrument}"
        task = self._running.get(name)
        if task is None or task.done():
            self._lanes[key] = Lane(
                session,
                instrument,
                writer=self._writer,
                reader=self._reader,
                clock=self._clock,
                prices=self._prices,
                held_back=self.held_back,
                earlier=self._earlier,
            )
            self._running[name] = self._tasks.start(f"lane {name}", self._lanes[key].run())
        self._lanes[key].wake()

    def _doubt_orphans(self, tx: Transaction) -> None:
        """A SUBMITTING order that no lane has in hand will never hear a reply: the broker must be asked.

        Seen from inside the transaction this is certain: a lane has its order in hand before it can write
        SUBMITTING, and until the reply is written.
        """
        in_hand = {lane.in_hand for lane in list(self._lanes.values())}
        for order in orders.where(tx, f"{OPEN} AND state = 'SUBMITTING'"):
            if order.id not in in_hand:
                reason = "INTERRUPTED nobody waits for its reply"
                now = self._clock.now()
                orders.move(tx, order, State.AMBIGUOUS, at=now, actor="supervisor", reason=reason)
                log.critical("an order was left on its way", order=order.name)

    def _note_unattended(self, rows: list[Row]) -> None:
        """Counts PENDING orders that no lane has given a reason to wait; those of a removed account too.

        Where the account is not ready, its own fact says why they wait: the time counts from when it is.
        """
        now = self._clock.boot()
        silent = [
            row["id"]
            for row in rows
            if row["state"] == State.PENDING and row["reason"] is None and self._should_answer(row["account"])
        ]
        self._silent = {order: self._silent.get(order, now) for order in silent}
        waiting = [f"O{order}" for order, since in self._silent.items() if now - since > UNATTENDED]
        if len(waiting) != self.unattended:
            self.unattended = len(waiting)
            if waiting:
                log.critical("orders wait unattended", orders=", ".join(waiting[:20]))
            self._changed()

    def _should_answer(self, account: str) -> bool:
        session = self._sessions.get(account)
        return session is None or session.ready.is_set()

    async def _drain(self) -> None:
        """Waits, within bounds, until no order is being decided or is on its way to a broker."""
        try:
            async with asyncio.timeout(DRAIN):
                for lane in self._lanes.values():
                    await lane.idle.wait()
        except TimeoutError:
            log.warning("stopping with orders on their way; the next start asks the broker")
