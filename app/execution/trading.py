"""Trading as one part: sessions and lanes, started after recovery, stopped before the brokers close.

Lanes are made from what the ledger holds, never from a handler's call alone, and a sweep finds whatever a
wake-up has missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from app.clock import SECOND, Clock
from app.domain.risk import TradingState
from app.execution.lanes import Lane
from app.execution.policy import AccountSetup
from app.execution.reconciler import Report
from app.execution.session import AccountFact, Session
from app.ledger.reader import Reader
from app.ledger.writer import Writer
from app.tasks import Tasks

log = structlog.get_logger(__name__)

SWEEP = 1.0
"""Seconds between two looks for PENDING orders that no lane was woken for."""
UNATTENDED = 5 * SECOND
"""A PENDING order of a ready account that nobody looked at for this long is critical (HOLES H34)."""
DRAIN = 2.0
"""Seconds that orders on their way get at stop; what is still out then is asked for at the next start."""


class Trading:
    """`changed` is called on the loop whenever a fact of `facts` or the trading state may have changed."""

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
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._tasks = tasks
        self._changed = changed
        self._sessions = {
            name: Session(setup, writer, reader, clock, interval, changed) for name, setup in accounts.items()
        }
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._lane_tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._session_tasks: list[asyncio.Task[None]] = []
        self._sweeper: asyncio.Task[None] | None = None
        self._sweep_now = asyncio.Event()
        self._ignore: Callable[[], None] = lambda: None
        self._state = TradingState.ACTIVE
        self._wall_mark = 0
        self.unattended = 0

    @property
    def state(self) -> TradingState:
        return self._state

    def facts(self) -> list[AccountFact]:
        return [session.fact for session in self._sessions.values()]

    async def start(self, wall_mark: int) -> None:
        """Starts every account. `wall_mark` is the newest wall time that an earlier run recorded (H32)."""
        self._wall_mark = wall_mark
        await self._read_state()
        self._ignore = self._writer.listen(self._on_commit)
        for name, session in self._sessions.items():
            self._session_tasks.append(self._tasks.start(f"account {name}", session.run()))
        self._sweeper = self._tasks.start("sweep", self._sweep_for_ever())

    async def stop(self) -> None:
        """Takes no new order, lets what is on its way come back, then closes the brokers."""
        self._ignore()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in self._sessions.values():
            session.ready.clear()
        await self._drain()
        running = [*self._lane_tasks.values(), *self._session_tasks]
        running += [self._sweeper] if self._sweeper is not None else []
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()

    async def reconcile(self, account: str | None, cause: str) -> list[Report]:
        """Reconciles one account or all of them now. Raises LookupError for an unknown name."""
        if account is not None and account not in self._sessions:
            raise LookupError(f"there is no account {account!r}")
        chosen = self._sessions.values() if account is None else [self._sessions[account]]
        return [await session.reconcile(cause) for session in chosen]

    def note_state(self, state: TradingState) -> None:
        """The trading state as it was just committed: the last check before a send reads this (HOLES H30)."""
        self._state = state
        self._changed()

    def held_back(self, *, exits: bool) -> str | None:
        """Why nothing may be sent right now, or None."""
        if self._state is TradingState.HALTED or (self._state is TradingState.EXITS_ONLY and not exits):
            return f"TRADING_HALTED state={self._state.value}"
        return None

    def _on_commit(self, tables: frozenset[str]) -> None:
        if "orders" in tables or "fills" in tables:
            self._sweep_now.set()

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._sweep()
            try:
                # Not wait_for: on Python 3.11 it swallows a cancel that meets its result.
                async with asyncio.timeout(SWEEP):
                    await self._sweep_now.wait()
            except TimeoutError:
                await self._look_for_unattended()
            self._sweep_now.clear()

    async def _sweep(self) -> None:
        rows = await self._reader.rows(
            "SELECT DISTINCT account, instrument FROM orders WHERE state = 'PENDING'"
        )
        for row in rows:
            self._lane(row["account"], row["instrument"])

    def _lane(self, account: str, instrument: str) -> None:
        """Wakes the lane of an account and instrument, made at first sight and made anew if it has died."""
        key = (account, instrument)
        session = self._sessions.get(account)
        if session is None:
            return
        task = self._lane_tasks.get(key)
        if task is None or task.done():
            self._lanes[key] = Lane(
                session, instrument, self._writer, self._reader, self._clock, self.held_back, self._wall_mark
            )
            self._lane_tasks[key] = self._tasks.start(f"lane {account}:{instrument}", self._lanes[key].run())
        self._lanes[key].wake()

    async def _look_for_unattended(self) -> None:
        """Counts PENDING orders that no lane has given a reason to wait, although their account is ready."""
        ready = [name for name, session in self._sessions.items() if session.ready.is_set()]
        marks = ", ".join("?" * len(ready))
        rows = await self._reader.rows(
            "SELECT id FROM orders WHERE state = 'PENDING' AND reason IS NULL AND updated_at < ? "
            f"AND account IN ({marks})",
            (self._clock.now() - UNATTENDED, *ready),
        )
        if len(rows) != self.unattended:
            self.unattended = len(rows)
            if rows:
                log.critical("orders wait unattended", orders=[f"O{row['id']}" for row in rows[:20]])
            self._changed()

    async def _drain(self) -> None:
        """Waits, within bounds, until no order is being decided or is on its way to a broker."""
        try:
            async with asyncio.timeout(DRAIN):
                for lane in self._lanes.values():
                    await lane.idle.wait()
        except TimeoutError:
            log.warning("stopping with orders on their way; the next start asks the broker")

    async def _read_state(self) -> None:
        rows = await self._reader.rows("SELECT value FROM meta WHERE name = 'trading_state'")
        self._state = TradingState(rows[0]["value"]) if rows else TradingState.ACTIVE
