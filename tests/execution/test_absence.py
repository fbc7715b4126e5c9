"""Absence behind a wire: proved from looks alone, watched afterwards, a person's where it cannot be (H35)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import BrokerFacts, IdClass
from app.clock import SECOND
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, desk


class ClassE(FaultyBroker):
    @property
    def facts(self) -> BrokerFacts:
        return replace(super().facts, id_class=IdClass.E)


async def lost(d: Desk, faults: Faults, fault: str = "lost_before", **fields: Any) -> None:
    """O1 is sent and not heard of, at a broker behind a wire."""
    await d.ready()
    faults.paper.slow_proof = True
    faults.paper.plan.append(fault)
    await d.deliver(**{"action": "buy", "quantity": "10", **fields})
    await d.state(1, "AMBIGUOUS")


async def looks(d: Desk, result: str, least: int) -> None:
    await d.until(f"SELECT count(*) >= {least} FROM evidence WHERE result = ?", 1, result)


async def test_h35_a_weak_proof_ends_not_placed_where_ids_are_kept_apart(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await looks(d, "absent", 1)
        for number, seconds in ((2, 100), (3, 199)):
            d.clock.advance(seconds * SECOND)
            await looks(d, "absent", number)
            assert (await d.order(1))["state"] == "AMBIGUOUS"
        d.clock.advance(SECOND)
        order = await d.state(1, "NOT_PLACED")
        assert order["reason"] == "CONFIRMED_ABSENT"
        assert d.paper_orders() == []
        assert faults.paper.calls["submit"] == 1


async def test_h35_the_same_proof_is_a_persons_where_an_id_is_a_label(tmp_path: Path) -> None:
    faults = Faults(kind=ClassE)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await looks(d, "absent", 1)
        for number, seconds in ((2, 100), (3, 200)):
            d.clock.advance(seconds * SECOND)
            await looks(d, "absent", number)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("RESOLVE_DEADLINE confirming_looks=3 of=3 failed_looks=0 age=300s")


async def test_h35_a_position_that_no_book_explains_confirms_nothing(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("after_submit")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_after")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        faults.paper.hidden.add(faults.paper.sent[0].client_order_id)
        send.release()
        await looks(d, "failed", 1)
        d.clock.advance(899 * SECOND)
        await looks(d, "failed", 2)
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        d.clock.advance(SECOND)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("RESOLVE_DEADLINE confirming_looks=0 of=3 failed_looks=3 age=900s")
        faults.paper.hidden.clear()
        faults.paper.held.clear()


@pytest.mark.parametrize("call", ["find", "snapshot"])
async def test_h37_a_failed_look_makes_the_ones_before_it_confirm_nothing(tmp_path: Path, call: str) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await looks(d, "absent", 1)
        d.clock.advance(100 * SECOND)
        await looks(d, "absent", 2)
        faults.paper.failing.add(call)
        await looks(d, "failed", 1)
        d.clock.advance(200 * SECOND)
        faults.paper.failing.clear()
        await looks(d, "absent", 3)
        d.clock.advance(SECOND)
        await looks(d, "absent", 4)
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        d.clock.advance(SECOND)
        await d.state(1, "NOT_PLACED")


async def test_h27_what_was_called_absent_is_looked_for_by_each_pass_for_a_day(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_before")
        await d.trade(action="buy", quantity="10")
        for hours, watched in ((23, 1), (1, 1), (1, 0)):
            d.clock.advance(hours * 3_600 * SECOND)
            faults.paper.calls.clear()
            await d.trading.reconcile("paper", "manual")
            assert faults.paper.calls["find"] == watched


async def test_h27_a_ghost_that_no_list_shows_is_found_and_is_critical(tmp_path: Path) -> None:
    """Canceled at the broker meanwhile without a fill: neither open orders nor fills name it."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("after_submit")
        faults.paper.plan.append("lost_after")
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await send.arrived.wait()
        cid = faults.paper.sent[0].client_order_id
        faults.paper.hidden.add(cid)
        send.release()
        await d.state(1, "NOT_PLACED")
        await faults.paper.real.cancel(cid)
        faults.paper.hidden.clear()
        (report,) = await d.trading.reconcile("paper", "manual")
        assert [(f.severity, f.kind, f.subject) for f in report.findings] == [("critical", "ghost", "O1")]
        assert (await d.state(1, "DONE"))["ord_status"] == "Canceled"
        (event,) = await d.events("ghost found")
        assert event["subject"] == "O1"


async def test_an_order_that_a_person_was_asked_about_is_taken_up_when_it_is_found(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("after_submit")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_after")
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await send.arrived.wait()
        faults.paper.hidden.add(faults.paper.sent[0].client_order_id)
        send.release()
        await looks(d, "absent", 1)
        d.clock.advance(900 * SECOND)
        await d.state(1, "NEEDS_OPERATOR")
        faults.paper.hidden.clear()
        await d.trading.reconcile("paper", "manual")
        assert (await d.order(1))["state"] == "WORKING"
