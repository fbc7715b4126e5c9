"""Several strategies, sources, symbols and accounts, and positions that are not ours (HOLES H2)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.ledger import orders
from tests.execution.kit import CONFIG, TWO_ACCOUNTS, decided, desk

SHORTS = CONFIG + "allow_short = true\n"
SIZED = TWO_ACCOUNTS + 'sizing = "quantity:3"\n'
TWO_SOURCES = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["paper"]

[[sources]]
name = "other"
id = "other-id"
accounts = ["paper"]

[[accounts]]
name = "paper"
broker = "paper"
"""


async def test_h2_two_strategies_on_one_symbol_each_close_their_own(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(strategy="A", action="buy", quantity="10")
        await d.trade(strategy="B", action="buy", quantity="5")
        order = await d.trade(strategy="A", action="sell", quantity="99", market_position="flat")
        assert (order["side"], order["quantity"]) == ("sell", "10")
        assert [await d.book(strategy="A"), await d.book(strategy="B")] == [0, 5]


async def test_h2_a_manual_position_is_never_closed(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await d.by_hand("buy", "100")
        await d.trade(action="buy", quantity="10")
        assert (await d.trade(action="exit"))["quantity"] == "10"
        assert await d.exchange.run(lambda book: book.position("paper", "AAPL")) == 100


@pytest.mark.parametrize("fields", [{"action": "exit"}, {"action": "sell", "market_position": "flat"}])
async def test_an_exit_of_an_empty_book_is_denied_while_another_book_is_open(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(strategy="A", action="buy", quantity="10")
        order = await d.trade(strategy="B", **fields)
        assert (order["state"], order["reason"]) == ("DENIED", "OTHER_BOOK_OPEN other_books=10")
        assert await d.book() == 10


async def test_an_exit_of_an_empty_book_is_denied_while_a_position_of_another_hand_is_open(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await d.by_hand("buy", "7")
        await d.deliver(action="exit")
        order = await decided(d, 1)
        assert (order["state"], order["reason"]) == ("DENIED", "OTHER_BOOK_OPEN broker_position=7")


async def test_a_sell_of_an_empty_book_is_first_of_all_a_short_and_names_what_is_open(tmp_path: Path) -> None:
    """Both denials hold; the contract's list has SHORT_NOT_ALLOWED first."""
    async with desk(tmp_path) as d:
        await d.trade(strategy="A", action="buy", quantity="10")
        order = await d.trade(strategy="B", action="sell", quantity="4")
        assert order["reason"] == "SHORT_NOT_ALLOWED opens=4 other_books=10"


async def test_a_sell_of_an_empty_book_is_denied_where_shorts_are_allowed_but_another_book_is_open(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, SHORTS) as d:
        await d.trade(strategy="A", action="buy", quantity="10")
        order = await d.trade(strategy="B", action="sell", quantity="4")
        assert order["reason"] == "OTHER_BOOK_OPEN other_books=10"
        await d.by_hand("buy", "3", symbol="MSFT")
        await d.deliver(symbol="MSFT", action="sell", quantity="4")
        order = await decided(d, 3)
        assert order["reason"] == "OTHER_BOOK_OPEN broker_position=3"


async def test_an_entry_against_another_own_book_is_denied(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS) as d:
        await d.trade(strategy="A", action="sell", quantity="10")
        order = await d.trade(strategy="B", action="buy", quantity="4")
        assert (order["state"], order["reason"]) == ("DENIED", "OPPOSING_BOOK other_book=-10")


async def test_an_entry_against_another_books_entry_in_flight_is_denied(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS) as d:
        await d.deliver(strategy="A", action="sell", quantity="10", type="limit", limit_price="110")
        await d.state(1, "WORKING")
        order = await d.trade(strategy="B", action="buy", quantity="4")
        assert (order["state"], order["reason"]) == ("DENIED", "OPPOSING_BOOK other_book=-10")


async def test_h2_where_the_broker_holds_less_than_the_book_the_smaller_is_closed_and_drift_is_told(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "6")
        await d.deliver(action="exit")
        order = await decided(d, 2)
        assert order["quantity"] == "4"
        (drift,) = await d.events("drift")
        assert drift["detail"] == {"book": "10", "broker_position": "4"}
        assert await d.exchange.run(lambda book: book.position("paper", "AAPL")) == 0
        rest = await decided(d, 3)
        assert (rest["leg"], rest["reason"]) == (2, "DRIFT book=6 broker_position=0")


async def test_one_sources_two_accounts_each_get_their_order_by_their_own_rules(tmp_path: Path) -> None:
    async with desk(tmp_path, SIZED) as d:
        verdict = await d.deliver(action="buy", quantity="10")
        first, second = await d.settled(verdict)
        assert (first["account"], first["quantity"]) == ("paper", "10")
        assert (second["account"], second["quantity"]) == ("second", "3")
        assert first["client_order_id"] != second["client_order_id"]
        closed = await d.settled(await d.deliver(action="exit"))
        assert [row["quantity"] for row in closed] == ["10", "3"]
        positions = await d.reader.rows("SELECT account, quantity FROM v_positions ORDER BY account")
        assert positions == [
            {"account": "paper", "quantity": "0"},
            {"account": "second", "quantity": "0"},
        ]


async def test_h12_two_sources_with_one_key_are_two_orders_in_two_books(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_SOURCES) as d:
        one = await d.trade(source="tv", key="42", action="buy", quantity="2")
        two = await d.trade(source="other", key="42", action="buy", quantity="2")
        assert one["client_order_id"] != two["client_order_id"]
        assert len(d.paper_orders()) == 2
        nets = await d.reader.rows("SELECT source, quantity FROM v_positions ORDER BY source")
        assert [row["quantity"] for row in nets] == ["2", "2"]
        assert (await d.trade(source="other", action="exit"))["quantity"] == "2"
        assert await d.book() == 2


async def test_symbols_do_not_touch_each_other(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(symbol="AAPL", action="buy", quantity="10")
        await d.trade(symbol="MSFT", action="buy", quantity="4")
        await d.trade(symbol="AAPL", action="exit")
        assert [await d.book("AAPL"), await d.book("MSFT")] == [0, 4]


async def test_less_than_one_step_of_a_book_is_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="1")
        dust = ("paper", "AAPL", "tv-id", "", Decimal("0.000000001"))
        await d.writer.run(lambda tx: orders.add_to_book(tx, *dust))
        sold = await d.trade(action="sell", quantity="1")
        assert sold["quantity"] == "1"
        assert await d.book() == Decimal("0.000000001")
        order = await d.trade(action="exit")
        assert order["reason"].startswith(("NOTHING_TO_DO", "OTHER_BOOK_OPEN")), order["reason"]


async def test_the_books_are_what_the_fills_add_up_to(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS) as d:
        for action, quantity in [("buy", "3"), ("buy", "2.5"), ("sell", "7"), ("buy", "1"), ("exit", None)]:
            await d.trade(action=action, quantity=quantity)
        added = await d.reader.rows(
            "SELECT sum(CASE side WHEN 'buy' THEN quantity ELSE -quantity END) AS n FROM fills"
        )
        assert await d.book() == Decimal(str(added[0]["n"])) == 0
