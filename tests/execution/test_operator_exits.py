"""A person's own orders: exits only, of our books only, halted or not, once a press (HOLES H2, H26, H30)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, Desk, desk
from tests.execution.operator_kit import Hand, arrive

TWO_SOURCES = (
    CONFIG
    + """
[[sources]]
name = "other"
id = "other-id"
accounts = ["paper"]
"""
)
SHORTS = CONFIG + "allow_short = true\n"


async def two_books(d: Desk) -> None:
    await d.trade(action="buy", quantity="10", strategy="A")
    await d.trade(action="buy", quantity="5", strategy="B")


# ------------------------------------------------------------------------------------------ close and flatten


async def test_close_sells_each_of_our_books_by_an_order_of_its_own_and_once_a_press(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await two_books(d)
        answer = await Hand(d).thrice("close", account="paper", symbol="aapl")
        assert [(one["order"], one["strategy"], one["side"], one["book"]) for one in answer["orders"]] == [
            ("O3", "A", "sell", "10"),
            ("O4", "B", "sell", "5"),
        ]
        await d.settled()
        closed = [(row["id"], row["side"], row["quantity"], row["state"]) for row in (await d.orders())[2:]]
        assert closed == [("O3", "sell", "10", "DONE"), ("O4", "sell", "5", "DONE")]
        assert await d.book() == 0
        assert len(d.paper_orders()) == 4
        rows = await d.reader.rows("SELECT source, key, action FROM v_signals ORDER BY number DESC LIMIT 2")
        assert {row["source"] for row in rows} == {"(operator)"}
        (event,) = await d.events("close asked")
        assert event["detail"]["orders"] == ["O3", "O4"]
        assert (event["actor"], event["detail"]["why"]) == ("person", "I looked")


async def test_h2_what_is_not_ours_is_named_and_never_touched(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await d.by_hand("buy", "100")
        await d.by_hand("buy", "7", symbol="MSFT")
        await d.trade(action="buy", quantity="10")
        await d.trading.reconcile("paper", "button")
        hand = Hand(d)
        answer = await hand.do("flatten", account="paper")
        assert [(one["symbol"], one["book"]) for one in answer["orders"]] == [("AAPL", "10")]
        assert [(one["symbol"], one["quantity"]) for one in answer["not_ours"]] == [
            ("AAPL", "100"),
            ("MSFT", "7"),
        ]
        await d.settled()
        ours = [row for row in d.paper_orders() if not row["client_order_id"].startswith("hand")]
        assert [(row["symbol"], row["side"], row["quantity"]) for row in ours] == [
            ("AAPL", "buy", "10"),
            ("AAPL", "sell", "10"),
        ]
        why = await hand.refused("close", account="paper", symbol="MSFT")
        assert why == (
            "nothing of ours is open on MSFT in paper: no book of ours is open there at all; "
            "7 there are not ours"
        )


async def test_flatten_closes_long_and_short_of_every_source_and_leaves_other_accounts(
    tmp_path: Path,
) -> None:
    config = TWO_SOURCES.replace('accounts = ["paper"]', 'accounts = ["paper", "b"]', 1)
    config += '\n[[accounts]]\nname = "b"\nbroker = "paper"\n'
    config = config.replace('broker = "paper"\n', 'broker = "paper"\nallow_short = true\n', 1)
    async with desk(tmp_path, config) as d:
        await d.deliver(action="buy", quantity="10")
        await d.settled()
        await d.trade(source="other", action="sell", quantity="4", symbol="MSFT")
        answer = await Hand(d).do("flatten", account="paper")
        shown = [(one["symbol"], one["source"], one["side"], one["book"]) for one in answer["orders"]]
        assert shown == [("AAPL", "tv", "sell", "10"), ("MSFT", "other", "buy", "-4")]
        await d.settled()
        assert await d.book("MSFT") == 0
        rows = await d.reader.rows("SELECT account, quantity FROM v_positions WHERE quantity <> '0'")
        assert rows == [{"account": "b", "quantity": "10"}]


async def test_flatten_of_nothing_is_done_and_close_of_nothing_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        hand = Hand(d)
        answer = await hand.do("flatten", account="paper")
        assert (answer["orders"], answer["already"], answer["not_ours"]) == ([], [], [])
        why = await hand.refused("close", account="paper", symbol="AAPL")
        assert why == "nothing of ours is open on AAPL in paper: no book of ours is open there at all"
        await d.trade(action="buy", quantity="1", symbol="MSFT")
        why = await hand.refused("close", account="paper", symbol="AAPL")
        assert why == "nothing of ours is open on AAPL in paper: ours are open on MSFT"
        for name in ("close", "flatten"):
            arguments = {"account": "nobody"} | ({"symbol": "AAPL"} if name == "close" else {})
            assert await hand.refused(name, **arguments) == "there is no account 'nobody': paper"


@pytest.mark.parametrize("state", ["halted", "exits_only"])
async def test_h30_a_persons_exit_goes_out_whatever_the_halt_says(tmp_path: Path, state: str) -> None:
    async with desk(tmp_path) as d:
        await two_books(d)
        await d.halt(state)
        assert (await d.trade(action="exit", strategy="A"))["state"] == (
            "DENIED" if state == "halted" else "DONE"
        )
        await Hand(d).do("flatten", account="paper")
        await d.until("SELECT count(*) FROM orders WHERE state = 'PENDING'", 0)
        await d.settled()
        assert await d.book() == 0
        assert d.trading.state == state


async def test_h30_a_halt_while_it_is_on_its_way_does_not_stop_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = faults.paper.hold("before_submit")
        await Hand(d).do("close", account="paper", symbol="AAPL")
        await send.arrived.wait()
        await d.halt("halted")
        send.release()
        assert (await d.state(2, "DONE"))["filled_quantity"] == "10"


async def test_h1_it_waits_for_what_is_in_doubt_and_then_closes_what_that_became(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        faults.paper.failing.add("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        hand = Hand(d)
        answer = await hand.do("flatten", account="paper")
        (one,) = answer["orders"]
        assert (one["side"], one["book"], one["waits_for"]) == (None, "0", ["O1"])
        await d.waits(2, "WAITING_FOR_O1")
        d.clock.advance(3_600 * SECOND)
        # Another press meanwhile makes no second one: the first sizes itself when it goes.
        again = await hand.do("flatten", account="paper")
        assert (again["orders"], [one["order"] for one in again["already"]]) == ([], ["O2"])
        faults.paper.failing.clear()
        assert (await d.state(2, "DONE"))["filled_quantity"] == "10"
        assert await d.book() == 0


async def test_h4_it_cancels_what_rests_and_closes_what_had_filled(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'fills = "partial"\n') as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await Hand(d).do("close", account="paper", symbol="AAPL")
        await d.state(1, "DONE")
        order = await d.state(2, "DONE")
        assert order["reason"] == "NOTHING_TO_DO the book is flat"
        assert [row["status"] for row in d.paper_orders()] == ["Canceled"]


async def test_of_two_books_the_one_that_became_flat_meanwhile_is_nothing_to_do(tmp_path: Path) -> None:
    """That the other is open is no news to whoever closes both."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await two_books(d)
        faults.paper.failing.add("account")
        await Hand(d).do("flatten", account="paper")
        await d.waits(3, "WAITING_FOR_BROKER")
        sql = "UPDATE books SET net = '0' WHERE strategy = 'A'"
        await d.writer.run(lambda tx: tx.change("books", sql))
        faults.paper.failing.clear()
        d.clock.advance(5 * SECOND)
        await d.settled()
        assert (await d.order(3))["reason"] == "NOTHING_TO_DO the book is flat"
        assert (await d.order(4))["filled_quantity"] == "5"


