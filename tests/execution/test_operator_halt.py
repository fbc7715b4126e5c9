"""What a halt answers at each moment of an order's life, and what a person can do about it (HOLES H30)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import DuplicateId
from tests.execution.faults import Faults
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import Hand


async def halt(d: Desk, *, exits_only: bool = False) -> dict[str, Any]:
    answer = await Hand(d).requests.command(
        "halt", {"exits_only": exits_only}, actor="person", request_id="halt"
    )
    return {name: answer[name] for name in ("in_flight", "resting", "waiting")}


async def test_h30_waiting(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.failing.add("account")
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER")
        assert await halt(d) == {"in_flight": [], "resting": [], "waiting": ["O1"]}
        await d.state(1, "DENIED")


@pytest.mark.parametrize("moment", ["before_submit", "after_submit"])
async def test_h30_on_its_way(tmp_path: Path, moment: str) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold(moment)
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await send.arrived.wait()
        assert await halt(d) == {"in_flight": ["O1"], "resting": [], "waiting": []}
        # What the halt came too late for is ended by hand, as soon as the broker is known to have it.
        await Hand(d).do("cancel", order="O1", seen="SUBMITTING")
        send.release()
        await d.settled()
        assert (await d.order(1))["state"] == ("DENIED" if moment == "before_submit" else "DONE")
        assert [row["status"] for row in d.paper_orders()] == (
            [] if moment == "before_submit" else ["Canceled"]
        )


async def test_h30_in_doubt(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.extend(["lost_before", DuplicateId("seen")])
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="buy", quantity="1", symbol="MSFT")
        await d.state(2, "NEEDS_OPERATOR")
        assert await halt(d) == {"in_flight": ["O1", "O2"], "resting": [], "waiting": []}


async def test_h30_resting_and_each_that_is_named_can_be_cancelled(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for symbol in ("AAPL", "MSFT"):
            await d.deliver(action="buy", quantity="1", type="limit", limit_price="90", symbol=symbol)
        await d.state(1, "WORKING")
        await d.state(2, "WORKING")
        found = await halt(d)
        assert found == {"in_flight": [], "resting": ["O1", "O2"], "waiting": []}
        hand = Hand(d)
        for name in found["resting"]:
            await hand.do("cancel", order=name)
        await d.settled()
        assert {row["status"] for row in d.paper_orders()} == {"Canceled"}


async def test_h30_an_exit_that_the_halt_denied_stands_first_and_can_be_done_by_hand(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.failing.add("account")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_BROKER")
        assert (await halt(d))["waiting"] == ["O2"]
        await d.state(2, "DENIED")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.kind, need.severity, need.subject) == ("exit_lost", "critical", "O2")
        close = next(action for action in need.actions if action.command == "close")
        faults.paper.failing.clear()
        d.clock.advance(5_000_000)
        await hand.do(close.command, **close.arguments)
        await d.state(3, "DONE")
        # What a later exit did is lost no more.
        assert await hand.needs() == []
        assert await d.book() == 0


async def test_h30_a_reverse_that_the_halt_broke_stands_in_needs_you(tmp_path: Path) -> None:
    """The book stays on the side that the signal wanted to leave."""
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.halt("halted")
        await d.trade(action="reverse", quantity="10")
        await d.trade(action="sell", market_position="short", market_position_size="5", quantity="15")
        kinds = await Hand(d).kinds()
        assert kinds == [("critical", "exit_lost", "O3"), ("critical", "exit_lost", "O2")]


async def test_h30_what_would_close_an_order_in_doubt_is_told_when_the_halt_denies_it(tmp_path: Path) -> None:
    """By the book alone it is a short; by what may have filled it is the exit of that."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.halt("halted")
        await d.deliver(action="sell", quantity="10")
        await d.state(2, "DENIED")
        need = (await Hand(d).needs())[0]
        assert (need.severity, need.kind, need.subject) == ("critical", "exit_lost", "O2")
        assert need.text == (
            "The exit O2 (sell AAPL from tv) was not done; its book is flat now, and O1 may still fill."
        )
