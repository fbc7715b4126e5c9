"""A turn where no order goes through zero: close, wait for the fill, open; or say that it broke (H6, H30)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import Refused
from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, Desk, desk
from tests.execution.operator_kit import Hand
from tests.execution.venue import the, venue

D = Decimal
SHORTS = CONFIG + "allow_short = true\n"
TURNS: list[dict[str, Any]] = [
    {"action": "sell", "quantity": "15"},
    {"action": "sell", "quantity": "15", "market_position": "short", "market_position_size": "5"},
    {"action": "reverse", "quantity": "5"},
]


def no_flips() -> Faults:
    return venue(flips_in_one_order=False)


async def both_over(d: Desk) -> list[dict[str, Any]]:
    await d.until("SELECT count(*) FROM orders", 3)
    return (await d.settled())[1:]


@pytest.mark.parametrize("turn", TURNS, ids=["sell", "target", "reverse"])
async def test_h6_a_turn_goes_out_as_a_close_and_then_an_opening(
    tmp_path: Path, turn: dict[str, Any]
) -> None:
    async with desk(tmp_path, SHORTS, wrap=no_flips().wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(**turn)
        close, opening = await both_over(d)
        told = [(row["leg"], row["purpose"], row["side"], row["quantity"]) for row in (close, opening)]
        assert told == [(1, "exit", "sell", "10"), (2, "entry", "sell", "5")]
        assert close["signal"] == opening["signal"]
        assert await d.book() == -5
        assert [row["quantity"] for row in d.paper_orders()] == ["10", "10", "5"]


async def test_h6_the_opening_waits_until_the_close_has_filled_whole(tmp_path: Path) -> None:
    faults = no_flips()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(action="sell", quantity="15", type="limit", limit_price="110")
        await d.state(2, "WORKING")
        await d.waits(3, "WAITING_FOR_O2")
        assert len(d.paper_orders()) == 2
        the(faults).calls.clear()
        await d.deliver(symbol="AAPL", strategy="other", action="buy", quantity="1", price="111")
        assert (await d.state(2, "DONE"))["ord_status"] == "Filled"


async def test_h6_an_opening_whose_close_was_refused_is_not_sent_and_needs_a_person(tmp_path: Path) -> None:
    faults = no_flips()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).plan.append(Refused("X", "not now"))
        await d.deliver(action="sell", quantity="15")
        close, opening = await both_over(d)
        assert close["state"] == "NOT_PLACED"
        assert opening["reason"] == "CLOSING_LEG_NOT_DONE order=O2 state=NOT_PLACED"
        assert ("critical", "exit_lost", "O2") in await Hand(d).kinds()
        assert ("warning", "turn_broken", "O3") in await Hand(d).kinds()
        assert await d.book() == 10


async def test_h30_a_halt_between_the_legs_leaves_a_broken_turn_before_a_person(tmp_path: Path) -> None:
    faults = no_flips()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = the(faults).hold("after_submit")
        await d.deliver(action="sell", quantity="15")
        await send.arrived.wait()
        await d.halt("halted")
        send.release()
        close, opening = await both_over(d)
        assert (close["state"], close["ord_status"]) == ("DONE", "Filled")
        assert opening["reason"] == "TRADING_HALTED state=halted"
        assert ("warning", "turn_broken", "O3") in await Hand(d).kinds()
        await d.halt("active")
        the(faults).held.clear()
        # A person can still have it: what was decided then, and no more.
        await Hand(d).do("replay", order="O3")
        await d.state(4, "DONE")
        assert await d.book() == -5


async def test_h6_an_opening_that_waited_too_long_is_stale(tmp_path: Path) -> None:
    faults = no_flips()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = the(faults).hold("after_submit")
        await d.deliver(action="sell", quantity="15")
        await send.arrived.wait()
        d.clock.advance(61 * SECOND)
        send.release()
        close, opening = await both_over(d)
        assert close["ord_status"] == "Filled"
        assert opening["reason"].startswith("STALE age=61.0s limit=60s")
        assert await d.book() == 0


async def test_h3_an_exit_behind_a_turn_makes_its_opening_void(tmp_path: Path) -> None:
    faults = no_flips()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = the(faults).hold("after_submit")
        await d.deliver(action="sell", quantity="15")
        await send.arrived.wait()
        await d.deliver(action="exit")
        send.release()
        await d.settled()
        rows = {row["id"]: row for row in await d.orders()}
        opening = next(row for row in rows.values() if row["leg"] == 2)
        assert await d.book() == 0 or opening["state"] == "DONE"
        assert await d.exchange.run(lambda book: book.position("paper", "AAPL")) == await d.book() == 0