async def test_a_dry_run_says_what_would_be_made_and_makes_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        hand = Hand(d)
        seen = await hand.do("close", "press", account="paper", symbol="AAPL", dry_run=True)
        assert seen["dry_run"] is True
        assert [(one["side"], one["book"]) for one in seen["orders"]] == [("sell", "10")]
        assert len(await d.orders()) == 1
        assert await d.events("close asked") == []
        # The press itself has the same id as its question.
        await hand.do("close", "press", account="paper", symbol="AAPL")
        await d.settled()
        assert await d.book() == 0
        # Asked once more, the question has its answer already.
        again = await hand.do("close", "press", account="paper", symbol="AAPL", dry_run=True)
        assert "dry_run" not in again


async def test_a_persons_exit_survives_a_restart_and_is_sent_then(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.failing.add("account")
        await Hand(d).do("close", "press", account="paper", symbol="AAPL")
        await d.waits(2, "WAITING_FOR_BROKER")
        clock = d.clock
    clock.advance(3_600 * SECOND)
    async with desk(tmp_path, clock=clock) as d:
        assert (await d.state(2, "DONE"))["filled_quantity"] == "10"
        answer = await Hand(d).do("close", "press", account="paper", symbol="AAPL")
        assert [one["order"] for one in answer["orders"]] == ["O2"]
        assert len(d.paper_orders()) == 2


# ----------------------------------------------------------------------------------------------------- cancel


async def test_cancel_of_a_resting_order_asks_the_broker(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.halt("halted")
        answer = await Hand(d).thrice("cancel", order="O1", seen="WORKING")
        assert (answer["was"], answer["asked_the_broker"]) == ("WORKING", True)
        assert (await d.state(1, "DONE"))["ord_status"] == "Canceled"
        assert len(await d.events("cancel asked")) == 1


async def test_cancel_of_what_was_not_sent_ends_it_at_once(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.failing.add("account")
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER")
        answer = await Hand(d).do("cancel", order="O1")
        assert (answer["state"], answer["reason"]) == ("DENIED", "CANCELED_BY_OPERATOR")
        assert answer["asked_the_broker"] is False


async def test_h7_cancel_of_an_order_in_doubt_is_carried_out_when_it_is_found(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        faults.paper.failing.add("find")
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "AMBIGUOUS")
        answer = await Hand(d).do("cancel", order="O1")
        assert (answer["state"], answer["asked_the_broker"]) == ("AMBIGUOUS", True)
        faults.paper.failing.clear()
        assert (await d.state(1, "DONE"))["ord_status"] == "Canceled"


async def test_cancel_of_an_order_on_its_way_that_is_proved_unsent_ends_it(tmp_path: Path) -> None:
    from app.brokers.base import Unsent

    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Unsent("no route"))
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        await Hand(d).do("cancel", order="O1", seen="SUBMITTING")
        send.release()
        assert (await d.state(1, "DENIED"))["reason"] == "CANCELED_BY_OPERATOR proved_unsent=yes"


async def test_cancel_needs_no_reason_but_something_to_cancel(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(action="buy", quantity="1", type="limit", limit_price="90")
        await d.state(2, "WORKING")
        hand = Hand(d)
        assert await hand.refused("cancel", order="O1") == "O1 is DONE: there is nothing to cancel"
        why = await hand.refused("cancel", order="O2", seen="PENDING")
        assert why == "O2 is WORKING now, not PENDING: look at it again"
        await hand.do("cancel", order="O2", why="")
        await d.state(2, "DONE")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("close", {"account": "paper", "symbol": "AAPL", "why": ""}, "close needs a reason"),
        ("flatten", {"account": "paper", "why": ""}, "flatten needs a reason"),
        ("flatten", {"account": "paper", "symbol": "AAPL"}, "not a request of this command"),
        ("close", {"account": "paper"}, "not a request of this command"),
        ("cancel", {"order": "D1"}, "'D1' is no id: an order's id is like O12"),
        ("cancel", {"order": "O99999999999999999999"}, "is no id"),
    ],
)
async def test_what_makes_no_sense_makes_no_order(
    tmp_path: Path, name: str, arguments: dict[str, Any], said: str
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        assert said in await Hand(d).refused(name, **arguments)
        assert len(await d.orders()) == 1


async def test_h26_a_stranger_at_the_exchange_is_not_cancelled(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await arrive(d, "a stranger's", limit="90")
        await d.trading.reconcile("paper", "button")
        await Hand(d).do("flatten", account="paper")
        assert [row["status"] for row in d.paper_orders()] == ["New"]
