"""Stops and starts at every moment of an order's life, and clocks set back meanwhile (HOLES H32)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import patch

import pytest

from app.clock import SECOND, ManualClock
from app.domain.order import State
from app.execution import trading
from app.ledger import orders
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import desk

NO_DRAIN = patch.object(trading, "DRAIN", 0.02)
"""What is still on its way is left behind at once, as it is after two seconds else."""


@pytest.mark.parametrize("call", ["account", "position", "quote"])
async def test_an_order_that_was_being_decided_at_the_stop_is_placed_by_the_next_run(
    tmp_path: Path, call: str
) -> None:
    faults = Faults()
    with NO_DRAIN:
        async with desk(tmp_path, wrap=faults.wrap) as d:
            await d.ready()
            look = faults.paper.hold(call)
            await d.deliver(action="buy", quantity="10")
            await look.arrived.wait()
            clock = d.clock
    async with desk(tmp_path, clock=clock) as d:
        order = await d.state(1, "DONE")
        assert order["filled_quantity"] == "10"
        assert len(d.paper_orders()) == 1


@pytest.mark.parametrize(
    ("call", "placed", "state"), [("after_submit", 1, "DONE"), ("before_submit", 0, "NOT_PLACED")]
)
async def test_h35_an_order_that_was_at_the_broker_at_the_stop_is_asked_for_and_never_sent_again(
    tmp_path: Path, call: str, placed: int, state: str
) -> None:
    faults = Faults()
    with NO_DRAIN:
        async with desk(tmp_path, wrap=faults.wrap) as d:
            await d.ready()
            send = faults.paper.hold(call)
            await d.deliver(action="buy", quantity="10")
            await send.arrived.wait()
            clock = d.clock
    again = Faults()
    async with desk(tmp_path, clock=clock, wrap=again.wrap) as d:
        order = await d.state(1, state)
        assert len(d.paper_orders()) == placed
        assert again.paper.calls["submit"] == 0
        moves = [event["detail"]["to"] for event in await d.events("order moved")]
        assert moves[:2] == ["SUBMITTING", "AMBIGUOUS"]
        assert order["reason"] == (None if placed else "CONFIRMED_ABSENT")
        rows = await d.reader.rows("SELECT result FROM evidence")
        assert [row["result"] for row in rows] == ["found" if placed else "absent"]


async def test_a_reply_that_comes_within_the_drain_is_recorded(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        reply = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await reply.arrived.wait()
        stop = d.tasks.start("stop", d.trading.stop())
        await asyncio.sleep(0)
        reply.release()
        await stop
        assert (await d.order(1))["state"] == "WORKING"


async def test_no_order_is_begun_once_the_stop_has_begun(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        reply = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await reply.arrived.wait()
        await d.deliver(action="buy", quantity="1")
        stop = d.tasks.start("stop", d.trading.stop())
        await asyncio.sleep(0)
        reply.release()
        await stop
        assert faults.paper.calls["submit"] == 1
        assert (await d.order(2))["state"] == "PENDING"


async def test_an_entry_that_waited_through_a_long_stop_is_stale_and_an_exit_goes_out(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        clock = d.clock
    async with desk(tmp_path, clock=clock, start=False) as d:
        await d.deliver(key="late exit", action="exit")
        await d.deliver(key="late entry", action="buy", quantity="1", strategy="B")
    clock.advance(61 * SECOND)
    async with desk(tmp_path, clock=clock) as d:
        assert (await d.state(2, "DONE"))["quantity"] == "10"
        assert (await d.state(3, "DENIED"))["reason"] == "STALE age=61.0s limit=60s"


async def test_a_crash_after_the_submitting_row_gives_zero_orders_and_says_so(tmp_path: Path) -> None:
    """HOLES H35: the row as a kill leaves it, written past the lanes."""
    async with desk(tmp_path, start=False) as d:
        await d.deliver(action="buy", quantity="10")
        await d.writer.run(
            lambda tx: orders.move(
                tx,
                orders.get(tx, 1),
                State.SUBMITTING,
                at=d.clock.now(),
                actor="worker",
                side="buy",
                quantity="10",
                client_order_id="0" * 32,
            )
        )
        clock = d.clock
    async with desk(tmp_path, clock=clock) as d:
        order = await d.state(1, "NOT_PLACED")
        assert order["reason"] == "CONFIRMED_ABSENT"
        assert d.paper_orders() == []


# ------------------------------------------------------------------------------------------- clocks


async def left_pending(home: Path) -> ManualClock:
    """A run that claimed an entry and an exit and sent neither."""
    async with desk(home) as d:
        await d.trade(action="buy", quantity="10")
        clock = d.clock
    async with desk(home, clock=clock, start=False) as d:
        await d.deliver(key="exit", action="exit")
        await d.deliver(key="entry", action="buy", quantity="1", strategy="B")
    return clock


async def test_h32_a_clock_set_back_over_a_restart_sends_no_entry_of_an_earlier_run(tmp_path: Path) -> None:
    clock = await left_pending(tmp_path)
    mark = clock.now()
    clock.step(-4 * 3_600 * SECOND)
    async with desk(tmp_path, clock=clock, wall_mark=mark) as d:
        denied = await d.state(3, "DENIED")
        assert denied["reason"] == "STALE age=unknown clock_behind=14400.0s"
        assert (await d.state(2, "DONE"))["quantity"] == "10"
        fresh = await d.trade(key="of this run", action="buy", quantity="2")
        assert fresh["state"] == "DONE"


async def test_h32_a_clock_slightly_before_the_mark_is_enough_to_hold_an_entry_back(tmp_path: Path) -> None:
    clock = await left_pending(tmp_path)
    async with desk(tmp_path, clock=clock, wall_mark=clock.now() + SECOND) as d:
        denied = await d.state(3, "DENIED")
        assert denied["reason"] == "STALE age=unknown clock_behind=1.0s"


async def test_h32_a_clock_set_forward_over_a_restart_makes_entries_stale(tmp_path: Path) -> None:
    clock = await left_pending(tmp_path)
    mark = clock.now()
    clock.step(4 * 3_600 * SECOND)
    async with desk(tmp_path, clock=clock, wall_mark=mark) as d:
        assert (await d.state(3, "DENIED"))["reason"].startswith("STALE age=14400.0s")


async def test_h32_an_age_below_zero_is_unknown_and_the_entry_is_not_sent(tmp_path: Path) -> None:
    """The clock is set back in the middle of a run, while the order waits."""

    def down(broker: FaultyBroker) -> None:
        broker.failing.add("connect")

    faults = Faults(down)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="1")
        await d.waits(1, "WAITING_FOR_BROKER")
        d.clock.step(-3_600 * SECOND)
        faults.paper.failing.clear()
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE age=unknown clock_behind=3595.0s waited_for=BROKER"
        assert d.paper_orders() == []
