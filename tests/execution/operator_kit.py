"""A person at a desk: his decisions go through the same requests as the engine's buttons and commands do."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from app.brokers.base import BrokerFacts, IdClass, OrderRequest, Placed
from app.brokers.paper import FillMode, PaperBroker
from app.domain.signal import OrderType, Side
from app.engine import CommandRefused
from app.engine.operator_commands import Person
from app.engine.requests import Requests
from app.engine.retention_commands import Keeping
from app.ledger.needs import Need, needs
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk


class Hand:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        person = Person(desk.writer, desk.reader, desk.trading, desk.clock, desk.settings, desk.store.context)
        keeping = cast(Keeping, None)
        self.requests = Requests(
            desk.writer, desk.reader, desk.trading, desk.clock, desk.tasks, keeping, person
        )

    async def do(self, name: str, request: str | None = None, **arguments: Any) -> dict[str, Any]:
        """One press: with an id of its own unless the test gives one, and with a reason."""
        arguments = {"why": "I looked", **arguments}
        request = request or uuid.uuid4().hex
        return await self.requests.command(name, arguments, actor="person", request_id=request)

    async def refused(self, name: str, request: str | None = None, **arguments: Any) -> str:
        """The one line of a press that did nothing."""
        with pytest.raises(CommandRefused) as refused:
            await self.do(name, request, **arguments)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    async def thrice(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The same press three times, two of them at once: one answer."""
        request = uuid.uuid4().hex
        answers = await asyncio.gather(*(self.do(name, request, **arguments) for _ in range(2)))
        answers.append(await self.do(name, request, **arguments))
        assert answers == [answers[0]] * 3
        return answers[0]

    async def needs(self) -> list[Need]:
        now = self.desk.clock.now()
        return await self.desk.reader.call(lambda db: needs(db, now))

    async def kinds(self) -> list[tuple[str, str, str]]:
        return [(need.severity, need.kind, need.subject) for need in await self.needs()]


class ClassC(FaultyBroker):
    """A broker behind a wire that keeps ids apart only while the first order is open."""

    @property
    def facts(self) -> BrokerFacts:
        return replace(self.real.facts, id_class=IdClass.C, absence_is_immediate=False)


class ClassE(FaultyBroker):
    """A broker to which our id is a label and nothing more."""

    @property
    def facts(self) -> BrokerFacts:
        return replace(self.real.facts, id_class=IdClass.E, absence_is_immediate=False)


async def arrive(
    desk: Desk,
    client_order_id: str,
    side: str = "buy",
    quantity: str = "10",
    *,
    symbol: str = "AAPL",
    limit: str | None = None,
    account: str = "paper",
) -> str:
    """An order that turns up at the exchange past Onefill, under any id; returns the exchange's own."""
    settings = next(one for one in desk.settings.accounts if one.name == account)
    broker = PaperBroker(desk.exchange, account, settings.cash, FillMode.INSTANT)
    request = OrderRequest(
        client_order_id,
        symbol,
        Side(side),
        Decimal(quantity),
        type=OrderType.MARKET if limit is None else OrderType.LIMIT,
        limit_price=None if limit is None else Decimal(limit),
        reference_price=Decimal(100),
    )
    reply = await broker.submit(request, lambda: None)
    assert isinstance(reply, Placed), reply
    return reply.order.broker_order_id


async def attempts(d: Desk, number: int) -> int:
    (row,) = await d.reader.rows("SELECT count(*) AS n FROM attempts WHERE order_id = ?", (number,))
    return int(row["n"])


async def absent(d: Desk, faults: Faults, **fields: Any) -> str:
    """O1, buy 10, was lost before it got there and is called absent. Returns its client order id."""
    await d.ready()
    faults.paper.plan.append("lost_before")
    await d.deliver(**{"action": "buy", "quantity": "10", **fields})
    return str((await d.state(1, "NOT_PLACED"))["client_order_id"])
