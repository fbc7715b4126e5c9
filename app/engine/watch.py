"""The engine's pulse: the loop's lag, the clock, the ledger's health, the counts. Looks and notes, no more.

Compares clocks after waking, since a timer of the window's loop may come early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import apsw
import structlog

from app.clock import SECOND, Clock
from app.engine.jumps import ClockJumps
from app.engine.lag import LoopLag
from app.engine.recovery import mark_wall_time
from app.ledger.counts import Counts
from app.ledger.errors import LedgerUnavailable
from app.ledger.needs import needs
from app.ledger.reader import Reader
from app.ledger.standing import Trouble, troubles
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.tasks import Tasks

log = structlog.get_logger(__name__)

BEAT = 0.5
"""Seconds between two looks."""
PROBE_EVERY = SECOND
LOCK_EVERY = 2 * SECOND
MARK_EVERY = 60 * SECOND
RECOUNT_EVERY = 300 * SECOND
JUMP_SHOWN = 600 * SECOND


class Watch:
    """`wall_mark` is the newest wall time that an earlier run has seen; `changed` is called when a look found
    something else than the one before, `jumped` when time did."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        wall_mark: int,
        changed: Callable[[], None],
        jumped: Callable[[], None] = lambda: None,
        jumps: ClockJumps | None = None,
    ) -> None:
        self.lag = LoopLag()
        self.counts = Counts()
        self.counts_due = False
        self.needs = 0
        """How much waits for a person."""
        self.troubles: dict[str, Trouble] = {}
        """By account: what its ledger and its broker do not agree about."""
        self.jump = 0
        """Microseconds of a step of the wall clock within the last ten minutes."""
        self.stood_still = 0
        """Microseconds that the program stood still within the last ten minutes, as asleep."""
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._wall_mark = wall_mark
        self._changed = changed
        self._began_at = clock.now()
        self._jumped = jumped
        self._jumps = jumps or ClockJumps(clock)
        self._jumped_at = 0
        self._seen: object = None
        self._lock_lost: Callable[[], str | None] = lambda: None
        self._give_up: Callable[[str], None] = lambda _why: None

    def guard(self, lost: Callable[[], str | None], give_up: Callable[[str], None]) -> None:
        """Asks `lost` (blocking) every few seconds whether this run is still alone, and gives up once not."""
        self._lock_lost, self._give_up = lost, give_up

    @property
    def behind(self) -> int:
        """Microseconds that the clock stands before what an earlier run has seen."""
        return max(0, self._wall_mark - self._clock.now())

    def start(self, tasks: Tasks) -> None:
        """Starts looking; the counts come with the first look, since a door must not wait for them."""
        self.counts_due = True
        tasks.start("loop lag", self.lag.measure())
        tasks.start("pulse", self._look_for_ever())
        tasks.start("ledger watch", self._watch_ledger())
        tasks.start("lock watch", self._watch_lock())

    async def _look_for_ever(self) -> None:
        recounted = self._clock.boot()
        while True:
            await asyncio.sleep(BEAT)
            self._look_at_clock()
            anew = self._clock.boot() - recounted >= RECOUNT_EVERY
            if self.counts_due or anew:
                self.counts_due = False
                try:
                    await self._count(anew=anew)
                except apsw.Error as error:
                    log.warning("the ledger could not be counted", error=str(error))
                recounted = self._clock.boot() if anew else recounted
            seen = (
                self.numbers(),
                self.troubles,
                self._writer.health.word,
                self.jump,
                self.stood_still,
                self.behind > 0,
                self.lag.max_ms,
            )
            if seen != self._seen:
                self._seen = seen
                self._changed()

    def numbers(self) -> dict[str, int]:
        return {**self.counts.values(), "needs": self.needs}

    async def _count(self, *, anew: bool) -> None:
        counts = Counts() if anew else self.counts
        now = self._clock.now()
        await self._reader.call(lambda db: counts.read(db, now))
        self.needs, self.troubles = await self._reader.call(lambda db: _standing(db, now))
        self.counts = counts

    def _look_at_clock(self) -> None:
        jump = self._jumps.look()
        if jump is not None:
            self.jump, self.stood_still = jump.step or self.jump, jump.stood_still or self.stood_still
            self._jumped_at = self._clock.boot()
            log.warning("time jumped", stepped=jump.step // SECOND, stood_still=jump.stood_still // SECOND)
            self._jumped()
        elif self._clock.boot() - self._jumped_at > JUMP_SHOWN:
            self.jump = self.stood_still = 0

    async def _watch_ledger(self) -> None:
        """Where no delivery comes, this finds that the ledger fails, and that it does not any more."""
        probed = marked = self._clock.boot()
        while True:
            await asyncio.sleep(BEAT)
            boot = self._clock.boot()
            if self._writer.health.word != "ok" and boot - probed >= PROBE_EVERY:
                await self._writer.probe()
                probed = self._clock.boot()
            if boot - marked >= MARK_EVERY:
                await self.mark()
                await self._writer.probe()
                marked = self._clock.boot()

    async def _watch_lock(self) -> None:
        """Ends with the first answer: an instance that may not be alone takes no more signals."""
        looked = self._clock.boot()
        why: str | None = None
        while why is None:
            await asyncio.sleep(BEAT)
            if self._clock.boot() - looked >= LOCK_EVERY:
                why = await asyncio.to_thread(self._lock_lost)
                looked = self._clock.boot()
        self._give_up(why)

    async def mark(self) -> None:
        """Keeps the newest wall time seen (HOLES H32)."""
        try:
            await self._writer.run(self._mark_now())
        except LedgerUnavailable as error:
            log.warning("the time was not kept", ledger=str(error))

    def mark_at_stop(self) -> None:
        """The same with the ledger's last commit."""
        self._writer.post(self._mark_now())

    def _mark_now(self) -> Callable[[Transaction], None]:
        now = self._clock.now()
        return lambda tx: mark_wall_time(tx, now, self._began_at)


def _standing(connection: apsw.Connection, now: int) -> tuple[int, dict[str, Trouble]]:
    found = needs(connection, now)
    return len(found), troubles(connection, found, now)
