"""HOLES H6: what is on its way has its money already, whatever the broker's cash says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import Unsent
from tests.execution.kit import CONFIG, desk
from tests.execution.venue import Venue, the, venue

D = Decimal
FREE = "[risk]\nposition_divisor = 1\nmax_orders_per_minute = 0\n"


def config(sizing: str) -> str:
    return f'{CONFIG}sizing = "{sizing}"\n{FREE}'


@pytest.mark.parametrize("sizing", ["equity:60%", "cash:60000", "quantity:600", "signal"])
@pytest.mark.parametrize("state", ["WORKING", "AMBIGUOUS", "SUBMITTING", "PENDING"])
async def test_h6_two_symbols_at_once_at_sixty_percent_each_are_one_order(
    tmp_path: Path, sizing: str, state: str
) -> None:
    faults = venue()
    async with desk(tmp_path, config(sizing), wrap=faults.wrap) as d:
        await d.ready()
        broker = the(faults)
        fields: dict[str, Any] = {"action": "buy", "quantity": "600", "price": "100"}
        first = {**fields, "symbol": "MSFT"}
        match state:
            case "WORKING":
                first |= {"type": "limit", "limit_price": "100", "price": "110"}
            case "AMBIGUOUS":
                broker.slow_proof = True
                broker.plan.append("lost_before")
            case "SUBMITTING":
                broker.hold("before_submit")
            case _:
                broker.plan.append(Unsent("the line is down"))
        await d.deliver(**first)
        await d.until("SELECT state || (client_order_id IS NOT NULL) FROM orders WHERE id = 1", f"{state}1")
        second = await d.deliver(**fields)
        await d.until("SELECT state FROM orders WHERE claim_id = ?", "DENIED", second.claim_id)
        (order,) = await d.orders(second.claim_id)
        assert order["reason"] == "INSUFFICIENT_FUNDS needed=60000 cash=100000 reserved=60000"
        if state == "SUBMITTING":
            broker.held["before_submit"].release()


async def test_h6_what_filled_while_the_cash_was_read_is_spent(tmp_path: Path) -> None:
    """The other symbol's fill is booked between this one's look at the account and its decision."""

    def still(broker: Venue) -> None:
        broker.cash = D(100_000)  # the account lags behind its own fills

    faults = venue(still)
    async with desk(tmp_path, config("signal"), wrap=faults.wrap) as d:
        await d.ready()
        look = the(faults).hold("rules")
        second = await d.deliver(action="buy", quantity="600")
        await look.arrived.wait()
        the(faults).held.clear()
        await d.trade(symbol="MSFT", action="buy", quantity="600")
        look.release()
        (order,) = await d.settled(second)
        assert order["reason"] == "INSUFFICIENT_FUNDS needed=60000 cash=100000 reserved=60000"


async def test_h6_exits_need_no_money(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, config("signal"), wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="100")
        the(faults).cash = D(0)
        assert (await d.trade(action="exit"))["state"] == "DONE"
