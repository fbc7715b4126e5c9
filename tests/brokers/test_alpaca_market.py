"""Alpaca's account, prices, sessions and instruments; whose money it is (HOLES H8, H13, H33)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.brokers.alpaca import DATA_URL, LIVE_URL, PAPER_URL, Addresses, addresses
from app.brokers.alpaca_symbols import instrument_of
from app.brokers.alpaca_wire import FACTS
from app.brokers.base import DuplicateId, IdClass, LookupFailed, OrderRequest, Placed
from app.clock import SECOND, ManualClock
from app.domain.client_order_id import IdForm, rendered
from app.domain.signal import OrderType, Side
from app.drill.book import Book
from app.drill.rules import Rules
from tests.brokers.alpaca_kit import ACCOUNT, KEYS, answers, broker_at, exchange_at, http_server, venue_at
from tests.brokers.paper_kit import nothing_against
from tests.drill.exchange_kit import NUMBER, OTHER_NUMBER

NOW = 1_772_465_400 * SECOND
"""2026-03-02T15:30:00Z"""
CID = "0123456789abcdef8123456789abcdef"


# ------------------------------------------------------------------------------------- the account


def test_where_an_account_is() -> None:
    assert addresses(False, None, None) == Addresses(PAPER_URL, DATA_URL)
    assert addresses(True, None, None) == Addresses(LIVE_URL, DATA_URL)
    assert addresses(False, f"{PAPER_URL}/v2", None) == Addresses(PAPER_URL, DATA_URL)
    here = "http://127.0.0.1:9000"
    assert addresses(False, here, None) == Addresses(here, here)
    assert addresses(False, here, "http://127.0.0.1:9001") == Addresses(here, "http://127.0.0.1:9001")


async def test_h13_an_account_that_says_it_is_paper_is_not_traded_as_live(tmp_path: Path) -> None:
    async with exchange_at(tmp_path) as exchange:
        broker = broker_at(exchange.url, ManualClock(), live=True)
        with pytest.raises(LookupFailed, match=f"{NUMBER} is a paper account"):
            await broker.connect()
        with pytest.raises(LookupFailed, match="not open"):
            await broker.account()
        await exchange.ask(Book.add_account, "123456789", KEYS.key_id, KEYS.secret_key, "1000")
        account = await broker.connect()
        await broker.close()
        assert (account.identity, account.endpoint) == ("123456789", exchange.url)


async def test_h13_a_live_account_behind_a_local_address_is_not_traded_as_paper(tmp_path: Path) -> None:
    async with exchange_at(tmp_path) as exchange:
        await exchange.ask(Book.add_account, "123456789", KEYS.key_id, KEYS.secret_key, "1000")
        broker = broker_at(exchange.url, ManualClock(), live=False)
        with pytest.raises(LookupFailed, match="write live = true and acknowledge"):
            await broker.connect()
        with pytest.raises(LookupFailed, match="not open"):
            await broker.account()


async def test_h13_other_keys_are_another_identity(tmp_path: Path) -> None:
    async with exchange_at(tmp_path) as exchange:
        keys = KEYS
        broker = broker_at(exchange.url, ManualClock())
        broker._make_keys = lambda: keys
        assert (await broker.connect()).identity == NUMBER
        keys = replace(KEYS, key_id="key-2", secret_key="secret-2")
        # The keys in hand stay until the session begins anew.
        assert (await broker.account()).identity == NUMBER
        assert (await broker.connect()).identity == OTHER_NUMBER
        await broker.close()


async def test_wrong_keys_are_said_in_words(tmp_path: Path) -> None:
    async with exchange_at(tmp_path) as exchange:
        broker = broker_at(exchange.url, ManualClock(), keys=replace(KEYS, secret_key="wrong"))
        with pytest.raises(LookupFailed, match="refuses the keys"):
            await broker.connect()
        assert broker._http is None


@pytest.mark.parametrize(
    ("fields", "blocked"),
    [
        ({}, ""),
        ({"trading_blocked": True}, "trading is blocked"),
        (
            {"account_blocked": True, "status": "ACCOUNT_CLOSED"},
            "the account is ACCOUNT_CLOSED, the account is blocked",
        ),
        ({"trade_suspended_by_user": True}, "trading was suspended in Alpaca's settings"),
    ],
)
async def test_a_blocked_account_says_so(fields: dict[str, Any], blocked: str) -> None:
    handler, _ = answers({"/v2/account": {**ACCOUNT, **fields}})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        assert (await broker.connect()).blocked == blocked
        await broker.close()


@pytest.mark.parametrize("fields", [{"account_number": ""}, {"cash": "NaN"}, {"equity": None}])
async def test_an_account_that_cannot_be_read_is_no_account(fields: dict[str, Any]) -> None:
    handler, _ = answers({"/v2/account": {**ACCOUNT, **fields}})
    async with http_server(handler) as url:
        with pytest.raises(LookupFailed):
            await broker_at(url, ManualClock()).connect()


# ------------------------------------------------------------------------------------- prices

TRADE, QUOTE = "/v2/stocks/AAPL/trades/latest", "/v2/stocks/AAPL/quotes/latest"
COIN_TRADE, COIN_QUOTE = "/v1beta3/crypto/us/latest/trades", "/v1beta3/crypto/us/latest/quotes"
FRESH, OLD = "2026-03-02T15:29:05.123456789Z", "2026-03-02T15:28:59.999999999Z"


def trade(price: Any, at: str = FRESH) -> dict[str, Any]:
    return {"symbol": "AAPL", "trade": {"t": at, "p": price, "s": 1}}


def quoted(bid: Any, ask: Any, at: str = FRESH) -> dict[str, Any]:
    return {"symbol": "AAPL", "quote": {"t": at, "bp": bid, "ap": ask}}


@pytest.mark.parametrize(
    ("table", "price"),
    [
        ({TRADE: trade(189.07)}, "189.07"),
        ({TRADE: trade(0.0123)}, "0.0123"),
        ({TRADE: trade(189.07, OLD), QUOTE: quoted(188, 190)}, "189"),
        ({TRADE: trade(189.07, OLD), QUOTE: quoted(188, 190, OLD)}, None),
        ({TRADE: trade(189.07, "2026-03-02T15:32:00Z"), QUOTE: quoted(188, 190, OLD)}, None),
        ({TRADE: trade(0), QUOTE: quoted(0, 190)}, None),
        ({QUOTE: quoted(188, 190)}, "189"),
        ({}, None),
        ({TRADE: {"symbol": "AAPL", "trade": None}, QUOTE: {"symbol": "AAPL", "quote": None}}, None),
    ],
)
async def test_h8_a_price_is_the_venues_own_and_at_most_a_minute_old(
    table: dict[str, Any], price: str | None
) -> None:
    handler, _ = answers(table)
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock(now=NOW))
        await broker.connect()
        found = await broker.quote("AAPL")
        await broker.close()
    assert found == (None if price is None else Decimal(price))


async def test_a_coins_price_and_one_that_is_not_mapped() -> None:
    table: dict[str, Any] = {
        COIN_TRADE: {"trades": {"BTC/USD": {"t": OLD, "p": 50_000.5}}},
        COIN_QUOTE: {"quotes": {"BTC/USD": {"t": FRESH, "bp": 50_000, "ap": 50_001}}},
    }
    handler, asked = answers(table)
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock(now=NOW))
        await broker.connect()
        assert await broker.quote("BTC/USD") == Decimal("50000.5")
        assert await broker.quote("DOGE/USD") is None
        assert await broker.quote("LSE:VOD") is None
        await broker.close()
    assert not any("VOD" in one for one in asked)


async def test_a_price_that_fails_is_a_failed_look_and_one_that_is_not_sold_to_us_is_none() -> None:
    handler, _ = answers(
        {
            TRADE: lambda _: web.Response(status=502, text="<html>"),
            QUOTE: lambda _: web.Response(status=502),
            "/v2/stocks/MSFT/trades/latest": lambda _: web.json_response(
                {"message": "subscription does not permit querying recent SIP data"}, status=403
            ),
        }
    )
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock(now=NOW))
        await broker.connect()
        with pytest.raises(LookupFailed):
            await broker.quote("AAPL")
        assert await broker.quote("MSFT") is None
        await broker.close()


async def test_a_clock_that_is_off_is_measured_and_a_price_is_judged_by_the_venues(tmp_path: Path) -> None:
    for skew in (-3_600 * SECOND, 3_600 * SECOND):
        async with venue_at(tmp_path, Rules(skew=skew)) as venue:
            assert (await venue.broker.snapshot(0)).clock_offset == skew
            await venue.exchange.ask(Book.set_price, "AAPL", "101.5")
            assert await venue.broker.quote("AAPL") == Decimal("101.5")


# ------------------------------------------------------------------------------------- sessions


async def test_h33_shares_have_sessions_and_coins_have_none(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        assert venue.broker.facts.has_sessions
        assert (await venue.broker.market("AAPL")).is_open
        await venue.exchange.ask(Book.open_session, False)
        closed = await venue.broker.market("AAPL")
        assert not closed.is_open
        assert "closed until" in closed.reason
        assert closed.next_open == venue.clock.now() + 12 * 3_600 * SECOND
        assert (await venue.broker.market("BTC/USD")).is_open


# ------------------------------------------------------------------------------------- instruments

SHARE = {
    "symbol": "AAPL",
    "class": "us_equity",
    "status": "active",
    "tradable": True,
    "shortable": True,
    "easy_to_borrow": True,
    "fractionable": True,
}
COIN = {
    "symbol": "BTC/USD",
    "class": "crypto",
    "status": "active",
    "tradable": True,
    "min_order_size": "0.000012",
    "min_trade_increment": "0.000000001",
}


@pytest.mark.parametrize(
    ("instrument", "asset", "expected"),
    [
        ("AAPL", SHARE, ("0.000000001", "0.000000001", True, True, "")),
        ("AAPL", {**SHARE, "fractionable": False}, ("1", "1", True, True, "")),
        ("AAPL", {**SHARE, "easy_to_borrow": False}, ("1E-9", "1E-9", True, False, "")),
        ("AAPL", {**SHARE, "tradable": False}, ("1", "1", False, False, "not traded")),
        ("AAPL", {**SHARE, "status": "inactive"}, ("1", "1", False, False, "inactive")),
        ("AAPL", {**SHARE, "class": "us_option"}, ("1", "1", False, False, "us_option")),
        ("AAPL", {**SHARE, "symbol": "AAPX"}, ("1", "1", False, False, "calls AAPL AAPX")),
        ("ZZZZ", None, ("1", "1", False, False, "does not know ZZZZ")),
        ("LSE:VOD", None, ("1", "1", False, False, "no symbol for LSE:VOD")),
        ("BTC/USD", COIN, ("0.000000001", "0.000012", True, False, "")),
    ],
)
async def test_the_rules_of_an_instrument(
    instrument: str, asset: dict[str, Any] | None, expected: tuple[str, str, bool, bool, str]
) -> None:
    def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.rel_url.raw_path in (f"/v2/assets/{instrument}", "/v2/assets/BTC%2FUSD")
        return web.json_response(asset)

    handler, asked = answers({} if asset is None else {f"/v2/assets/{instrument}": answer})
    clock = ManualClock()
    async with http_server(handler) as url:
        broker = broker_at(url, clock)
        await broker.connect()
        rules = await broker.rules(instrument)
        again = await broker.rules(instrument)
        looked = sum("assets" in one for one in asked)
        clock.advance(301 * SECOND)
        assert await broker.rules(instrument) == again == rules
        await broker.close()
    step, minimum, tradable, shortable, words = expected
    assert (rules.step, rules.minimum) == (Decimal(step), Decimal(minimum))
    assert (rules.is_tradable, rules.is_shortable) == (tradable, shortable)
    assert words in rules.reason
    assert bool(rules.reason) is not tradable
    if ":" not in instrument:
        assert (looked, sum("assets" in one for one in asked)) == (1, 2)


@pytest.mark.parametrize(
    ("symbol", "exchange", "instrument"),
    [
        ("AAPL", "NASDAQ", "AAPL"),
        ("AAPL", "NASDAQ_DLY", "AAPL"),
        ("AAPL", None, "AAPL"),
        ("SPY", "AMEX", "SPY"),
        ("BRK.B", "NYSE", "BRK.B"),
        ("BRK.B", None, "BRK.B"),
        ("BTCUSD", "COINBASE", "BTC/USD"),
        ("BTCUSDT", "BINANCE", "BTC/USDT"),
        ("ETHBTC", "KRAKEN", "ETH/BTC"),
        ("BTC/USD", None, "BTC/USD"),
        ("BTCUSD", None, "BTC/USD"),
        ("ETHUSDC", None, "ETH/USDC"),
        # Nothing is mapped by guess: the same letters are another thing elsewhere.
        ("VOD", "LSE", "LSE:VOD"),
        ("T", "TSX", "TSX:T"),
        ("BTCUSDT.P", "BYBIT", "BYBIT:BTCUSDT.P"),
        ("BTCEUR", "KRAKEN", "KRAKEN:BTCEUR"),
        ("ES1!", "CME_MINI", "CME_MINI:ES1!"),
        ("EURUSD", "OANDA", "OANDA:EURUSD"),
        ("EURUSD", None, "EURUSD"),
        ("BTCUSD", "INDEX", "INDEX:BTCUSD"),
        ("BAC/PL", "NYSE", "NYSE:BAC/PL"),
        ("SPX", "TVC", "TVC:SPX"),
    ],
)
def test_tradingviews_spelling_is_alpacas_or_marked_as_unmapped(
    symbol: str, exchange: str | None, instrument: str
) -> None:
    assert instrument_of(symbol, exchange) == instrument


async def test_a_coin_has_one_name_in_orders_fills_and_positions(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        request = OrderRequest(CID, "BTC/USD", Side.BUY, Decimal("0.5"))
        assert isinstance(await venue.broker.submit(request, nothing_against), Placed)
        await venue.exchange.settle()
        found = await venue.broker.snapshot(0)
        assert found.positions == {"BTC/USD": Decimal("0.5")}
        assert [one.instrument for one in found.fills] == ["BTC/USD"]
        assert [one.instrument for one in found.recent_orders] == ["BTC/USD"]
        (row,) = await venue.exchange.rows("SELECT tif FROM orders")
        assert row["tif"] == "gtc"


# ------------------------------------------------------------------------------------- other classes


@pytest.mark.parametrize(
    ("id_class", "second"), [("A", Placed), ("B", DuplicateId), ("C", Placed), ("E", Placed)]
)
async def test_the_facts_of_another_class_are_handed_in_with_the_exchange(
    tmp_path: Path, id_class: Any, second: type
) -> None:
    facts = replace(FACTS, id_class=IdClass(id_class))
    async with venue_at(tmp_path, Rules(id_class=id_class), facts=facts) as venue:
        assert venue.broker.facts.id_class is IdClass(id_class)
        request = OrderRequest(CID, "AAPL", Side.BUY, Decimal(1))
        assert isinstance(await venue.broker.submit(request, nothing_against), Placed)
        await venue.exchange.settle()
        assert isinstance(await venue.broker.submit(request, nothing_against), second)
        assert await venue.count(CID) == (2 if id_class in "CE" else 1)


async def test_only_endpoints_that_carry_our_id_trade(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        resting = OrderRequest(CID, "AAPL", Side.BUY, Decimal(1), OrderType.LIMIT, Decimal(50))
        await venue.broker.submit(resting, nothing_against)
        await venue.broker.cancel(CID)
        await venue.broker.snapshot(0)
        reading = {"account", "clock", "positions", "orders", "fills", "find"}
        assert set(venue.exchange.plan.calls) <= reading | {"submit", "cancel"}


def test_an_id_in_the_form_that_a_venue_wants() -> None:
    assert rendered(CID, IdForm.HEX32) == CID
    assert rendered(CID, IdForm.DASHED) == "01234567-89ab-cdef-8123-456789abcdef"
    assert rendered(rendered(CID, IdForm.DASHED), IdForm.HEX32) == CID
    with pytest.raises(ValueError, match="badly formed"):
        rendered("no id", IdForm.HEX32)
