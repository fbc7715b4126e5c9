"""Exits that asked for all go on when what they were to close fills late (HOLES H1, H4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.brokers.base import Broker, BrokerOrder, Fill, Snapshot
from app.clock import SECOND
from app.domain.order import OrdStatus
from app.ledger.needs import needs as needs_of
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import Hand


class CancelsInWord(FaultyBroker):
    """Says that an order is canceled, and keeps it: what it fills later comes as a fill of a dead order."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.lied_about: set[str] = set()

    async def cancel(self, client_order_id: str) -> None:
        self.lied_about.add(client_order_id)

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        found = await super().find(client_order_id)
        if found is None or client_order_id not in self.lied_about:
            return found
        return replace(found, status=OrdStatus.CANCELED, filled_quantity=found.quantity * 0)

    async def fills(self, client_order_id: str) -> list[Fill]:
        return [] if client_order_id in self.lied_about else await super().fills(client_order_id)

    async def snapshot(self, since: int) -> Snapshot:
        found = await super().snapshot(since)
        there = [order for order in found.open_orders if order.client_order_id not in self.lied_about]
        return replace(found, open_orders=there)


async def show_price(d: Desk, faults: Faults, price: str) -> None:
    """The market moves at the exchange, and a reconciliation sees what that filled."""
    await d.by_hand("buy", "1", price=price)
    await d.by_hand("sell", "1", price=price)
    (report,) = await d.trading.reconcile("paper", "manual")
    assert report.result != "FAILED"


async def test_h4_an_exit_goes_on_when_a_canceled_entry_fills_after_all(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="3")
        await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.state(2, "WORKING")
        exit_ = await d.trade(action="exit")
        assert (exit_["state"], exit_["filled_quantity"]) == ("DONE", "3")
        assert (await d.order(2))["ord_status"] == "Canceled"
        await show_price(d, faults, "90")
        await d.state(4, "DONE")
        leg = await d.order(4)
        assert (leg["side"], leg["filled_quantity"], leg["leg"]) == ("sell", "7", 2)
        assert leg["signal"] == exit_["signal"]
        assert await d.book() == 0
        (event,) = await d.events("exit goes on")
        assert event["detail"] == {"after": "O3", "left": "7", "leg": 2}


async def test_h4_after_three_legs_the_rest_is_a_persons(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="1")
        for number, price in enumerate(("90", "80", "70"), 2):
            await d.deliver(action="buy", quantity="2", type="limit", limit_price=price)
            await d.state(number, "WORKING")
        await d.trade(action="exit")
        for number, price in ((6, "90"), (7, "80")):
            await show_price(d, faults, price)
            await d.state(number, "DONE")
        await show_price(d, faults, "70")
        rest = await d.state(8, "DENIED")
        assert rest["reason"] == "EXIT_INCOMPLETE left=2 legs=3"
        assert await d.book() == 2
        needs = await d.reader.call(lambda db: needs_of(db, d.clock.now()))
        assert [(need.subject, need.severity) for need in needs if need.kind == "exit_lost"] == [
            ("O8", "critical")
        ]
        (event,) = await d.events("exit left a rest")
        assert event["subject"] == "O8"
        # One word about it is enough.
        await d.trading.reconcile("paper", "manual")
        assert len(await d.orders()) == 8


async def test_h4_what_came_after_the_exit_is_not_closed_by_it(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.trade(action="exit")
        await d.trade(action="buy", quantity="5")
        await show_price(d, faults, "90")
        rest = await d.state(4, "DENIED")
        assert rest["reason"] == "EXIT_INCOMPLETE left=12 later_entry=O3"
        assert await d.book() == 12


async def test_h4_an_exit_of_a_part_does_not_go_on(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="3")
        await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.state(2, "WORKING")
        await d.trade(action="exit", quantity="3")
        await show_price(d, faults, "90")
        await d.until("SELECT filled_quantity FROM orders WHERE id = 2", "7")
        assert len(await d.orders()) == 3
        assert await d.book() == 7


async def ghost(d: Desk, faults: Faults) -> None:
    """O1, buy 10 at 90, was called absent and rests at the broker; the exit O2 found nothing to do."""
    await d.ready()
    faults.paper.plan.append("lost_after")
    send = faults.paper.hold("after_submit")
    await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
    await send.arrived.wait()
    faults.paper.hidden.add(faults.paper.sent[0].client_order_id)
    send.release()
    await d.state(1, "NOT_PLACED")
    exit_ = await d.trade(action="exit")
    assert exit_["reason"].startswith("NOTHING_TO_DO")
    faults.paper.hidden.clear()


async def test_h1_a_ghost_that_filled_opens_the_exit_again(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await ghost(d, faults)
        await show_price(d, faults, "90")
        assert (await d.state(3, "DONE"))["filled_quantity"] == "10"
        assert (await d.order(1))["ord_status"] == "Filled"
        assert await d.book() == 0


async def test_h1_a_ghost_that_rests_is_canceled_by_the_exit_that_opens_again(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await ghost(d, faults)
        await d.trading.reconcile("paper", "manual")
        leg = await d.state(3, "DONE")
        assert leg["reason"].startswith("NOTHING_TO_DO")
        assert (await d.order(1))["ord_status"] == "Canceled"
        assert [row["side"] for row in d.paper_orders()] == ["buy"]


# ------------------------------------------------------------------------------- what is over stays over


async def look_again(d: Desk) -> None:
    for _ in range(3):
        d.clock.advance(SECOND)
        (report,) = await d.trading.reconcile("paper", "manual")
        assert report.result != "FAILED"


async def test_h3_what_a_person_puts_into_the_book_after_an_exit_is_not_closed_by_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.trade(action="exit")
        d.clock.advance(SECOND)
        await d.by_hand("buy", "5")
        await d.trading.reconcile("paper", "manual")
        book = {"account": "paper", "symbol": "AAPL", "source": "tv", "strategy": "", "quantity": "5"}
        await Hand(d).do("book", **book)
        assert await d.book() == 5
        await look_again(d)
        assert len(await d.orders()) == 2
        assert await d.book() == 5
        assert await d.events("exit goes on") == []


async def test_h3_a_pass_that_shows_known_fills_opens_no_finished_exit_again(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        exit_ = await d.trade(action="exit")
        await d.trade(action="buy", quantity="5")
        await look_again(d)
        assert [row["state"] for row in await d.orders()] == ["DONE"] * 3
        assert await d.order(2) == exit_
        assert await d.book() == 5
        assert await Hand(d).needs() == []


async def test_h4_a_late_fill_on_top_of_a_persons_quantity_is_his_to_close(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.trade(action="exit")
        d.clock.advance(SECOND)
        book = {"account": "paper", "symbol": "AAPL", "source": "tv", "strategy": "", "quantity": "5"}
        await Hand(d).do("book", **book)
        await show_price(d, faults, "90")
        rest = await d.state(3, "DENIED")
        assert rest["reason"] == "EXIT_INCOMPLETE left=12 adjusted=5"
        assert await d.book() == 12


async def test_h4_a_late_fill_goes_out_though_a_later_entry_came_and_went(tmp_path: Path) -> None:
    faults = Faults(kind=CancelsInWord)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="7", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.trade(action="exit")
        await d.trade(action="buy", quantity="5")
        await d.trade(action="exit")
        await show_price(d, faults, "90")
        leg = await d.state(5, "DONE")
        assert (leg["signal"], leg["leg"], leg["filled_quantity"]) == ("S4", 2, "7")
        assert await d.book() == 0
