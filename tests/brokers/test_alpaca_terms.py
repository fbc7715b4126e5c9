"""What Alpaca's adapter sends: its terms, what it refuses itself, and its pauses."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import (
    OrderRequest,
    Placed,
    Refused,
    Throttled,
)
from app.clock import SECOND, ManualClock
from app.domain.signal import OrderType, Side, TimeInForce
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import Rules
from tests.brokers.alpaca_kit import (
    CID,
    ORDER,
    broker_at,
    connected_to,
    raw_server,
    submit,
    venue_at,
)
from tests.brokers.paper_kit import nothing_against

# ---------------------------------------------------------------------------------------------- what is sent


async def test_the_request_is_what_alpaca_documents(tmp_path: Path) -> None:
    async with raw_server(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n") as server:
        broker = await connected_to(server)
        request = OrderRequest(
            CID,
            "BRK.B",
            Side.SELL,
            Decimal("10.50"),
            type=OrderType.STOP_LIMIT,
            limit_price=Decimal("189.10"),
            stop_price=Decimal("1E+2"),
            tif=TimeInForce.DAY,
            reduces=True,
        )
        await submit(broker, request)
        head, _, body = server.received[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /v2/orders HTTP/1.1\r\n")
        assert b"APCA-API-KEY-ID: key-1" in head
        assert b"APCA-API-SECRET-KEY: secret-1" in head
        assert json.loads(body) == {
            "symbol": "BRK.B",
            "qty": "10.5",
            "side": "sell",
            "type": "stop_limit",
            "time_in_force": "day",
            "limit_price": "189.1",
            "stop_price": "100",
            "client_order_id": CID,
        }


@pytest.mark.parametrize(
    ("instrument", "fields", "words"),
    [
        ("AAPL", {"quantity": Decimal("1.5"), "tif": TimeInForce.GTC}, "orders for the day"),
        ("AAPL", {"extended_hours": True}, "outside the session"),
        ("BTC/USD", {"tif": TimeInForce.DAY}, "around the clock"),
        ("BTC/USD", {"type": OrderType.STOP, "stop_price": Decimal(9)}, "stop_limit"),
        ("LSE:VOD", {}, "no symbol for LSE:VOD"),
    ],
)
async def test_what_alpaca_would_refuse_is_refused_here_in_words(
    tmp_path: Path, instrument: str, fields: dict[str, Any], words: str
) -> None:
    async with venue_at(tmp_path) as venue:
        request = replace(ORDER, instrument=instrument, **fields)
        reply = await venue.broker.submit(request, nothing_against)
        assert isinstance(reply, Refused)
        assert reply.code == "NOT_TAKEN"
        assert words in reply.detail
        assert venue.calls("submit") == 0


async def test_no_part_of_a_share_is_sold_short_and_a_held_part_is_sold(tmp_path: Path) -> None:
    part = replace(ORDER, side=Side.SELL, quantity=Decimal("0.5"))
    async with venue_at(tmp_path) as venue:
        reply = await venue.broker.submit(part, nothing_against)
        assert isinstance(reply, Refused)
        assert reply.code == "FRACTIONAL_SHORT"
        assert venue.calls("submit") == 0
        bought = replace(ORDER, client_order_id="b" * 32, quantity=Decimal("0.75"))
        assert isinstance(await venue.broker.submit(bought, nothing_against), Placed)
        await venue.exchange.settle()
        assert isinstance(await venue.broker.submit(part, nothing_against), Placed)


async def test_whether_a_part_is_held_is_the_venues_to_say_where_it_cannot_be_read(tmp_path: Path) -> None:
    part = replace(ORDER, side=Side.SELL, quantity=Decimal("0.5"))
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("positions", Reply.STATUS, taken=Taken.NEVER, status=502))
        reply = await venue.broker.submit(part, nothing_against)
        assert isinstance(reply, Refused)
        assert reply.code != "FRACTIONAL_SHORT"
        assert venue.calls("submit") == 1


async def test_extended_hours_and_an_arrival_deadline_are_said_where_they_are_asked_for(
    tmp_path: Path,
) -> None:
    rules = Rules(expiry_field="expires_at")
    facts = replace(broker_at("http://127.0.0.1:9", ManualClock()).facts, arrival_deadline_field="expires_at")
    async with venue_at(tmp_path, rules, facts=facts) as venue:
        assert venue.broker.facts.orders_expire
        now = venue.clock.now()
        limit = replace(ORDER, type=OrderType.LIMIT, limit_price=Decimal(90), extended_hours=True)
        reply = await venue.broker.submit(replace(limit, not_after=now + SECOND), nothing_against)
        assert isinstance(reply, Placed)
        (row,) = await venue.exchange.rows("SELECT extended_hours FROM orders")
        assert row["extended_hours"] == 1
        late = replace(ORDER, client_order_id="b" * 32, not_after=now - SECOND)
        reply = await venue.broker.submit(late, nothing_against)
        assert isinstance(reply, Refused)
        assert "expired" in reply.detail


# ----------------------------------------------------------------------------------------------- throttled


async def test_a_429_on_an_order_pauses_and_nothing_is_sent_until_it_is_over(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("submit", Reply.STATUS, taken=Taken.NEVER, status=429, retry_after="3"))
        reply = await venue.broker.submit(ORDER, nothing_against)
        assert isinstance(reply, Throttled)
        assert reply.retry_after == 3 * SECOND
        again = await venue.broker.submit(ORDER, nothing_against)
        assert isinstance(again, Throttled)
        assert again.retry_after == 3 * SECOND
        assert venue.calls("submit") == 1
        venue.clock.advance(3 * SECOND)
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Placed)
        assert await venue.count(CID) == 1
