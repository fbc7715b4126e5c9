"""A venue of a test's own making around the paper exchange: its facts, market, rules, quote and clock.

What a real venue would say is said here; what an order becomes is still the exchange's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from app.brokers.base import Account, BrokerFacts, BrokerOrder, InstrumentRules, Market, Snapshot
from tests.execution.faults import Faults, FaultyBroker

OPEN_NOW = Market(is_open=True, reason="open")
CLOSED = Market(is_open=False, reason="the session is over", next_open=1_772_463_000_000_000)
STEP = Decimal("0.00000001")
RULES = InstrumentRules(step=STEP, minimum=STEP, is_tradable=True, is_shortable=True)


class Venue(FaultyBroker):
    def __init__(self, broker: Any) -> None:
        super().__init__(broker)
        self.other_facts: dict[str, Any] = {}
        self.market_now = OPEN_NOW
        self.rules_now = RULES
        self.price: Decimal | None = None
        """Its own quote; None is the exchange's last price."""
        self.failed: dict[str, str] = {}
        """Sections of a snapshot that cannot be read."""
        self.offset: int | None = 0
        self.positions: dict[str, Decimal] = {}
        """Says that instead of what it holds, by instrument."""
        self.extra_orders: list[BrokerOrder] = []
        """Orders that its lists show beside the exchange's."""
        self.blocked = ""
        self.asked: list[str] = []
        """Client order ids that were looked for."""
        self.cash: Decimal | None = None

    @property
    def facts(self) -> BrokerFacts:
        return replace(super().facts, **self.other_facts)

    async def market(self, instrument: str) -> Market:
        await super().market(instrument)
        return self.market_now

    async def rules(self, instrument: str) -> InstrumentRules:
        await super().rules(instrument)
        return self.rules_now

    async def quote(self, instrument: str) -> Decimal | None:
        quote = await super().quote(instrument)
        return quote if self.price is None else self.price

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        self.asked.append(client_order_id)
        return await super().find(client_order_id)

    async def position(self, instrument: str) -> Decimal:
        position = await super().position(instrument)
        return self.positions.get(instrument, position)

    async def connect(self) -> Account:
        return self._as_told(await super().connect())

    async def account(self) -> Account:
        return self._as_told(await super().account())

    def _as_told(self, account: Account) -> Account:
        cash = account.cash if self.cash is None else self.cash
        return replace(account, blocked=self.blocked, cash=cash)

    async def snapshot(self, since: int) -> Snapshot:
        found = await super().snapshot(since)
        return replace(
            found,
            account=self._as_told(self._account(found.account)),
            failed=dict(self.failed),
            clock_offset=self.offset,
            positions={**found.positions, **self.positions},
            positions_before={**found.positions_before, **self.positions},
            recent_orders=[*found.recent_orders, *self.extra_orders],
        )


def venue(prepare: Callable[[Venue], None] = lambda _: None, **facts: Any) -> Faults:
    """Faulty brokers of this kind, with other facts than paper's."""

    def prepared(broker: FaultyBroker) -> None:
        assert isinstance(broker, Venue)
        broker.other_facts = facts
        prepare(broker)

    return Faults(prepared, Venue)


def the(faults: Faults, account: str = "paper") -> Venue:
    broker = faults.brokers[account]
    assert isinstance(broker, Venue)
    return broker
