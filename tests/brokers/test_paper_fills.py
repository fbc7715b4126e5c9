"""When fills come: inside the order's transaction, after its reply, in halves; and who is told."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import apsw
import pytest

from app.brokers.base import LookupFailed, Placed, Unsent
from app.brokers.paper import FILE_NAME, PaperBroker, PaperExchange
from app.brokers.paper_book import PaperBook
from app.brokers.paper_match import FillMode
from app.clock import ManualClock
from app.domain.order import OrdStatus
from app.domain.signal import Side, TimeInForce
from tests.brokers.paper_kit import (
    CASH,
    Wakes,
    connected,
    nothing_against,
    opened,
    order,
    placed,
    rows,
    state,
)

D = Decimal
FILLED = ("Filled", D(10), D(100))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


async def test_h42_async_replies_new_and_fills_in_a_later_transaction(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="async")
        wakes = Wakes(broker)
        reply = await placed(broker, order())
        assert (reply.order.status, reply.order.filled_quantity) == (OrdStatus.NEW, D(0))
        await wakes.next()
        assert await state(broker) == FILLED
        assert (await broker.account()).cash == CASH - 1_000


async def test_instant_fills_inside_the_orders_own_transaction(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="instant")
        reply = await placed(broker, order())
        assert (reply.order.status, reply.order.filled_quantity) == (OrdStatus.FILLED, D(10))
        assert reply.order.average_price == D(100)


async def test_partial_fills_in_two_halves_and_the_first_can_be_seen(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="partial")
        wakes = Wakes(broker)
        await placed(broker, order(quantity="5"))
        await wakes.next()
        assert await state(broker) == ("PartiallyFilled", D("2.5"), D(100))
        await wakes.next()
        assert await state(broker) == ("Filled", D(5), D(100))
        assert [fill.quantity for fill in await broker.fills("c-1")] == [D("2.5"), D("2.5")]
        assert wakes.count == 2


async def test_a_partly_filled_order_can_be_canceled_and_keeps_its_half(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="partial")
        wakes = Wakes(broker)
        await placed(broker, order())
        await wakes.next()
        await broker.cancel("c-1")
        await wakes.next()
        assert await state(broker) == ("Canceled", D(5), D(100))
        assert await broker.position("AAPL") == D(5)
    assert rows(path, "SELECT count(*) FROM fills") == [(1,)]


async def test_what_may_not_wait_fills_in_one_piece(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="partial")
        wakes = Wakes(broker)
        await placed(broker, order(limit="100", tif=TimeInForce.FOK))
        await wakes.next()
        assert await state(broker) == FILLED


async def test_a_price_that_reaches_a_resting_order_fills_it_and_wakes_its_account(path: Path) -> None:
    async with opened(path) as exchange:
        resting = await connected(exchange, "resting", fills="async")
        other = await connected(exchange, "other", fills="async")
        wakes, others = Wakes(resting), Wakes(other)
        await placed(resting, order(price="105", limit="100"))
        await other.observe_price("AAPL", D(100))
        await wakes.next()
        assert await state(resting) == FILLED
        assert others.count == 0


async def test_the_price_at_which_it_crossed_counts_not_a_later_one(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="async")
        await asyncio.gather(
            broker.submit(order(price="100"), nothing_against), broker.observe_price("AAPL", D(150))
        )
        await broker.find("c-1")
        assert await state(broker) == FILLED


async def test_every_submitted_order_is_filled_once_when_many_come_at_once(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="async")
        requests = [order(f"c-{n}", quantity="1") for n in range(40)]
        replies = await asyncio.gather(*(broker.submit(one, nothing_against) for one in requests))
        assert all(isinstance(reply, Placed) for reply in replies)
        await broker.snapshot(0)
        assert await broker.position("AAPL") == D(40)
    assert rows(path, "SELECT count(*), count(DISTINCT order_id) FROM fills") == [(40, 40)]
    assert rows(path, "SELECT DISTINCT status FROM orders") == [("Filled",)]


async def test_a_fill_that_failed_is_still_owed_and_comes_with_the_next_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="async")
        wakes = Wakes(broker)
        book = exchange._book
        assert book is not None

        def full(*_: object) -> None:
            raise apsw.FullError("database or disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(book, "_fill", full)
            await placed(broker, order())
            assert (await state(broker))[0] == "New"
        await broker.quote("AAPL")
        await wakes.next()
        assert await state(broker) == FILLED


async def test_fills_owed_when_the_exchange_closed_come_when_it_opens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fills, client_order_id in (("async", "a"), ("partial", "p")):
        async with opened(path) as exchange:
            broker = await connected(exchange, fills=fills)
            with monkeypatch.context() as patch:
                patch.setattr(exchange, "_follow_up", lambda: None)
                await placed(broker, order(client_order_id))
            assert rows(path, "SELECT status FROM orders ORDER BY sequence")[-1] == ("New",)
            await exchange.close()
    async with opened(path) as exchange:
        broker = await connected(exchange)
        assert await state(broker, "a") == FILLED
        assert await state(broker, "p") == FILLED
        assert (await broker.account()).cash == CASH - 2_000


# ------------------------------------------------------------------ life cycle


async def test_after_close_nothing_runs_and_nothing_wakes(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, fills="async")
        wakes = Wakes(broker)
        await placed(broker, order())
        await broker.close()
    await asyncio.sleep(0)
    assert wakes.count == 0
    with pytest.raises(LookupFailed):
        await broker.find("c-1")
    assert isinstance(await broker.submit(order("c-2"), nothing_against), Unsent)
    await exchange.close()


async def test_closing_lets_what_was_handed_over_end_first(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        task = asyncio.gather(
            broker.submit(order("a"), nothing_against), broker.submit(order("b"), nothing_against)
        )
        await asyncio.sleep(0)
        await exchange.close()
        assert all(isinstance(reply, Placed) for reply in await task)


async def test_nothing_works_before_the_exchange_and_the_account_are_there(path: Path) -> None:
    exchange = PaperExchange(path, ManualClock())
    broker = PaperBroker(exchange, "paper", CASH, "async")
    with pytest.raises(LookupFailed):
        await broker.connect()
    async with opened(path) as exchange:
        broker = PaperBroker(exchange, "paper", CASH, "async")
        reply = await broker.submit(order(), nothing_against)
        assert isinstance(reply, Unsent)
        with pytest.raises(LookupFailed):
            await broker.snapshot(0)
        with pytest.raises(RuntimeError):
            await exchange.open()


async def test_h13_the_accounts_identity_is_made_once(path: Path) -> None:
    async with opened(path) as exchange:
        first = await (await connected(exchange)).account()
    async with opened(path) as exchange:
        again = await PaperBroker(exchange, "paper", CASH, "partial").connect()
    assert (again.identity, again.endpoint) == (first.identity, first.endpoint)
    async with opened(path.with_name("other.sqlite3")) as exchange:
        other = await (await connected(exchange)).account()
    assert other.identity != first.identity
    assert other.endpoint != first.endpoint


async def test_the_cash_of_the_settings_is_paid_in_once_and_a_change_pays_the_difference(path: Path) -> None:
    for setting, expected in (("100000", 99_000), ("100000", 99_000), ("150000", 149_000), ("50000", 49_000)):
        async with opened(path) as exchange:
            broker = await connected(exchange, cash=D(setting))
            await broker.submit(order("only", Side.BUY), nothing_against)
            assert (await broker.account()).cash == D(expected)


def test_two_writers_on_one_file_fill_an_order_once(path: Path) -> None:
    """The second has read the order as unfilled when the first fills it, and waits for the file."""
    first, second = PaperBook(path, ManualClock()), PaperBook(path, ManualClock())
    try:
        first.open_account("paper", CASH)
        first.submit("paper", order(), FillMode.ASYNC, lambda: None)
        (stale,) = second._orders("due_price IS NOT NULL")
        first.fill_due()
        second._change("paper_fill", lambda: second._fill(stale, stale.leaves))
        assert [fill.quantity for fill in first.fills("paper", "c-1")] == [D(10)]
        assert first.position("paper", "AAPL") == D(10)
        assert first.account("paper").cash == CASH - 1_000
        assert not second.owes_fills()
    finally:
        first.close()
        second.close()
