"""A person's word at a venue: only a look that came back whole can agree with it (HOLES H28)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.brokers.base import BrokerOrder
from app.clock import SECOND
from app.domain.order import OrdStatus
from app.domain.signal import Side
from tests.execution.faults import Faults
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import Hand
from tests.execution.venue import the, venue


async def in_doubt(d: Desk, faults: Faults) -> None:
    await d.ready()
    the(faults).plan.append("lost_before")
    await d.deliver(action="buy", quantity="10")
    await d.state(1, "AMBIGUOUS")
    d.clock.advance(121 * SECOND)


@pytest.mark.parametrize("section", ["open_orders", "recent_orders", "fills"])
async def test_h28_half_a_look_decides_nothing(tmp_path: Path, section: str) -> None:
    faults = venue(absence_is_immediate=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await in_doubt(d, faults)
        the(faults).failed = {section: "half a page"}
        why = await Hand(d).refused("resolve", order="O1", answer="not_placed")
        assert why == f"the broker of paper cannot be asked now ({section}: half a page): nothing was decided"
        the(faults).failed = {}
        assert (await Hand(d).do("resolve", order="O1", answer="not_placed"))["state"] == "NOT_PLACED"


async def test_h28_an_order_that_only_the_list_of_recent_ones_shows_is_there(tmp_path: Path) -> None:
    faults = venue(absence_is_immediate=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await in_doubt(d, faults)
        the(faults).failing.add("snapshot")  # the resolver must not find it first
        cid = the(faults).sent[0].client_order_id
        made = BrokerOrder(
            "V-1", cid, "AAPL", Side.BUY, Decimal(10), OrdStatus.NEW, Decimal(0), None, d.clock.now()
        )
        the(faults).extra_orders.append(made)
        session = d.trading._sessions["paper"]
        async with session._looking:
            the(faults).failing.clear()
            asked = d.tasks.start("asked", Hand(d).refused("resolve", order="O1", answer="not_placed"))
        why = await asked
        assert why.startswith(("the broker has O1", "O1 is WORKING")), why
        assert (await d.order(1))["state"] != "NOT_PLACED"
