"""What fills, when, and at what price; what rests; cash and positions. Fills are `instant` here."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.brokers.base import DuplicateId, IdClass, OrderRequest, Placed, Refused
from app.brokers.paper import FILE_NAME, PaperBroker
from app.clock import ManualClock
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side, TimeInForce
from tests.brokers.paper_kit import connected, nothing_against, opened, order, placed, rows, state

D = Decimal
NEW = ("New", D(0), None)
CANCELED = ("Canceled", D(0), None)


def filled(price: str, quantity: str = "10") -> tuple[str, Decimal, Decimal]:
    return "Filled", D(quantity), D(price)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


async def test_states_its_facts(path: Path) -> None:
    async with opened(path) as exchange:
        facts = (await connected(exchange)).facts
    assert facts.id_class is IdClass.B
    assert facts.flips_in_one_order
    assert facts.priced_by_payload
    assert facts.absence_is_immediate
    assert not facts.reduce_only_enforced


# ------------------------------------------------------------------ market


async def test_a_market_order_fills_at_the_alerts_price(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await broker.observe_price("AAPL", D("99"))
        reply = await placed(broker, order(price="189.25"))
        assert reply.order.client_order_id == "c-1"
        assert reply.order.status is OrdStatus.FILLED
        assert await state(broker) == filled("189.25")
        assert await broker.quote("AAPL") == D("189.25")


async def test_without_a_price_of_its_own_it_fills_at_the_last_one_shown(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await broker.observe_price("AAPL", D("99"))
        await broker.observe_price("AAPL", D("98.5"))
        await placed(broker, order(price=None))
        assert await state(broker) == filled("98.5")


async def test_no_price_at_all_is_a_refusal_that_uses_nothing_up(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await broker.observe_price("MSFT", D("400"))
        reply = await broker.submit(order(price=None), nothing_against)
        assert isinstance(reply, Refused)
        assert reply.code == "NO_PRICE"
        assert await broker.find("c-1") is None
        await placed(broker, order(price="100"))


# ------------------------------------------------------------------ limit and stop


@pytest.mark.parametrize(
    ("side", "own", "price", "expected"),
    [
        (Side.BUY, {"limit": "100"}, "100", filled("100")),
        (Side.BUY, {"limit": "100"}, "99", filled("99")),
        (Side.BUY, {"limit": "100"}, "100.01", NEW),
        (Side.SELL, {"limit": "100"}, "101", filled("101")),
        (Side.SELL, {"limit": "100"}, "99.99", NEW),
        (Side.BUY, {"stop": "100"}, "101", filled("101")),
        (Side.BUY, {"stop": "100"}, "100", filled("100")),
        (Side.BUY, {"stop": "100"}, "99", NEW),
        (Side.SELL, {"stop": "100"}, "99", filled("99")),
        (Side.SELL, {"stop": "100"}, "101", NEW),
        (Side.BUY, {"stop": "100", "limit": "102"}, "101", filled("101")),
        (Side.BUY, {"stop": "100", "limit": "102"}, "103", NEW),
        (Side.BUY, {"stop": "100", "limit": "102"}, "99", NEW),
    ],
)
async def test_fills_if_the_price_crosses_else_rests(
    path: Path, side: Side, own: dict[str, str], price: str, expected: tuple[str, Decimal, Decimal | None]
) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order(side=side, price=price, **own))  # type: ignore[arg-type]
        assert await state(broker) == expected


async def test_the_last_price_shown_counts_where_the_alert_has_none(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("first", price=None, limit="100"))
        assert await state(broker, "first") == NEW
        await broker.observe_price("AAPL", D("100.5"))
        assert await state(broker, "first") == NEW
        await placed(broker, order("second", price=None, limit="101"))
        assert await state(broker, "second") == filled("100.5")


async def test_a_resting_order_fills_at_a_later_price_of_its_symbol(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order(price="105", limit="100"))
        await broker.observe_price("MSFT", D("90"))
        assert await state(broker) == NEW
        await broker.observe_price("AAPL", D("99.5"))
        assert await state(broker) == filled("99.5")
        await broker.observe_price("AAPL", D("98"))
        assert await state(broker) == filled("99.5")


async def test_the_price_of_a_later_order_counts_for_what_rests_on_any_account(path: Path) -> None:
    async with opened(path) as exchange:
        one, two = await connected(exchange, "one"), await connected(exchange, "two")
        await placed(one, order(price="105", limit="100"))
        await placed(two, order(price="99"))
        assert await state(one) == filled("99")


async def test_a_stop_limit_that_was_triggered_rests_as_a_limit(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order(price="95", stop="100", limit="102"))
        await broker.observe_price("AAPL", D("103"))
        assert await state(broker) == NEW
        await broker.observe_price("AAPL", D("98"))
        assert await state(broker) == filled("98")


# ------------------------------------------------------------------ time in force


@pytest.mark.parametrize("tif", [TimeInForce.IOC, TimeInForce.FOK])
async def test_ioc_and_fok_are_canceled_where_they_do_not_fill_at_once(path: Path, tif: TimeInForce) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        reply = await placed(broker, order("rests", price="105", limit="100", tif=tif))
        assert reply.order.status is OrdStatus.CANCELED
        await placed(broker, order("crosses", price="99", limit="100", tif=tif))
        assert await state(broker, "rests") == CANCELED
        assert await state(broker, "crosses") == filled("99")


@pytest.mark.parametrize("tif", [TimeInForce.DAY, TimeInForce.GTC, None])
async def test_day_and_gtc_rest(path: Path, tif: TimeInForce | None) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order(price="105", limit="100", tif=tif))
        assert await state(broker) == NEW


# ------------------------------------------------------------------ identity, cancel, refusals


async def test_a_repeated_client_order_id_is_refused_for_good(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("filled"))
        await placed(broker, order("canceled", price="105", limit="100"))
        await broker.cancel("canceled")
        for used in ("filled", "canceled"):
            reply = await broker.submit(order(used, Side.SELL, "3"), nothing_against)
            assert isinstance(reply, DuplicateId)
    async with opened(path) as exchange:
        broker = await connected(exchange)
        assert isinstance(await broker.submit(order("filled"), nothing_against), DuplicateId)
    assert rows(path, "SELECT count(*) FROM orders") == [(2,)]


async def test_accounts_share_the_file_and_nothing_else(path: Path) -> None:
    async with opened(path) as exchange:
        one, two = await connected(exchange, "one"), await connected(exchange, "two", D(500))
        first, second = await placed(one, order()), await placed(two, order(quantity="1"))
        assert first.order.broker_order_id != second.order.broker_order_id
        assert (await one.position("AAPL"), await two.position("AAPL")) == (D(10), D(1))
        assert (await one.account()).cash == D(99_000)
        assert (await two.account()).cash == D(400)
        assert (await one.account()).identity != (await two.account()).identity
        assert len((await two.snapshot(0)).fills) == 1


async def test_cancel_ends_what_rests_and_leaves_the_rest_alone(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("rests", price="105", limit="100"))
        await placed(broker, order("filled", price="105"))
        for client_order_id in ("rests", "filled", "never seen"):
            await broker.cancel(client_order_id)
        await broker.observe_price("AAPL", D("90"))
        assert await state(broker, "rests") == CANCELED
        assert await state(broker, "filled") == filled("105")
        assert await broker.find("never seen") is None


@pytest.mark.parametrize(
    "request_",
    [
        order(quantity="0"),
        order(quantity="-1"),
        order(quantity="NaN"),
        order(quantity="1e90"),
        order(price="-5"),
        order(client_order_id=""),
        OrderRequest("c-1", "AAPL", Side.BUY, D(1), OrderType.LIMIT, reference_price=D(1)),
        OrderRequest("c-1", "AAPL", Side.BUY, D(1), OrderType.STOP, reference_price=D(1)),
        OrderRequest("c-1", "AAPL", Side.BUY, D(1), OrderType.STOP_LIMIT, D(1), reference_price=D(1)),
        OrderRequest("c-1", "AAPL", Side.BUY, D(1), OrderType.MARKET, D(1), reference_price=D(1)),
    ],
)
async def test_an_order_that_makes_no_sense_is_refused(path: Path, request_: OrderRequest) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        reply = await broker.submit(request_, nothing_against)
    assert isinstance(reply, Refused)
    assert reply.code == "INVALID_ORDER"
    assert rows(path, "SELECT count(*) FROM orders") == [(0,)]


# ------------------------------------------------------------------ cash and positions


async def test_cash_position_and_equity_move_with_the_fills(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("a", Side.BUY, "10", price="100"))
        await placed(broker, order("b", Side.SELL, "4", price="110"))
        await broker.observe_price("AAPL", D("120"))
        account = await broker.account()
        assert account.cash == D(100_000) - 1_000 + 440
        assert account.equity == account.cash + 6 * 120
        assert await broker.position("AAPL") == D(6)
        assert await broker.position("MSFT") == D(0)


async def test_a_short_and_a_flip_are_the_books_business_not_forbidden(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("a", Side.SELL, "3"))
        assert await broker.position("AAPL") == D(-3)
        await placed(broker, order("b", Side.BUY, "5"))
        assert await broker.position("AAPL") == D(2)
        assert (await broker.snapshot(0)).positions == {"AAPL": D(2)}
        await placed(broker, order("c", Side.SELL, "2"))
        assert (await broker.snapshot(0)).positions == {}


async def refusal(broker: PaperBroker, request: OrderRequest) -> str | None:
    reply = await broker.submit(request, nothing_against)
    return None if isinstance(reply, Placed) else getattr(reply, "code", repr(reply))


async def test_a_buy_that_opens_needs_the_cash(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, cash=D(1_000))
        assert await refusal(broker, order("a", quantity="10.01")) == "INSUFFICIENT_FUNDS"
        assert await broker.find("a") is None
        assert await refusal(broker, order("b", quantity="10")) is None
        assert (await broker.account()).cash == D(0)


async def test_what_open_buys_will_take_is_set_aside(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, cash=D(1_000))
        await placed(broker, order("rests", quantity="6", price="105", limit="100"))
        assert await refusal(broker, order("a", quantity="5", price="100.1")) == "INSUFFICIENT_FUNDS"
        await broker.cancel("rests")
        assert await refusal(broker, order("b", quantity="5", price="100.1")) is None


async def test_a_buy_that_only_covers_a_short_needs_no_cash(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, cash=D(100))
        await placed(broker, order("short", Side.SELL, "10", price="10"))
        assert await refusal(broker, order("flips", quantity="10.5", price="30")) == "INSUFFICIENT_FUNDS"
        assert await refusal(broker, order("covers", quantity="10", price="30")) is None
        assert (await broker.account()).cash == D(-100)
        assert await broker.position("AAPL") == D(0)


async def test_a_short_can_be_covered_only_once_without_cash(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, cash=D(0))
        await placed(broker, order("short", Side.SELL, "10", price="10"))
        await placed(broker, order("covers", quantity="10", price=None, limit="9"))
        assert await refusal(broker, order("opens", quantity="10", price="9.5")) == "INSUFFICIENT_FUNDS"


async def test_a_stop_that_gaps_beyond_the_cash_is_canceled_with_the_reason(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange, cash=D(1_000))
        await placed(broker, order(quantity="9", price="90", stop="100"))
        await broker.observe_price("AAPL", D("150"))
        assert await state(broker) == CANCELED
        assert (await broker.account()).cash == D(1_000)
    assert rows(path, "SELECT reason FROM orders") == [("INSUFFICIENT_FUNDS cash=1000 cost=1350",)]


async def test_cash_is_exact_to_the_last_digit(path: Path) -> None:
    quantity, price = "0.1234567890123456789012345678", "3.0000000000000000000000000007"
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("a", Side.BUY, quantity, price=price))
        await placed(broker, order("b", Side.SELL, quantity, price=price))
        assert (await broker.account()).cash == D(100_000)
        await placed(broker, order("c", Side.BUY, "2.5e3", price="7.4e-06"))
    assert rows(path, "SELECT quantity, average_price FROM orders WHERE client_order_id = 'c'") == [
        ("2500", "0.0000074")
    ]


# ------------------------------------------------------------------ looks


async def test_fills_carry_what_the_ledger_needs(path: Path) -> None:
    clock = ManualClock()
    async with opened(path, clock) as exchange:
        broker = await connected(exchange)
        order_id = (await placed(broker, order("a"))).order.broker_order_id
        clock.advance(5)
        await placed(broker, order("b", Side.SELL, "4", price="101"))
        (fill,) = await broker.fills("a")
        assert (fill.broker_order_id, fill.client_order_id, fill.instrument) == (order_id, "a", "AAPL")
        assert (fill.side, fill.quantity, fill.price, fill.fee) == (Side.BUY, D(10), D(100), D(0))
        assert fill.at == clock.now() - 5
        assert await broker.fills("unknown") == []
        snapshot = await broker.snapshot(clock.now())
        assert [fill.client_order_id for fill in snapshot.fills] == ["b"]
        assert len({fill.exec_id for fill in (await broker.snapshot(0)).fills}) == 2


async def test_a_snapshot_holds_what_is_open_and_nothing_else(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        await placed(broker, order("rests", price="105", limit="100"))
        await placed(broker, order("filled", price="105"))
        await placed(broker, order("canceled", price="105", limit="100", tif=TimeInForce.IOC))
        snapshot = await broker.snapshot(0)
        assert [one.client_order_id for one in snapshot.open_orders] == ["rests"]
        assert snapshot.account == await broker.account()


async def test_the_table_is_the_one_that_the_contract_lists(path: Path) -> None:
    async with opened(path) as exchange:
        broker = await connected(exchange)
        reply = await placed(broker, order(price="105", limit="100"))
    columns = [name for (name,) in rows(path, "SELECT name FROM pragma_table_info('orders')")]
    listed = "id account client_order_id symbol side quantity status filled_quantity average_price created_at"
    assert columns[:10] == listed.split()
    created_at = "2026-03-02T15:30:00.000000Z"
    assert rows(path, f"SELECT {', '.join(columns[:10])} FROM orders") == [
        (reply.order.broker_order_id, "paper", "c-1", "AAPL", "buy", "10", "New", "0", None, created_at)
    ]
    assert reply.order.created_at == ManualClock().now()
