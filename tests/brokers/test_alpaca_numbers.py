"""A number that nobody can count with makes an answer of Alpaca unreadable: it is never kept."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from app.brokers.alpaca import AlpacaBroker
from app.brokers.alpaca_wire import CODES
from app.brokers.base import LookupFailed, Unknown
from app.clock import ManualClock
from tests.brokers.alpaca_kit import ACCOUNT, answers, broker_at, http_server
from tests.brokers.test_alpaca_looks import BY_ID, CID, FILLS, fill_json
from tests.brokers.test_alpaca_market import TRADE, trade
from tests.brokers.test_classify import order as order_json
from tests.brokers.test_classify import said


async def looked(broker: AlpacaBroker, look: str) -> None:
    await broker.connect()
    match look:
        case "order":
            await broker.find(CID)
        case "fill price" | "fill quantity":
            await broker.fills(CID)
        case "position":
            await broker.position("AAPL")
        case "price":
            await broker.quote("AAPL")
        case "step":
            await broker.rules("BTC/USD")


UNCOUNTABLE = [
    "1E+999999999",
    "1E-999999999",
    "1E+19",
    "9" * 41,
    "0E+999999999",
    "NaN",
    "Infinity",
    "-Infinity",
]
POSITION = {"symbol": "AAPL", "qty": "1", "side": "long", "asset_class": "us_equity"}
BITCOIN = {"symbol": "BTC/USD", "class": "crypto", "tradable": True}


@pytest.mark.parametrize("number", UNCOUNTABLE)
@pytest.mark.parametrize("name", ["qty", "filled_qty", "filled_avg_price"])
def test_a_reply_to_an_order_with_such_a_number_is_unknown(name: str, number: str) -> None:
    reply = said(CODES, 200, order_json(**{name: number}))
    assert isinstance(reply, Unknown)
    assert len(reply.detail) <= 200


@pytest.mark.parametrize("number", UNCOUNTABLE)
@pytest.mark.parametrize(
    "look",
    ["order", "fill price", "fill quantity", "position", "cash", "equity", "price", "step"],
)
async def test_a_look_with_such_a_number_has_failed(look: str, number: str) -> None:
    order = order_json(status="filled", filled_qty="1", filled_avg_price="100")
    tables: dict[str, dict[str, Any]] = {
        "order": {BY_ID: {**order, "filled_avg_price": number}},
        "fill price": {BY_ID: order, FILLS: [fill_json(1, price=number)]},
        "fill quantity": {BY_ID: order, FILLS: [fill_json(1, qty=number)]},
        "position": {"/v2/positions": [POSITION, {**POSITION, "symbol": "ZZZ", "qty": number}]},
        "cash": {"/v2/account": {**ACCOUNT, "cash": number}},
        "equity": {"/v2/account": {**ACCOUNT, "equity": number}},
        "price": {TRADE: trade(number)},
        "step": {"/v2/assets/BTC/USD": {**BITCOIN, "min_trade_increment": number}},
    }
    handler, _ = answers(tables[look])
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock(now=1_772_465_400_000_000))
        with pytest.raises(LookupFailed, match="cannot be read"):
            await looked(broker, look)
        await broker.close()


@pytest.mark.parametrize("fields", [{"qty": "0"}, {"qty": "-1"}, {"price": "-0.01"}])
async def test_a_fill_of_nothing_or_below_zero_makes_the_fills_a_failed_section(
    fields: dict[str, str],
) -> None:
    fills = [fill_json(1), fill_json(2, **fields)]

    def once(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response([] if "page_token" in request.query else fills)

    order = order_json(status="filled", filled_qty="2", filled_avg_price="100")
    handler, _ = answers(
        {BY_ID: order, FILLS: once, "/v2/orders": [order], "/v2/positions": [POSITION]},
    )
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock(now=1_772_465_400_000_000))
        await broker.connect()
        with pytest.raises(LookupFailed, match="zero"):
            await broker.fills(CID)
        found = await broker.snapshot(0)
        await broker.close()
    assert "fills" in found.failed
    assert found.fills == []


async def test_numbers_of_many_places_are_read_as_they_are() -> None:
    number = "0.00001234567890123456789012345678"
    handler, _ = answers({BY_ID: order_json(status="filled", filled_qty="10", filled_avg_price=number)})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        await broker.connect()
        found = await broker.find(CID)
        await broker.close()
    assert found is not None
    assert found.average_price == Decimal(number)
