"""The kill switch at every moment of an order's life (HOLES H30)."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from app.execution import trading
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, desk

SHORTS = CONFIG + "allow_short = true\n"


@pytest.mark.parametrize("action", ["buy", "sell", "exit", "reverse", "cancel"])
async def test_h30_while_halted_every_order_of_a_signal_is_denied(tmp_path: Path, action: str) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.halt("halted")
        order = await d.trade(action=action, quantity="1")
        assert (order["state"], order["reason"]) == ("DENIED", "TRADING_HALTED state=halted")
        assert len(d.paper_orders()) == 1


@pytest.mark.parametrize(("action", "state"), [("buy", "halted"), ("buy", "exits_only"), ("exit", "halted")])
async def test_h30_an_order_on_its_way_is_stopped_before_the_first_byte(
    tmp_path: Path, action: str, state: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = faults.paper.hold("before_submit")
        await d.deliver(action=action, quantity="1")
        await send.arrived.wait()
        await d.state(2, "SUBMITTING")
        await d.halt(state)
        send.release()
        denied = await d.state(2, "DENIED")
        assert denied["reason"] == f"TRADING_HALTED state={state} proved_unsent=yes"
        assert len(d.paper_orders()) == 1
        rows = await d.reader.rows("SELECT bytes_left FROM attempts WHERE order_id = 2")
        assert rows == [{"bytes_left": 0}]


async def test_h30_an_exit_on_its_way_goes_out_while_only_exits_may(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = faults.paper.hold("before_submit")
        await d.deliver(action="exit")
        await send.arrived.wait()
        await d.halt("exits_only")
        send.release()
        assert (await d.state(2, "DONE"))["filled_quantity"] == "10"


async def test_h30_a_flip_on_its_way_is_cut_to_its_exit_while_only_exits_may(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = faults.paper.hold("before_submit")
        await d.deliver(action="sell", quantity="14")
        await send.arrived.wait()
        await d.halt("exits_only")
        send.release()
        await d.until("SELECT count(*) FROM attempts WHERE order_id = 2 AND bytes_left = 0", 1)
        d.clock.advance(1_000_000)
        cut = await d.state(2, "DONE")
        assert (cut["quantity"], cut["purpose"]) == ("10", "exit")
        assert await d.book() == 0


async def test_h30_what_is_at_the_broker_stays_and_what_comes_back_is_booked(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        reply = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await reply.arrived.wait()
        await d.halt("halted")
        reply.release()
        assert (await d.state(1, "DONE"))["filled_quantity"] == "10"
        assert await d.book() == 10


async def test_h30_what_waits_is_denied_at_once_and_nothing_is_kept_for_the_resume(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="1")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.deliver(action="buy", quantity="2")
        await d.waits(2, "WAITING_FOR_O1")
        await d.waits(3, "WAITING_FOR_O1")
        with patch.object(trading, "SWEEP", 3_600):  # woken by the halt itself
            await d.trade(symbol="MSFT", action="buy", quantity="1")
            await d.halt("halted")
        for number in (2, 3):
            assert (await d.state(number, "DENIED"))["reason"] == "TRADING_HALTED state=halted"
        await d.halt("active")
        faults.paper.slow_proof = False
        await d.settled()
        assert [row["symbol"] for row in d.paper_orders()] == ["MSFT"]


async def test_h30_entries_that_wait_are_denied_at_once_while_only_exits_may(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="1")
        await d.state(2, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.deliver(action="buy", quantity="2")
        await d.waits(3, "WAITING_FOR_O2")
        await d.waits(4, "WAITING_FOR_O2")
        await d.halt("exits_only")
        assert (await d.state(4, "DENIED"))["reason"] == "TRADING_HALTED state=exits_only"
        faults.paper.slow_proof = False
        assert (await d.state(3, "DONE"))["quantity"] == "10"


async def test_h30_a_halt_survives_a_restart(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="1")
        await d.halt("halted")
        clock = d.clock
    async with desk(tmp_path, clock=clock) as d:
        assert d.trading.state == "halted"
        assert d.trading.held_back(exits=True) == "TRADING_HALTED state=halted"
        denied = await d.trade(key="after", action="exit")
        assert denied["reason"] == "TRADING_HALTED state=halted"


async def test_h31_an_entry_that_is_late_at_the_first_byte_is_not_sent(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        d.clock.advance(61_000_000)
        send.release()
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE late=1.0s proved_unsent=yes"
        assert d.paper_orders() == []


async def test_h31_a_wall_clock_set_back_meanwhile_makes_nothing_fresh(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        d.clock.advance(61_000_000)
        d.clock.step(-3_600_000_000)
        send.release()
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE late=1.0s proved_unsent=yes"


async def test_h31_an_exit_is_never_too_late(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = faults.paper.hold("before_submit")
        await d.deliver(action="exit")
        await send.arrived.wait()
        d.clock.advance(3_600_000_000)
        send.release()
        assert (await d.state(2, "DONE"))["filled_quantity"] == "10"
