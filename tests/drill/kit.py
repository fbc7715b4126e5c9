"""The real execution room and the real Alpaca adapter against the simulated exchange, over real sockets.

Time stands still unless `time_runs`; then minutes pass in milliseconds, for both sides alike. What ends must
satisfy the judge (app/drill/judge.py), in every scenario.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from app.brokers.alpaca import Addresses, AlpacaBroker
from app.brokers.alpaca_http import Keys
from app.brokers.alpaca_wire import CODES, FACTS
from app.brokers.base import Broker, BrokerFacts, IdClass
from app.brokers.classify import ReplyCodes
from app.clock import SECOND, ManualClock
from app.domain import absence
from app.drill.book import Book
from app.drill.faults import Fault, FaultPlan, Reply, Taken
from app.drill.judge import violations
from app.drill.rules import Rules
from app.drill.server import SimulatedExchange
from tests.drill.exchange_kit import NUMBER, furnish
from tests.execution.kit import SETTLED, Desk, desk
from tests.execution.operator_kit import Hand

CONFIG = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["venue"]

[[accounts]]
name = "venue"
broker = "paper"

[execution]
request_timeout = "1s"
"""
"""Broker "paper" stands for what the desk builds; the kit puts the adapter of the exchange in its place."""

UNHURRIED = 1_000_000
"""Requests a minute: a clock that stands still never gives a budget back."""
VENUE = replace(FACTS, requests_per_minute=UNHURRIED)
SCHEDULE = absence.SCHEDULE
"""The product's own; the desk's is patched to nothing."""
TICK = 5 * SECOND
"""How far time goes at once while it runs."""
EVERY = 0.004
"""Wall seconds between two ticks."""
PATIENCE = 40.0


def of_class(id_class: str) -> BrokerFacts:
    """Alpaca in all but what it does with ids."""
    return replace(VENUE, id_class=IdClass(id_class))


