"""A broker that fills more than was ordered: booked as it is, and critical until a person has seen it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from app.brokers.base import BrokerOrder, Fill
from app.domain.order import State
from app.ledger import orders
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import desk
from tests.execution.operator_kit import Hand


class Generous(FaultyBroker):
    """Shows each fill twice, the second under an id of its own."""

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        found = await super().find(client_order_id)
        return found and replace(found, filled_quantity=found.filled_quantity * 2)

    async def fills(self, client_order_id: str) -> list[Fill]:
        found = await super().fills(client_order_id)
        return [*found, *(replace(fill, exec_id=f"{fill.exec_id}-again") for fill in found)]


async def test_an_order_filled_twice_is_told_and_its_state_stays_legal(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=Faults(kind=Generous).wrap) as d:
        order = await d.trade(action="buy", quantity="1")
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "2")
        assert order["reason"] == "OVERFILLED the broker filled 2 of 1 ordered"
        assert await d.book() == 2
        (event,) = await d.reader.rows("SELECT subject FROM events WHERE what = 'overfilled'")
        assert event["subject"] == "paper"
        assert d.logged("the broker filled more than was ordered")
        hand = Hand(d)
        (need,) = [need for need in await hand.needs() if need.kind == "overfilled"]
        assert (need.severity, need.subject) == ("critical", "O1")
        assert need.text.startswith("The broker filled 2 of 1 ordered: O1 (buy 1 AAPL from tv)")
        assert [action.command for action in need.actions] == ["reconcile", "close", "dismiss"]
        d.clock.advance(1)
        await hand.do("dismiss", ids=["O1"])
        assert "overfilled" not in [kind for _, kind, _ in await hand.kinds()]


async def test_an_order_that_is_overfilled_leaves_nothing_to_fill(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=Faults(kind=Generous).wrap) as d:
        await d.trade(action="buy", quantity="1")
        order = await d.writer.run(lambda tx: orders.get(tx, 1))
        assert replace(order, state=State.WORKING).leaves == Decimal(0)
