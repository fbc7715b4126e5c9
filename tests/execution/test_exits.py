"""Exits on the desk: what they wait for, what they cancel, what they make void, and that they always end."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from app.brokers.base import Unsent
from app.clock import SECOND
from app.ledger import orders
from app.ledger.orders import BookedFill
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, desk

D = Decimal
PARTIAL = CONFIG + 'fills = "partial"\n'
SHORTS = CONFIG + "allow_short = true\n"


async def test_h1_an_exit_behind_an_order_in_doubt_waits_and_then_closes_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_O1")
        d.clock.advance(3_600 * SECOND)
        look.release()
        entry, exit_ = await d.settled()
        assert (entry["state"], exit_["state"], exit_["quantity"]) == ("DONE", "DONE", "10")
        assert await d.book() == 0
        assert [row["side"] for row in d.paper_orders()] == ["buy", "sell"]


async def test_h1_a_sell_behind_a_buy_in_doubt_is_an_exit_without_an_age_limit(tmp_path: Path) -> None:
    """The book is empty while nobody knows of the buy; as an entry the sell would go stale and be lost."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="sell", quantity="10")
        order = await d.waits(2, "WAITING_FOR_O1")
        assert order["purpose"] == "exit"
        d.clock.advance(61 * SECOND)
        look.release()
        _, sell = await d.settled()
        assert (sell["state"], sell["quantity"]) == ("DONE", "10")
        assert await d.book() == 0


async def test_h1_an_exit_whose_entry_proves_absent_has_nothing_to_do(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_before")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_O1")
        look.release()
        entry, exit_ = await d.settled()
        assert (entry["state"], entry["reason"]) == ("NOT_PLACED", "CONFIRMED_ABSENT")
        assert exit_["reason"].startswith("NOTHING_TO_DO")
        assert d.paper_orders() == []


async def test_h4_an_exit_during_a_half_filled_entry_closes_all_of_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, PARTIAL, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        await d.deliver(action="exit")
        send.release()
        entry, exit_ = await d.settled()
        assert (entry["filled_quantity"], exit_["filled_quantity"]) == ("10", "10")
        assert await d.book() == 0
        fills = await d.reader.rows("SELECT order_id, quantity FROM v_fills ORDER BY number")
        assert [(row["order_id"], row["quantity"]) for row in fills] == [
            ("O1", "5"),
            ("O1", "5"),
            ("O2", "5"),
            ("O2", "5"),
        ]


async def test_h4_a_resting_entry_is_cancelled_first_and_what_had_filled_of_it_is_closed(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="3")
        limit = await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.until("SELECT state FROM orders WHERE claim_id = ?", "WORKING", limit.claim_id)
        await d.deliver(action="exit")
        _, resting, exit_ = await d.settled()
        assert (resting["state"], resting["ord_status"]) == ("DONE", "Canceled")
        assert (exit_["quantity"], exit_["state"]) == ("3", "DONE")