@dataclass
class Venue:
    """What a scenario works with: the desk with its lanes, and the exchange behind its adapter."""

    desk: Desk
    exchange: SimulatedExchange
    clock: ManualClock
    hand: Hand
    keys: list[str]
    """Key id and secret with which the adapter connects next."""
    expected: list[str] = field(default_factory=list)
    """How the lines of the judge begin that this scenario provokes."""
    tolerated: list[str] = field(default_factory=list)
    """And that it may provoke, by who is faster."""

    @property
    def plan(self) -> FaultPlan:
        return self.exchange.plan

    @property
    def rules(self) -> Rules:
        return self.exchange.rules

    def fault(self, endpoint: str, reply: Reply, taken: Taken = Taken.BEFORE_REPLY, **options: Any) -> Fault:
        fault = Fault(endpoint, reply, taken, **options)
        self.plan.add(fault)
        return fault

    def lags(self, seconds: int, *endpoints: str) -> None:
        """So old is what these endpoints show; all that could show an order unless some are named."""
        names = endpoints or ("find", "order", "orders", "fills", "positions")
        self.rules.lag.update(dict.fromkeys(names, seconds * SECOND))

    # ---------------------------------------------------------------------------------- signals, orders

    async def buy(self, quantity: str = "10", **fields: Any) -> None:
        await self.deliver(action="buy", quantity=quantity, **fields)

    async def sell(self, quantity: str = "10", **fields: Any) -> None:
        await self.deliver(action="sell", quantity=quantity, **fields)

    async def exit(self, **fields: Any) -> None:
        await self.deliver(action="exit", **fields)

    async def deliver(self, **fields: Any) -> None:
        """One alert, which must be claimed."""
        verdict = await self.desk.deliver(**fields)
        assert verdict.kind == "accepted", verdict

    async def state(self, number: int, state: str) -> dict[str, Any]:
        return await self.desk.state(number, state)

    async def filled(self, quantity: str = "10", **fields: Any) -> dict[str, Any]:
        """A buy that is over and filled."""
        await self.buy(quantity, **fields)
        order = (await self.ended())[-1]
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled"), order
        return order

    async def ended(self) -> list[dict[str, Any]]:
        """Every order, once none is on its way."""
        await self.desk.until(f"SELECT count(*) FROM orders WHERE state NOT IN {SETTLED}", 0)
        return await self.desk.orders()

    async def over(self, number: int = 1) -> dict[str, Any]:
        """The order of that number, once it is over."""
        await self.desk.until(f"SELECT state IN {SETTLED} FROM orders WHERE id = ?", 1, number)
        return await self.desk.order(number)

    async def cid(self, number: int = 1) -> str:
        return str((await self.desk.order(number))["client_order_id"])

    async def evidence(self, number: int = 1) -> list[str]:
        rows = await self.desk.reader.rows(
            "SELECT result FROM evidence WHERE order_id = ? ORDER BY id", (number,)
        )
        return [row["result"] for row in rows]

    async def looked_in_vain(self) -> None:
        """Waits until a complete look has found nothing of O1."""
        sql = "SELECT count(*) > 0 FROM evidence WHERE order_id = 1 AND result = 'absent'"
        await self.desk.until(sql, 1)

    async def states(self, number: int = 1) -> list[str]:
        """What an order has been, in order."""
        moves = await self.desk.events("order moved")
        return [move["detail"]["to"] for move in moves if move["subject"] == f"O{number}"]

    async def needs(self) -> list[tuple[str, str, str]]:
        return await self.hand.kinds()

    # -------------------------------------------------------------------------------------- the exchange

    async def at_exchange(self) -> list[dict[str, Any]]:
        """The orders that came by the wire."""
        return await self.exchange.rows("SELECT * FROM orders WHERE origin = 'api' ORDER BY seq")

    async def posts(self) -> int:
        return self.plan.calls.get("submit", 0)

    async def position(self, symbol: str = "AAPL") -> str:
        return format((await self.exchange.ask(Book.position, NUMBER, symbol)).normalize(), "f")

    async def by_hand(self, side: str, quantity: str, **fields: Any) -> dict[str, Any]:
        """Somebody else's order in the same account."""
        body = {"symbol": "AAPL", "side": side, "qty": quantity, "type": "market", "time_in_force": "day"}
        return await self.exchange.ask(Book.by_hand, NUMBER, {**body, **fields})

    # ----------------------------------------------------------------------------------------- time, end

    @asynccontextmanager
    async def time_runs(self, tick: int = TICK) -> AsyncIterator[None]:
        """While it holds, minutes pass in moments: `tick` microseconds at once. Nothing may be about to be
        sent then that goes stale, or the tick has to be small."""

        async def run() -> None:
            while True:
                await asyncio.sleep(EVERY)
                self.clock.advance(tick)

        task = self.desk.tasks.start("time", run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def pass_time(self, seconds: int) -> None:
        """So much time passes, looks included."""
        until = self.clock.now() + seconds * SECOND
        async with self.time_runs(), asyncio.timeout(PATIENCE):
            while self.clock.now() < until:  # noqa: ASYNC110
                await asyncio.sleep(EVERY)

    async def reconcile(self) -> dict[str, Any]:
        """One pass over the account; the newest row with its findings."""
        await self.desk.trading.reconcile("venue", "manual")
        (row,) = await self.desk.reader.rows("SELECT * FROM reconciliations ORDER BY id DESC LIMIT 1")
        findings = await self.desk.reader.rows(
            "SELECT severity, kind, subject, detail FROM findings WHERE reconciliation_id = ? ORDER BY id",
            (row["id"],),
        )
        return {**row, "findings": findings}

    async def word(self, word: str) -> str:
        """Waits until the account says so, and returns why."""
        async with asyncio.timeout(PATIENCE):
            while (fact := self.desk.trading.facts()[0]).word != word:  # noqa: ASYNC110
                await asyncio.sleep(EVERY)
        return fact.reason

    async def judge(self) -> None:
        """The master assertion."""
        await self.exchange.settle()
        found = await asyncio.to_thread(violations, self.exchange.file, self.desk.home)
        strange = [line for line in found if not line.startswith((*self.expected, *self.tolerated))]
        assert strange == [], found
        missed = [start for start in self.expected if not any(line.startswith(start) for line in found)]
        assert missed == [], f"the judge did not see {missed}"


Wrap = Callable[[Broker], Broker]


def also(*values: object) -> list[object]:
    """Further values of a parameter, for the long tier: they tell the same story once more."""
    made: list[object] = []
    for value in values:
        args = value if isinstance(value, tuple) else (value,)
        made.append(pytest.param(*args, marks=pytest.mark.long))
    return made


@asynccontextmanager
async def venue(
    folder: Path,
    rules: Rules | None = None,
    *,
    facts: BrokerFacts = VENUE,
    codes: ReplyCodes = CODES,
    config: str = CONFIG,
    exchange: SimulatedExchange | None = None,
    clock: ManualClock | None = None,
    home: str = "home",
    wrap: Wrap = lambda broker: broker,
    judged: bool = True,
    ready: bool = True,
    up: bool = True,
) -> AsyncIterator[Venue]:
    """A furnished exchange and a desk on it; the judge has the last word. `exchange`: one that runs already.

    The class of the exchange follows the facts. `up` False: it is furnished and not running at first.
    """
    clock = clock or ManualClock()
    own = exchange is None
    if exchange is None:
        rules = rules or Rules()
        rules.id_class = facts.id_class.value
        rules.expiry_field = facts.arrival_deadline_field
        exchange = SimulatedExchange(folder / "exchange.sqlite3", clock, rules)
        await exchange.start()
        await furnish(exchange)
    at = exchange
    keys = ["key-1", "secret-1"]
    adapters: list[AlpacaBroker] = []

    def adapter(_paper: Broker) -> Broker:
        where = Addresses(at.url, at.url)
        made = AlpacaBroker(
            where, lambda: Keys(*keys), clock, live=False, timeout=1.0, facts=facts, codes=codes
        )
        adapters.append(made)
        return wrap(made)

    (folder / home).mkdir(exist_ok=True)
    try:
        if not up:
            await exchange.stop()
        async with desk(folder / home, config, clock=clock, wrap=adapter, start=False) as opened:
            absence.SCHEDULE = SCHEDULE
            await opened.trading.start(0)
            made = Venue(opened, exchange, clock, Hand(opened), keys)
            if ready:
                await opened.ready("venue")
            yield made
            if judged:
                await made.judge()
    finally:
        for one in adapters:
            await one.close()
        if own:
            await exchange.stop()
