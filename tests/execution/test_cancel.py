"""Cancel signals: they end what their book has open, also what is in doubt now (HOLES H7)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from app.brokers.base import Unsent
from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import desk


async def test_h7_an_order_in_doubt_is_cancelled_the_moment_it_is_found_working(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "AMBIGUOUS")
        cancel = await d.trade(action="cancel")
        assert (cancel["state"], cancel["reason"]) == ("DONE", "CANCELED O1")
        look.release()
        found = await d.state(1, "DONE")
        assert (found["ord_status"], found["filled_quantity"]) == ("Canceled", "0")
        assert [row["status"] for row in d.paper_orders()] == ["Canceled"]


async def test_h7_an_order_on_its_way_is_cancelled_when_its_reply_comes(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "SUBMITTING")
        await send.arrived.wait()
        # The lane of this symbol has the order in hand: the cancel waits its turn behind it.
        await d.deliver(action="cancel")
        send.release()
        first, cancel = await d.settled()
        assert (first["state"], first["ord_status"]) == ("DONE", "Canceled")
        assert cancel["reason"] == "CANCELED O1"


async def test_h7_an_order_that_was_cancelled_while_unsent_is_never_sent_again(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Unsent("no route"))
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes no route")
        cancel = await d.trade(action="cancel")
        assert cancel["reason"] == "CANCELED O1"
        first = await d.order(1)
        assert (first["state"], first["reason"]) == ("DENIED", "CANCELED_BY_SIGNAL")
        d.clock.advance(5 * SECOND)
        await d.trade(action="buy", quantity="1")
        assert [row["quantity"] for row in d.paper_orders()] == ["1"]


async def test_h7_what_a_cancel_marked_on_its_way_and_that_never_left_is_denied(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        faults.paper.plan.append(Unsent("no route"))
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "SUBMITTING")
        await d.writer.run(lambda tx: tx.change("orders", "UPDATE orders SET cancel_requested = 1"))
        send.release()
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "CANCELED_BY_SIGNAL proved_unsent=yes"


async def test_a_cancel_ends_only_its_own_book_and_only_what_came_before_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(strategy="A", action="buy", quantity="1", type="limit", limit_price="90")
        await d.deliver(strategy="B", action="buy", quantity="2", type="limit", limit_price="90")
        await d.deliver(
            strategy="A", symbol="MSFT", action="buy", quantity="3", type="limit", limit_price="90"
        )
        for number in (1, 2, 3):
            await d.state(number, "WORKING")
        cancel = await d.trade(strategy="A", action="cancel")
        assert cancel["reason"] == "CANCELED O1"
        await d.deliver(strategy="A", action="buy", quantity="4", type="limit", limit_price="90")
        await d.state(5, "WORKING")
        states = [(row["quantity"], row["ord_status"]) for row in await d.orders()]
        assert states == [("1", "Canceled"), ("2", "New"), ("3", "New"), (None, None), ("4", "New")]


async def test_a_cancel_denies_what_waits_exits_too_and_lists_everything(tmp_path: Path) -> None:
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
        cancel = await d.trade(action="cancel")
        assert cancel["reason"] == "CANCELED O1 O2 O3"
        for number in (2, 3):
            order = await d.order(number)
            assert (order["state"], order["reason"]) == ("DENIED", "CANCELED_BY_SIGNAL")


async def test_a_cancel_of_nothing_is_done_and_says_so(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        cancel = await d.trade(action="cancel")
        assert (cancel["state"], cancel["reason"]) == ("DONE", "NOTHING_TO_DO no open order")


async def test_a_cancel_needs_no_broker_and_is_carried_out_when_it_is_back(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        faults.paper.failing |= {"find", "connect", "cancel"}
        d.trading._sessions["paper"].nudge()
        await d.until("SELECT count(*) > 0 FROM reconciliations", 1)
        cancel = await d.trade(action="cancel")
        assert cancel["reason"] == "CANCELED O1"
        assert [row["status"] for row in d.paper_orders()] == ["New"]
        faults.paper.failing.clear()
        assert (await d.state(1, "DONE"))["ord_status"] == "Canceled"


async def test_a_partly_filled_order_that_is_cancelled_keeps_what_it_filled(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        order = await d.state(1, "WORKING")
        await d.exchange.run(lambda book: _fill_some(book, order["client_order_id"]))
        await d.trade(action="cancel")
        ended = await d.state(1, "DONE")
        assert (ended["ord_status"], ended["filled_quantity"]) == ("Canceled", "4")
        assert await d.book() == 4


def _fill_some(book: object, client_order_id: str) -> None:
    store = book._store  # type: ignore[attr-defined]

    def work() -> None:
        (order,) = book._orders("client_order_id = ?", client_order_id)  # type: ignore[attr-defined]
        book._fill(order._replace(due_price=Decimal(90)), Decimal(4))  # type: ignore[attr-defined]
        store.rows("UPDATE orders SET due_price = NULL WHERE client_order_id = ?", client_order_id)

    store.write("paper_test", work)
