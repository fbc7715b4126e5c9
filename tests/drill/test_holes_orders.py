"""H2, H7, H8, H10, H28, H36 at a venue: whose it is, cancels, prices, limits, a person, connections."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.clock import SECOND
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.kit import CONFIG, also, of_class, venue

LIMITS = CONFIG + "\n[risk]\nmax_orders_per_minute = 1\nmax_order_notional = 1000\n"


async def test_h2_an_exit_closes_what_is_ours_and_leaves_what_a_hand_holds(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.by_hand("buy", "100")
        await v.reconcile()
        await v.filled("10")
        await v.exit()
        order = await v.over(2)
        assert (order["state"], order["quantity"]) == ("DONE", "10")
        assert await v.position() == "100"


async def test_h7_a_cancel_reaches_an_order_that_nobody_has_heard_of_yet(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        v.lags(60)
        v.fault("submit", Reply.RESET)
        await v.buy(type="limit", limit_price="95")
        await v.state(1, "AMBIGUOUS")
        await v.deliver(action="cancel")
        async with v.time_runs():
            order = await v.over(1)
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Canceled", "0")
        assert [row["status"] for row in await v.at_exchange()] == ["canceled"]
        await v.ended()


@pytest.mark.parametrize("price", ["1", *also("10000")])
async def test_h8_a_price_that_is_not_the_venues_is_denied_with_numbers(tmp_path: Path, price: str) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.buy("10", price=price)
        order = await v.over()
        assert (order["state"], order["reason"].split()[0]) == ("DENIED", "PRICE_OUTSIDE_BAND")
        assert "100" in order["reason"]
        assert await v.at_exchange() == []


async def test_h8_without_a_fresh_price_of_the_venue_there_is_no_entry(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply", quote_age=120 * SECOND)) as v:
        await v.buy("10")
        assert (await v.over())["state"] == "DENIED"
        assert await v.at_exchange() == []


async def test_h10_limits_stop_entries_and_no_exit(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply"), config=LIMITS) as v:
        await v.filled("10")
        await v.exchange.ask(Book.set_price, "AAPL", "101")
        await v.buy("1", price="101")
        denied = await v.over(2)
        assert denied["state"] == "DENIED"
        await v.deliver(action="exit", price=None)
        order = await v.over(3)
        assert (order["ord_status"], order["quantity"]) == ("Filled", "10")
        assert Decimal(await v.position()) == 0


async def test_h28_a_persons_word_is_checked_at_the_venue(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("E")) as v:
        stranger = await v.by_hand("buy", "3")
        v.lags(1_000)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        early = await v.hand.refused("resolve", order="O1", answer="not_placed")
        assert "may still arrive" in early
        async with v.time_runs():
            await v.state(1, "NEEDS_OPERATOR")
        v.rules.lag.clear()
        shown = await v.hand.refused("resolve", order="O1", answer="not_placed")
        assert shown
        assert (await v.desk.order(1))["state"] != "NOT_PLACED"
        if (await v.desk.order(1))["state"] == "NEEDS_OPERATOR":
            wrong = await v.hand.refused(
                "resolve", order="O1", answer="placed", broker_order_id=stranger["id"]
            )
            assert wrong
            ours = (await v.at_exchange())[0]["id"]
            await v.hand.do("resolve", order="O1", answer="placed", broker_order_id=ours)
        assert (await v.over())["state"] == "DONE"


async def test_h36_a_redirect_after_the_order_was_taken_is_one_hit_and_a_doubt(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.REDIRECT)
        await v.buy()
        order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert "AMBIGUOUS" in await v.states()
        assert await v.posts() == 1


async def test_h36_an_idle_connection_that_is_closed_makes_no_doubt(tmp_path: Path) -> None:
    """Looks keep their connections; each order has a fresh one, so that an old one cannot die under it."""
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.filled("1")
        # Every connection that stands idle is closed by the venue, as after hours without a signal.
        await v.exchange.drop_idle()
        await v.buy("2")
        order = await v.over(2)
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert "AMBIGUOUS" not in await v.states(2)
        assert await v.posts() == 2


async def test_an_order_taken_and_never_there_again_is_told_by_the_position(tmp_path: Path) -> None:
    """Lookups deny it, the position has it: a person's, and nothing more is bought meanwhile."""
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(100_000, "find", "order", "orders", "fills")
        v.fault("submit", Reply.RESET, Taken.BEFORE_REPLY)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.buy("1")
        async with v.time_runs():
            held, second = await v.ended()
        assert held["state"] == "NEEDS_OPERATOR"
        assert second["state"] == "DENIED"
        assert len(await v.at_exchange()) == 1