async def test_h5_a_market_exit_cancels_a_resting_exit_and_closes_all(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(action="sell", quantity="10", type="limit", limit_price="110")
        await d.state(2, "WORKING")
        await d.deliver(action="exit")
        _, profit, exit_ = await d.settled()
        assert (profit["state"], profit["ord_status"]) == ("DONE", "Canceled")
        assert exit_["quantity"] == "10"
        assert await d.book() == 0


async def test_two_resting_exits_stand_side_by_side_and_a_third_waits_for_something_to_close(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(action="sell", quantity="5", type="limit", limit_price="110")
        await d.state(2, "WORKING")
        await d.deliver(action="sell", quantity="50", type="limit", limit_price="120")
        order = await d.state(3, "WORKING")
        assert order["quantity"] == "5"
        await d.deliver(action="sell", quantity="5", type="stop", stop_price="90")
        await d.waits(4, "WAITING_FOR_O2")
        await d.deliver(action="exit")
        await d.settled()
        assert (await d.order(5))["quantity"] == "10"
        assert await d.book() == 0
        assert {row["status"] for row in d.paper_orders()} == {"Filled", "Canceled"}


async def test_an_entry_does_not_wait_for_a_resting_exit(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(action="sell", quantity="10", type="limit", limit_price="110")
        await d.state(2, "WORKING")
        more = await d.trade(action="buy", quantity="5")
        assert more["state"] == "DONE"
        assert await d.book() == 15


async def test_h3_an_entry_behind_a_waiting_exit_waits_and_is_not_closed_by_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_O1")
        await d.deliver(action="buy", quantity="3")
        await d.waits(3, "WAITING_FOR_O1")
        look.release()
        _, exit_, entry = await d.settled()
        assert (exit_["quantity"], entry["quantity"]) == ("10", "3")
        assert await d.book() == 3


async def test_h3_no_entry_goes_out_after_a_later_exit_whatever_the_exit_found(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Unsent("the line is down"))
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes the line is down")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_BROKER")
        faults.paper.plan.append(Unsent("still down"))
        d.clock.advance(SECOND)
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes still down")
        d.clock.advance(1)
        await d.deliver(action="buy", quantity="1", strategy="other")
        d.clock.advance(60 * SECOND)
        first, exit_, _ = await d.settled()
        assert first["reason"].split()[0] in ("SUPERSEDED_BY_EXIT", "STALE")
        assert exit_["reason"].startswith("NOTHING_TO_DO")
        assert [row for row in d.paper_orders() if row["quantity"] == "10"] == []


async def test_h3_a_parked_entry_is_superseded_by_the_exit_that_overtakes_it(tmp_path: Path) -> None:
    """The entry is held by a doubt on another symbol; the exit of its book need not wait for that."""
    faults = Faults()
    config = CONFIG + 'gate = "hold_account"\n'
    async with desk(tmp_path, config, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(symbol="MSFT", action="buy", quantity="1")
        await d.state(2, "AMBIGUOUS")
        await d.deliver(action="buy", quantity="5")
        await d.waits(3, "WAITING_FOR_O2")
        exit_ = await d.trade(action="exit")
        assert (exit_["state"], exit_["quantity"]) == ("DONE", "10")
        entry = await d.order(3)
        assert (entry["state"], entry["reason"]) == ("DENIED", "SUPERSEDED_BY_EXIT exit=O4")
        assert await d.book() == 0


async def test_h1_a_later_order_of_another_book_in_doubt_does_not_hold_an_exit(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10", strategy="A")
        await d.deliver(action="buy", quantity="1", strategy="A", type="limit", limit_price="90")
        await d.state(2, "WORKING")
        cancel = faults.paper.hold("cancel")
        await d.deliver(action="exit", strategy="A")
        await d.waits(3, "WAITING_FOR_O2")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="2", strategy="B")
        await d.state(4, "AMBIGUOUS")
        cancel.release()
        assert (await d.state(3, "DONE"))["quantity"] == "10"
        assert (await d.order(4))["state"] == "AMBIGUOUS"
        assert await d.book() == 0


async def test_a_flip_is_cut_to_its_exit_when_the_short_is_not_allowed(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="4")
        flip = await d.trade(action="sell", quantity="10", market_position="short", market_position_size="6")
        assert (flip["state"], flip["quantity"], flip["purpose"]) == ("DONE", "4", "exit")
        (cut,) = await d.events("order cut to its exit")
        assert cut["detail"] == {"denied": "SHORT_NOT_ALLOWED opens=6"}
        assert await d.book() == 0


async def test_a_flip_within_the_limits_goes_out_whole(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS) as d:
        await d.trade(action="buy", quantity="4")
        flip = await d.trade(action="sell", quantity="10")
        assert (flip["state"], flip["quantity"], flip["purpose"]) == ("DONE", "10", "entry")
        assert await d.book() == -6


async def test_a_reverse_that_waited_too_long_still_closes_what_it_was_to_turn(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="reverse", quantity="10")
        await d.waits(2, "WAITING_FOR_O1")
        d.clock.advance(61 * SECOND)
        look.release()
        _, turned = await d.settled()
        assert (turned["quantity"], turned["purpose"]) == ("10", "exit")
        assert await d.book() == 0
        (cut,) = await d.events("order cut to its exit")
        assert cut["detail"]["denied"].startswith("STALE")


async def test_h6_a_look_that_is_older_than_our_own_fills_decides_nothing(tmp_path: Path) -> None:
    """A late fill is booked after the position was read: closing what that look shows would leave it open."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        look = faults.paper.hold("quote")  # the last of the three looks
        await d.deliver(action="exit")
        await look.arrived.wait()
        await d.by_hand("buy", "2")
        fill = BookedFill("late", D(2), D(100), D(0), d.clock.now())
        await d.writer.run(lambda tx: orders.add_fills(tx, orders.get(tx, 1), [fill], at=d.clock.now()))
        look.release()
        assert (await d.state(2, "DONE"))["quantity"] == "12"
        assert await d.book() == 0


async def test_a_late_own_fill_of_an_ended_order_is_booked_and_the_next_exit_closes_it(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.deliver(action="cancel")
        (entry, _) = await d.settled()
        assert entry["ord_status"] == "Canceled"
        await d.exchange.run(lambda book: _fill_after_all(book, entry["client_order_id"]))
        (report,) = await d.trading.reconcile("paper", "button")
        assert report.fills_added == 1
        late = await d.order(1)
        assert (late["state"], late["ord_status"], late["filled_quantity"]) == ("DONE", "Filled", "10")
        assert await d.book() == 10
        assert (await d.trade(action="exit"))["quantity"] == "10"
        assert await d.book() == 0


def _fill_after_all(book: object, client_order_id: str) -> None:
    """The exchange fills an order that it had called canceled, as venues sometimes do."""
    store = book._store  # type: ignore[attr-defined]

    def work() -> None:
        store.rows(
            "UPDATE orders SET due_price = '90', status = 'New' WHERE client_order_id = ?", client_order_id
        )

    store.write("paper_test", work)
