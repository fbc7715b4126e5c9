"""A person's correction of a book: a row of its own, with its reason, while nothing of the book is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.kit import CONFIG, desk
from tests.execution.operator_kit import Hand

SHORTS = CONFIG + "allow_short = true\n"


async def test_a_book_is_set_once_with_its_row_and_its_trace(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        answer = await Hand(d).thrice("book", account="paper", symbol="aapl", quantity="4.5", seen="10")
        assert answer == {
            "account": "paper",
            "symbol": "AAPL",
            "source": "tv",
            "strategy": "",
            "was": "10",
            "quantity": "4.5",
            "difference": "-5.5",
        }
        assert await d.book() == 4.5
        rows = await d.reader.rows("SELECT quantity, why FROM adjustments")
        assert rows == [{"quantity": "-5.5", "why": "I looked"}]
        (event,) = await d.events("book adjusted")
        assert (event["subject"], event["detail"]["was"]) == ("paper AAPL", "10")
        assert len(d.paper_orders()) == 1


async def test_after_a_correction_an_exit_closes_what_the_book_says(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "4")
        await d.trading.reconcile("paper", "button")
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.kind, need.subject) == ("drift", "paper AAPL")
        (action, again) = need.actions
        assert (action.command, again.command) == ("book", "reconcile")
        # The finding offers the very correction.
        await hand.do(action.command, **action.arguments)
        assert await hand.needs() == []
        order = await d.trade(action="exit")
        assert order["filled_quantity"] == "6"


@pytest.mark.parametrize("how", ["working", "waiting"])
async def test_while_an_order_of_the_book_is_open_it_is_not_set(tmp_path: Path, how: str) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        if how == "working":
            await d.deliver(action="buy", quantity="1", type="limit", limit_price="90")
            await d.state(2, "WORKING")
        else:
            await d.writer.run(lambda tx: tx.execute("DROP TRIGGER orders_follow_edges"))
            await d.deliver(action="buy", quantity="1")
            await d.state(2, "DONE")
            await d.writer.run(
                lambda tx: tx.execute("UPDATE orders SET state = 'NEEDS_OPERATOR' WHERE id = 2")
            )
        why = await Hand(d).refused("book", account="paper", symbol="AAPL", quantity="4")
        state = "WORKING" if how == "working" else "NEEDS_OPERATOR"
        assert why.startswith(f"orders of this book are not over: O2 {state}")
        # Another book of the same instrument is not held up by it.
        await Hand(d).do("book", account="paper", symbol="AAPL", quantity="3", source="tv", strategy="B")
        assert await d.book(strategy="B") == 3


async def test_of_several_books_it_must_be_said_which(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS) as d:
        await d.trade(action="buy", quantity="10", strategy="A")
        await d.trade(action="buy", quantity="5", strategy="B")
        hand = Hand(d)
        why = await hand.refused("book", account="paper", symbol="AAPL", quantity="0")
        assert why == (
            "several books are open on AAPL in paper: say which: "
            "--source tv --strategy A, --source tv --strategy B"
        )
        why = await hand.refused("book", account="paper", symbol="AAPL", quantity="0", source="tv")
        assert why.startswith("several books are open")
        answer = await hand.do("book", account="paper", symbol="AAPL", quantity="-2", strategy="B")
        assert (answer["strategy"], answer["was"], answer["quantity"]) == ("B", "5", "-2")
        assert await d.book() == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"quantity": "ten"}, "'ten' is no quantity"),
        ({"quantity": "nan"}, "is no quantity"),
        ({"quantity": "1" * 41}, "is no quantity"),
        ({"quantity": "10"}, "the book holds 10 already"),
        ({"quantity": "4", "seen": "9"}, "the book holds 10 now, not 9: look at it again"),
        ({"quantity": "4", "source": "nobody", "strategy": ""}, "there is no source 'nobody'"),
        ({"quantity": "4", "symbol": "MSFT"}, "no book is open on MSFT in paper: say whose"),
        ({"quantity": "4", "account": "nobody"}, "there is no account 'nobody': paper"),
        ({"quantity": 4}, "not a request of this command"),
        ({"quantity": "4", "why": ""}, "book needs a reason"),
    ],
)
async def test_a_correction_that_makes_no_sense_is_refused(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        arguments = {"account": "paper", "symbol": "AAPL", **arguments}
        assert said in await Hand(d).refused("book", **arguments)
        assert await d.book() == 10
        assert await d.reader.rows("SELECT * FROM adjustments") == []
