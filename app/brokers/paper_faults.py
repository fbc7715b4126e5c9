"""Faults by setting around a paper account: what a broker behind a wire does wrong, on purpose and in order.

They change what Onefill hears and when, never what the exchange does with an order that has reached it. How
each is written: app/settings/faults.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

from app.brokers.base import (
    Account,
    Broker,
    BrokerFacts,
    BrokerOrder,
    Fill,
    HeldBack,
    InstrumentRules,
    LastCheck,
    LookupFailed,
    Market,
    OrderRequest,
    Refused,
    Snapshot,
    SubmitReply,
    Unknown,
    Unsent,
)
from app.clock import SECOND
from app.settings.faults import by_order
from app.settings.words import parse_duration

T = TypeVar("T")


class PaperFaults:
    """`broker` with `faults` on its next orders, in the order in which they are written."""

    def __init__(self, broker: Broker, faults: Sequence[str]) -> None:
        self._broker = broker
        self._plan = deque(by_order(faults))
        self._shows_late = any("lookup_lag" in order for order in self._plan)
        self._failing = 0
        """Looks that will still fail."""
        self._late: dict[str, int] = {}
        """By client order id: looks that will still not show it."""

    @property
    def facts(self) -> BrokerFacts:
        # Where orders are shown late, one look that finds none is no proof.
        facts = self._broker.facts
        return replace(facts, absence_is_immediate=False) if self._shows_late else facts

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        faults = self._plan.popleft() if self._plan else {}
        if "lookup_lag" in faults:
            self._late[request.client_order_id] = int(faults["lookup_lag"])
        try:
            return await self._submit(request, last_check, faults)
        finally:
            self._failing += int(faults.get("lookups_fail", 0))

    async def _submit(
        self, request: OrderRequest, last_check: LastCheck, faults: dict[str, str]
    ) -> SubmitReply:
        if "reject" in faults or "reply_lost_before" in faults:
            try:
                last_check()
            except HeldBack as held:
                return Unsent(held.reason)
            if "reject" in faults:
                return Refused(faults["reject"], "a fault by setting")
            return Unknown("lost on its way, a fault by setting")
        reply = await self._broker.submit(request, last_check)
        if "slow_reply" in faults:
            await asyncio.sleep(parse_duration(faults["slow_reply"]) / SECOND)
        lost = "reply_lost_after" in faults and not isinstance(reply, Unsent)
        return Unknown("its reply was lost, a fault by setting") if lost else reply

    # ---------------------------------------------------------------- looks

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        found = await self._look(lambda: self._broker.find(client_order_id))
        if self._late.get(client_order_id, 0) == 0:
            return found
        self._late[client_order_id] -= 1
        return None

    async def fills(self, client_order_id: str) -> list[Fill]:
        found = await self._broker.fills(client_order_id)
        return [] if self._is_late(client_order_id) else found

    async def snapshot(self, since: int) -> Snapshot:
        found = await self._broker.snapshot(since)
        return replace(
            found,
            open_orders=[order for order in found.open_orders if not self._is_late(order.client_order_id)],
            recent_orders=[
                order for order in found.recent_orders if not self._is_late(order.client_order_id)
            ],
            fills=[fill for fill in found.fills if not self._is_late(fill.client_order_id)],
        )

    def _is_late(self, client_order_id: str | None) -> bool:
        return client_order_id is not None and self._late.get(client_order_id, 0) > 0

    async def _look(self, look: Callable[[], Awaitable[T]]) -> T:
        if self._failing:
            self._failing -= 1
            raise LookupFailed("a look failed, a fault by setting")
        return await look()

    # ---------------------------------------------------------------- without faults

    async def connect(self) -> Account:
        return await self._broker.connect()

    async def close(self) -> None:
        await self._broker.close()

    async def cancel(self, client_order_id: str) -> None:
        await self._broker.cancel(client_order_id)

    async def account(self) -> Account:
        return await self._broker.account()

    async def position(self, instrument: str) -> Decimal:
        return await self._broker.position(instrument)

    async def quote(self, instrument: str) -> Decimal | None:
        return await self._broker.quote(instrument)

    async def market(self, instrument: str) -> Market:
        return await self._broker.market(instrument)

    async def rules(self, instrument: str) -> InstrumentRules:
        return await self._broker.rules(instrument)

    async def observe_price(self, instrument: str, price: Decimal) -> None:
        await self._broker.observe_price(instrument, price)

    def on_activity(self, wake: Callable[[], None]) -> None:
        self._broker.on_activity(wake)
