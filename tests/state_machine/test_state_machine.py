"""Any order of deliveries, faults, crashes, a person's presses and clock jumps, against a plain model.

The real ledger, lanes and paper exchange run behind it; every invariant is looked at after each step. What
a step draws never depends on how far the lanes are.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from contextlib import AsyncExitStack, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from structlog.testing import capture_logs

from app.clock import ManualClock
from app.domain.key import HeaderKeys
from app.engine import CommandRefused
from app.engine.at_rest import restore
from app.engine.credentials import Credentials
from app.engine.operator_commands import Person
from app.engine.requests import Requests
from app.engine.retention_commands import Keeping
from app.engine.upkeep import Upkeep
from app.execution import trading
from tests.execution.faults import Faults, FaultyBroker, Held
from tests.execution.kit import CONFIG, Desk, desk
from tests.state_machine import look
from tests.state_machine.model import SECOND, SKEW, Intent, Model, Signal

D = Decimal
T = TypeVar("T")
FREE = "[risk]\nposition_divisor = 1\nmax_orders_per_minute = 0\n"
STRATEGIES = ("A", "B")

LIMIT = st.sampled_from([False, False, True])
WHICH = st.integers(0, 99)
"""Names one of what there is, counted from the newest."""

BUYS = st.builds(
    Intent,
    st.sampled_from(STRATEGIES),
    st.just("buy"),
    st.integers(1, 9),
    LIMIT,
)
EXITS = st.builds(Intent, st.sampled_from(STRATEGIES), st.sampled_from(["exit", "sell"]), st.integers(1, 9))
ALL_OUT = st.builds(Intent, st.sampled_from(STRATEGIES), st.just("exit"), st.none())
FAULTS = st.sampled_from(["", "", "", "lost_before", "lost_after", "crash_before", "crash_after"])


def newest(found: list[T], which: int) -> T:
    return found[-1 - which % len(found)]


class Onefill(RuleBasedStateMachine):
    """One home over several runs of the program; each step waits for its own effect, not for the lanes."""

    home_made_once: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="onefill-sm-"))
        self.home = Path(shutil.copytree(self.home_made_once, self.folder / "home"))
        self.loop = asyncio.Runner()
        self.clock = ManualClock()
        self.newest_wall = self.clock.now()
        self.model = Model()
        self.sent: list[Signal] = []
        self.plan: list[str] = []
        self.seen = look.Seen()
        self.frozen: set[str] = set()
        """Client order ids that the exchange had when trading was last halted or restricted."""
        self.open: AsyncExitStack | None = None

    # ------------------------------------------------------------------------------------ runs of the program

    @initialize(fills=st.sampled_from(["async", "partial", "instant"]))
    def begin(self, fills: str) -> None:
        self.config = f'{CONFIG}fills = "{fills}"\n{FREE}'
        self.loop.run(self._start())

    async def _start(self) -> None:
        self.faults = Faults(lambda broker: broker.plan.extend(self.plan))
        self.open = AsyncExitStack()
        opened = desk(
            self.home, self.config, clock=self.clock, wrap=self.faults.wrap, wall_mark=self.newest_wall
        )
        self.desk: Desk = await self.open.enter_async_context(opened)
        d = self.desk
        self.upkeep = Upkeep(self.home, d.settings, d.writer, d.reader, d.clock)
        keeping = Keeping(self.upkeep, cast(Credentials, None))
        person = Person(d.writer, d.reader, d.trading, d.clock, d.settings, d.store.context)
        self.requests = Requests(d.writer, d.reader, d.trading, d.clock, d.tasks, keeping, person)

    async def _stop(self, drain: float = trading.DRAIN) -> None:
        if self.open is not None:
            opened, self.open = self.open, None
            self.plan = [fault for fault in self.faults.paper.plan if isinstance(fault, str)]
            await self.upkeep.close()
            with patch.object(trading, "DRAIN", drain):
                await opened.aclose()

    async def _press(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.requests.command(name, arguments, actor="person", request_id=uuid.uuid4().hex)

    @property
    def broker(self) -> FaultyBroker:
        return self.faults.paper

    # -------------------------------------------------------------------------------------------- deliveries

    async def _deliver(self, signal: Signal) -> str:
        now = self.clock.now()
        intent = signal.intent
        fields: dict[str, Any] = {"action": intent.action, "strategy": intent.strategy, "key": None}
        if intent.quantity is not None:
            fields["quantity"] = str(intent.quantity)
        if intent.limit:
            fields |= {"order_type": "limit", "limit_price": "90"}
        headers = HeaderKeys(idempotency_key=(signal.key,))
        verdict = await self.desk.deliver(headers=headers, fired_at=signal.fired // 1000, **fields)
        assert (verdict.kind, verdict.reason) == self.model.deliver(signal, now)
        return verdict.kind

    def _new(self, intent: Intent, ago: int = 0) -> Signal:
        """Time passes between two signals, as it does."""
        self._pass(1)
        signal = Signal(f"key-{len(self.sent):08}", intent, self.clock.now() - ago * SECOND)
        self.sent.append(signal)
        return signal

    def _pass(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND)
        self.newest_wall = max(self.newest_wall, self.clock.now())

    @rule(intent=BUYS | BUYS | EXITS | ALL_OUT, ago=st.sampled_from([0, 0, 0, 0, 91, 901]), fault=FAULTS)
    def deliver(self, intent: Intent, ago: int, fault: str) -> None:
        self.broker.plan.append(fault)
        self.loop.run(self._deliver(self._new(intent, ago)))

    @precondition(lambda self: self.sent)
    @rule(which=WHICH)
    def duplicate(self, which: int) -> None:
        signal = newest(self.sent, which)
        if signal.fired - self.clock.now() <= SKEW:
            self.loop.run(self._deliver(signal))

    @rule()
    def resend_all(self) -> None:
        self.loop.run(self._resend())

    async def _resend(self) -> None:
        for signal in self.sent[-12:]:
            if signal.fired - self.clock.now() <= SKEW:
                await self._deliver(signal)

    @rule(which=WHICH)
    def conflict(self, which: int) -> None:
        if not self.model.ledger.known:
            return
        known = newest(list(self.model.ledger.known.values()), which).signal
        other = Intent(known.intent.strategy, known.intent.action, (known.intent.quantity or 0) + 10)
        assert self.loop.run(self._deliver(Signal(known.key, other, known.fired))) == "conflict"

    # ------------------------------------------------------------------------------------------ the exchange

    @rule()
    def settle(self) -> None:
        self.loop.run(self._quiet())

    @rule()
    def market_falls(self) -> None:
        """What rests at 90 is filled, in one piece or several."""

        async def fall() -> None:
            await self._show("80")
            await self._quiet(resting=False)
            await self._show("100")

        self.loop.run(fall())

    async def _show(self, price: str) -> None:
        await self.desk.exchange.run(lambda book: book.show_price("AAPL", D(price)))

    async def _quiet(self, *, resting: bool = True) -> None:
        await self.desk.until(look.BUSY if resting else look.UNSETTLED, 0)

    # -------------------------------------------------------------------------------------- ends and starts

    @rule()
    def restart(self) -> None:
        async def again() -> None:
            await self._stop()
            await self._start()

        self.loop.run(again())

    @rule(intent=BUYS | ALL_OUT, where=st.sampled_from(["before_submit", "after_submit", None]))
    def crash(self, intent: Intent, where: str | None) -> None:
        """The program dies with an order on its way, or with whatever is under way."""

        async def die() -> None:
            held = None if where is None else self.broker.hold(where)
            await self._deliver(self._new(intent))
            if held is not None:
                await self._arrived_or_quiet(held)
            await self._stop(drain=0)
            await self._start()

        self.loop.run(die())

    async def _arrived_or_quiet(self, held: Held) -> None:
        """An order may end without being sent, by a brake or with nothing to do."""
        arrived = self.desk.tasks.start("arrived", held.arrived.wait())
        quiet = self.desk.tasks.start("quiet", self.desk.until(look.BUSY, 0))
        await asyncio.wait({arrived, quiet}, return_when=asyncio.FIRST_COMPLETED)
        for task in (arrived, quiet):
            task.cancel()
        await asyncio.gather(arrived, quiet, return_exceptions=True)

    @rule(seconds=st.sampled_from([61, 600, 3_600, -40, -600, -3_600]), sleeps=st.booleans())
    def clock_jumps(self, seconds: int, sleeps: bool) -> None:
        async def jump() -> None:
            if sleeps:
                self._pass(abs(seconds))
            else:
                self.clock.step(seconds * SECOND)
                self.newest_wall = max(self.newest_wall, self.clock.now())
            self.desk.trading.begin_anew()

        self.loop.run(jump())

    # ---------------------------------------------------------------------------------------------- a person

    @rule(to=st.sampled_from(["halted", "exits_only", "active", "active"]), intent=BUYS | EXITS)
    def brake(self, to: str, intent: Intent) -> None:
        async def press() -> None:
            if to == "active":
                await self._press("resume")
            else:
                await self._press("halt", exits_only=to == "exits_only")
            self.model.state = to
            await self._freeze()
            await self._deliver(self._new(intent))
            await self._quiet()

        self.loop.run(press())

    async def _freeze(self) -> None:
        """What had left before the brake may arrive; from here on nothing leaves."""
        await self.desk.until("SELECT count(*) FROM orders WHERE state = 'SUBMITTING'", 0)
        self.frozen = {row["client_order_id"] for row in self.desk.paper_orders()}

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        if self.seen.orders:
            self.loop.run(self._try("cancel", order=newest(self.seen.orders, which)))

    @rule(which=WHICH)
    def replay(self, which: int) -> None:
        if self.seen.orders:
            self.loop.run(self._try("replay", order=newest(self.seen.orders, which), why="I looked"))

    async def _try(self, name: str, **arguments: Any) -> None:
        """What is not to be done is refused, and then changes nothing: the invariants say so."""
        with suppress(CommandRefused):
            await self._press(name, **arguments)

    @rule(bodies=st.sampled_from([0, 60]), keys=st.sampled_from([None, 0, 0, 60]))
    def purge(self, bodies: int, keys: int | None) -> None:
        async def press() -> None:
            await self._quiet()
            await self._check()
            self._pass(31)
            cutoff = self.clock.now() - (keys or 0) * SECOND
            arguments: dict[str, Any] = {"bodies_older_than": bodies * SECOND}
            if keys is not None:
                arguments["keys_older_than"] = keys * SECOND
            answer = await self._press("purge", why="old", **arguments)
            left = await self.desk.reader.call(look.keys)
            forgotten = set(self.model.ledger.known) - left
            assert answer["keys"] == len(forgotten)
            assert forgotten <= (set() if keys is None else self.model.may_forget(cutoff))
            self.model.purged(forgotten, cutoff)
            await self._resend()

        self.loop.run(press())

    @rule()
    def back_up(self) -> None:
        number = uuid.uuid4().hex
        self.backup = self.folder / f"backup-{number}.sqlite3"
        self.loop.run(self._press("backup", file=str(self.backup)))
        self.model.backed_up()

    @precondition(lambda self: self.model.backup is not None)
    @rule(drain=st.sampled_from([0.0, trading.DRAIN]), resumes=st.booleans(), intent=BUYS)
    def go_back(self, drain: float, resumes: bool, intent: Intent) -> None:
        self.loop.run(self._stop(drain))
        self._pass(1)
        now, request = self.clock.now(), uuid.uuid4().hex
        with capture_logs():
            restore(self.home, self.backup, why="it broke", actor="person", request_id=request, now=now)
        self.model.restored(self.clock.now())
        self.frozen = set(look.paper_ids(self.home))
        self.loop.run(self._after_restore(resumes, intent))

    async def _after_restore(self, resumes: bool, intent: Intent) -> None:
        """What was lost comes again, and something new, before or after a person has looked."""
        await self._start()
        if resumes:
            await self._press("resume")
            self.model.state = "active"
        await self._resend()
        await self._deliver(self._new(intent))
        await self._quiet()

    # ---------------------------------------------------------------------------------------- after each step

    @invariant()
    def nothing_is_broken(self) -> None:
        if self.open is not None:
            self.loop.run(self._check())

    async def _check(self) -> None:
        # The exchange first: what it has is in the ledger before it is sent.
        paper = self.desk.paper_orders()
        await self.desk.reader.call(self._check_ledger)
        self.seen.check_exchange(paper, self.model)
        new = [row for row in paper if row["client_order_id"] not in self.frozen]
        if self.model.state == "halted":
            assert new == []
        if self.model.state == "exits_only":
            assert {row["side"] for row in new} <= {"sell"}

    def _check_ledger(self, connection: apsw.Connection) -> None:
        self.seen.check_ledger(connection, self.model)

    # ------------------------------------------------------------------------------------------------ the end

    def teardown(self) -> None:
        try:
            if self.open is not None:
                self.loop.run(self._end())
        finally:
            self.loop.run(self._stop())
            self.loop.close()
            shutil.rmtree(self.folder)

    async def _end(self) -> None:
        """Everything comes to rest, and what did not end well stands before a person."""
        await self._quiet()
        for row in await self.desk.orders():
            if row["state"] == "WORKING":
                await self._try("cancel", order=row["id"])
        await self._quiet(resting=False)
        await self._check()
        await self.desk.reader.call(lambda db: look.everything_is_told(db, self.clock.now()))


def _run(home: Path, examples: int, steps: int) -> None:
    kind = type("Onefill", (Onefill,), {"home_made_once": home})
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.long  # its histories wait on real threads, and a replayed one has come out otherwise
def test_no_history_breaks_an_invariant(home_made_once: Path) -> None:
    _run(home_made_once, 24, 15)
