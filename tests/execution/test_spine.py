"""The main job on paper: one signal becomes one order, and everything about it is in the ledger."""

from decimal import Decimal
from pathlib import Path

from tests.execution.kit import desk


async def test_a_buy_becomes_one_filled_paper_order(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["ord_status"], order["side"]) == ("DONE", "Filled", "buy")
        assert (order["filled_quantity"], order["average_price"]) == ("10", "100")
        (paper,) = d.paper_orders()
        assert paper["client_order_id"] == order["client_order_id"]
        assert await d.book() == Decimal(10)


async def test_the_same_key_again_is_a_duplicate_with_the_outcome_as_it_stands(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(key="a1", action="buy", quantity="10")
        again = await d.deliver(key="a1", action="buy", quantity="10.0")
        assert (again.kind, again.deliveries) == ("duplicate", 2)
        assert again.outcome is not None
        assert again.outcome["state"] == "DONE"
        assert again.outcome["orders"][0]["filled_quantity"] == "10"
        assert len(d.paper_orders()) == 1


async def test_an_exit_closes_exactly_the_own_book(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        order = await d.trade(action="exit")
        assert (order["side"], order["quantity"], order["state"]) == ("sell", "10", "DONE")
        assert await d.book() == 0


async def test_an_exit_with_nothing_held_sends_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        order = await d.trade(action="exit")
        assert order["state"] == "DONE"
        assert order["reason"].startswith("NOTHING_TO_DO")
        assert d.paper_orders() == []


async def test_an_exit_right_behind_its_entry_waits_and_then_closes_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10")
        await d.deliver(action="exit")
        states = [order["state"] for order in await d.settled()]
        assert states == ["DONE", "DONE"]
        assert await d.book() == 0
        assert [row["side"] for row in d.paper_orders()] == ["buy", "sell"]


async def test_a_resting_limit_order_is_ended_by_an_exit(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        limit = await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.until("SELECT state FROM orders WHERE claim_id = ?", "WORKING", limit.claim_id)
        await d.deliver(action="exit")
        first, second = await d.settled()
        assert (first["state"], first["ord_status"]) == ("DONE", "Canceled")
        assert second["reason"].startswith("NOTHING_TO_DO")


async def test_a_cancel_ends_what_rests_and_lists_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        limit = await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.until("SELECT state FROM orders WHERE claim_id = ?", "WORKING", limit.claim_id)
        cancel = await d.trade(action="cancel")
        assert cancel["reason"] == "CANCELED O1"
        (first,) = await d.settled(limit)
        assert first["ord_status"] == "Canceled"


async def test_a_sell_without_a_long_is_a_short_and_denied(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        order = await d.trade(action="sell", quantity="1")
        assert (order["state"], order["reason"].split()[0]) == ("DENIED", "SHORT_NOT_ALLOWED")


async def test_a_larger_sell_is_cut_to_the_long(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="4")
        order = await d.trade(action="sell", quantity="10")
        assert (order["state"], order["quantity"]) == ("DONE", "4")
        assert await d.book() == 0


async def test_an_entry_without_any_price_is_denied(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        order = await d.trade(action="buy", quantity="1", price=None)
        assert (order["state"], order["reason"]) == ("DENIED", "REFERENCE_PRICE_UNAVAILABLE")


async def test_halted_denies_and_keeps_nothing_for_resume(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.halt("halted")
        order = await d.trade(action="buy", quantity="1")
        assert (order["state"], order["reason"]) == ("DENIED", "TRADING_HALTED state=halted")
        await d.halt("active")
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"
        assert len(d.paper_orders()) == 1


async def test_exits_only_lets_exits_through(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="2")
        await d.halt("exits_only")
        assert (await d.trade(action="buy", quantity="1"))["reason"] == "TRADING_HALTED state=exits_only"
        assert (await d.trade(action="exit"))["state"] == "DONE"
        assert await d.book() == 0
