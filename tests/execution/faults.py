"""A broker with faults around the real paper broker: replies lost, looks failing, calls held by the test.

It changes what Onefill hears and when, never what the exchange does with an order that has reached it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

from app.brokers.base import (
    Account,
    Broker,
    BrokerFacts,
    BrokerOrder,
    Fill,
    InstrumentRules,
    LastCheck,
    LookupFailed,
    Market,
    OrderRequest,
    Snapshot,
    SubmitReply,
    Unknown,
)

T = TypeVar("T")
LOOKS = (
    "connect",
    "account",
    "position",
    "quote",
    "find",
    "fills",
    "snapshot",
    "observe_price",
    "cancel",
    "market",
    "rules",
)


class Held:
    """A call that stands still: `arrived` says that it is there, `release` lets it go on."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self._released = asyncio.Event()

    def release(self) -> None:
        self._released.set()

    async def stand(self) -> None:
        self.arrived.set()
        await self._released.wait()


class FaultyBroker:
    """`plan` holds what becomes of the next sends, in order; an empty plan sends on.

    `lost_before`: the order never gets there and nobody knows. `lost_after`: it gets there, the reply does
    not come back. `crash_before`, `crash_after`: the same, as a KeyError of the adapter. A SubmitReply: that
    is the reply, and nothing is sent.
    """

    def __init__(self, broker: Broker) -> None:
        self.real = broker
        self.plan: deque[str | SubmitReply] = deque()
        self.failing: set[str] = set()
        """Names of calls that raise LookupFailed."""
        self.crashing: set[str] = set()
        """Names of calls that raise KeyError."""
        self.slow_proof = False
        """As at a venue behind a wire: one look that finds nothing proves nothing."""
        self.held: dict[str, Held] = {}
        """By name of the call (`before_submit`, `after_submit`, `find`, ...)."""
        self.hidden: set[str] = set()
        """Client order ids that no look shows."""
        self.shows_others = True
        """Whether the lists show what another hand did; else only the position tells."""
        self.identity: str | None = None
        """The account number that answers instead of the real one."""
        self.calls: Counter[str] = Counter()
        self.sent: list[OrderRequest] = []

    def hold(self, call: str) -> Held:
        self.held[call] = Held()
        return self.held[call]

    @property
    def facts(self) -> BrokerFacts:
        facts = self.real.facts
        return replace(facts, absence_is_immediate=False) if self.slow_proof else facts

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        self.calls["submit"] += 1
        self.sent.append(request)
        await self._stand("before_submit")
        fault = self.plan.popleft() if self.plan else ""
        if fault == "lost_before":
            return Unknown("lost before it got there")
        if fault == "crash_before":
            raise KeyError("the adapter, before it sent")
        if not isinstance(fault, str):
            return fault
        reply = await self.real.submit(request, last_check)
        await self._stand("after_submit")
        if fault == "lost_after":
            return Unknown("the reply was lost")
        if fault == "crash_after":
            raise KeyError("the adapter, after it sent")
        return reply

    async def connect(self) -> Account:
        return self._account(await self._look("connect", self.real.connect))

    async def close(self) -> None:
        await self.real.close()

    async def cancel(self, client_order_id: str) -> None:
        await self._look("cancel", lambda: self.real.cancel(client_order_id))

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        found = await self._look("find", lambda: self.real.find(client_order_id))
        return None if client_order_id in self.hidden else found

    async def account(self) -> Account:
        return self._account(await self._look("account", self.real.account))

    async def position(self, instrument: str) -> Decimal:
        return await self._look("position", lambda: self.real.position(instrument))

    async def quote(self, instrument: str) -> Decimal | None:
        return await self._look("quote", lambda: self.real.quote(instrument))

    async def fills(self, client_order_id: str) -> list[Fill]:
        found = await self._look("fills", lambda: self.real.fills(client_order_id))
        return [] if client_order_id in self.hidden else found

    async def snapshot(self, since: int) -> Snapshot:
        found = await self._look("snapshot", lambda: self.real.snapshot(since))
        await self._stand("after_snapshot")
        return replace(
            found,
            account=self._account(found.account),
            open_orders=[o for o in found.open_orders if self._shows(o.client_order_id)],
            recent_orders=[o for o in found.recent_orders if self._shows(o.client_order_id)],
            fills=[f for f in found.fills if self._shows(f.client_order_id)],
        )

    def _shows(self, client_order_id: str | None) -> bool:
        others = client_order_id is None or client_order_id.startswith("hand-")
        return client_order_id not in self.hidden and (self.shows_others or not others)

    async def market(self, instrument: str) -> Market:
        return await self._look("market", lambda: self.real.market(instrument))

    async def rules(self, instrument: str) -> InstrumentRules:
        return await self._look("rules", lambda: self.real.rules(instrument))

    async def observe_price(self, instrument: str, price: Decimal) -> None:
        await self._look("observe_price", lambda: self.real.observe_price(instrument, price))

    def on_activity(self, wake: Callable[[], None]) -> None:
        self.real.on_activity(wake)

    def _account(self, account: Account) -> Account:
        return account if self.identity is None else replace(account, identity=self.identity)

    async def _look(self, call: str, look: Callable[[], Awaitable[T]]) -> T:
        self.calls[call] += 1
        await self._stand(call)
        if call in self.failing:
            raise LookupFailed(f"{call} failed")
        if call in self.crashing:
            raise KeyError(call)
        return await look()

    async def _stand(self, call: str) -> None:
        if call in self.held:
            await self.held[call].stand()


class Faults:
    """Hands out faulty brokers to a desk, by account name; `prepare` sets each up before the desk opens."""

    def __init__(
        self,
        prepare: Callable[[FaultyBroker], None] = lambda broker: None,
        kind: type[FaultyBroker] = FaultyBroker,
    ) -> None:
        self.brokers: dict[str, FaultyBroker] = {}
        self._prepare = prepare
        self._kind = kind

    def wrap(self, broker: Broker) -> Broker:
        faulty = self._kind(broker)
        self._prepare(faulty)
        self.brokers[broker._name] = faulty  # type: ignore[attr-defined]
        return faulty

    @property
    def paper(self) -> FaultyBroker:
        return self.brokers["paper"]
