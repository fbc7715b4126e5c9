"""What an answer proves: every row of facts/brokers-and-reconciliation 3.1, with raw bodies.

The right column of that table is the truth here; what a client library makes of the same bytes is not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.brokers.alpaca_wire import CODES as ALPACA
from app.brokers.base import DuplicateId, Placed, Refused, SubmitReply, Throttled, Unknown, Unsent
from app.brokers.classify import ReplyCodes, classify
from app.clock import SECOND
from tests.brokers.venues import BINANCE, BYBIT, COINBASE, KRAKEN, OKX

CID = "0123456789abcdef8123456789abcdef"
HTML = b"<html><body>Bad gateway</body></html>"


def order(**fields: Any) -> dict[str, Any]:
    """An order as Alpaca shows it."""
    return {
        "id": "904837e3-3b76-47ec-b432-046db621571b",
        "client_order_id": CID,
        "created_at": "2026-03-02T15:30:00.123456789Z",
        "submitted_at": "2026-03-02T15:30:00.123456789Z",
        "symbol": "AAPL",
        "asset_class": "us_equity",
        "qty": "10",
        "filled_qty": "0",
        "filled_avg_price": None,
        "type": "market",
        "side": "buy",
        "time_in_force": "day",
        "status": "accepted",
        **fields,
    }


def said(codes: ReplyCodes, status: int, body: Any, **more: Any) -> SubmitReply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(codes, CID, left=True, status=status, body=raw, **more)


@pytest.mark.parametrize(
    ("codes", "status", "body", "kind"),
    [
        # ---------------------------------------- success that is none, of any venue
        (ALPACA, 200, HTML, Unknown),
        (ALPACA, 200, b"", Unknown),
        (ALPACA, 200, json.dumps(order()).encode()[:-20], Unknown),
        (ALPACA, 200, [], Unknown),
        (ALPACA, 200, {}, Unknown),
        (ALPACA, 200, "an order", Unknown),
        (ALPACA, 599, order(), Unknown),
        (ALPACA, 307, order(), Unknown),
        (ALPACA, 302, b"", Unknown),
        (ALPACA, 200, order(id=""), Unknown),
        (ALPACA, 200, order(id=None), Unknown),
        (ALPACA, 200, order(client_order_id="somebody else's"), Unknown),
        (ALPACA, 200, order(client_order_id=None), Unknown),
        (ALPACA, 200, order(qty="NaN"), Unknown),
        (ALPACA, 200, order(filled_qty="-1"), Unknown),
        (ALPACA, 200, order(side="sideways"), Unknown),
        (ALPACA, 200, order(created_at="yesterday"), Unknown),
        (ALPACA, 200, order(), Placed),
        (ALPACA, 201, order(status="filled", filled_qty="10", filled_avg_price="189.5"), Placed),
        # ---------------------------------------- refusals without the venue's own words
        (ALPACA, 400, HTML, Unknown),
        (ALPACA, 403, HTML, Unknown),
        (ALPACA, 404, b"", Unknown),
        (ALPACA, 409, b"", Unknown),
        (ALPACA, 422, HTML, Unknown),
        (ALPACA, 403, {"message": "blocked by policy"}, Unknown),
        (ALPACA, 409, {"code": 40910000, "message": "conflict"}, Unknown),
        (ALPACA, 500, {"code": 50010000, "message": "internal server error"}, Unknown),
        (ALPACA, 502, HTML, Unknown),
        (ALPACA, 503, {"code": 40310000, "message": "insufficient buying power"}, Unknown),
        (ALPACA, 504, b"", Unknown),
        (ALPACA, 408, {"code": 40810000, "message": "timeout"}, Unknown),
        # ---------------------------------------- Alpaca
        (ALPACA, 422, {"code": 40010001, "message": "client_order_id must be unique"}, DuplicateId),
        (ALPACA, 422, {"code": 40010001, "message": "Client order ID must be unique."}, DuplicateId),
        (ALPACA, 422, {"code": 40010001, "message": "qty must be > 0"}, Refused),
        (ALPACA, 422, {"code": 42210000, "message": "invalid limit_price"}, Refused),
        (ALPACA, 422, {"message": "qty"}, Unknown),
        (ALPACA, 400, {"code": 40010000, "message": "request body format is invalid"}, Refused),
        (ALPACA, 401, {"code": 40110000, "message": "request is not authorized"}, Refused),
        (ALPACA, 403, {"message": "forbidden."}, Refused),
        (ALPACA, 403, {"code": 40310100, "message": "pattern day trading protection"}, Refused),
        (
            ALPACA,
            403,
            {"code": 40310000, "message": "insufficient qty available for order (requested: 10)"},
            Refused,
        ),
        (ALPACA, 429, {"code": 42910000, "message": "rate limit exceeded"}, Throttled),
        (ALPACA, 429, {"message": "too many requests."}, Throttled),
        (ALPACA, 429, HTML, Unknown),
        # ---------------------------------------- Binance
        (BINANCE, 200, {"orderId": 1, "clientOrderId": CID}, Placed),
        (BINANCE, 400, {"code": -1007, "msg": "Timeout waiting for response"}, Unknown),
        (BINANCE, 400, {"code": -1006, "msg": "An unexpected response"}, Unknown),
        (BINANCE, 400, {"code": -1000, "msg": "An unknown error"}, Unknown),
        (BINANCE, 400, {"code": -1001, "msg": "Internal error"}, Unknown),
        (BINANCE, 400, {"code": -2010, "msg": "Duplicate order sent."}, DuplicateId),
        (BINANCE, 400, {"code": -4116, "msg": "ClientOrderId is duplicated."}, DuplicateId),
        (BINANCE, 400, {"code": -2010, "msg": "Account has insufficient balance"}, Refused),
        (BINANCE, 400, {"code": -2010, "msg": "something nobody has seen yet"}, Unknown),
        (BINANCE, 401, {"code": -2015, "msg": "Invalid API-key, IP, or permissions"}, Refused),
        (BINANCE, 400, {"code": -1021, "msg": "Timestamp outside of the recvWindow"}, Refused),
        (BINANCE, 503, {"code": -1, "msg": "Service Unavailable."}, Refused),
        (BINANCE, 503, {"code": -1, "msg": "Unknown error, please check your request"}, Unknown),
        (BINANCE, 429, {"code": -1003, "msg": "Too many requests"}, Throttled),
        # ---------------------------------------- Bybit: refusals come with status 200
        (BYBIT, 200, {"retCode": 0, "result": {"orderId": "1", "orderLinkId": CID}}, Placed),
        (BYBIT, 200, {"retCode": 0, "result": {"orderId": "1", "orderLinkId": "other"}}, Unknown),
        (BYBIT, 200, {"retCode": 10000, "retMsg": "Server Timeout"}, Unknown),
        (BYBIT, 200, {"retCode": 10016, "retMsg": "Server error"}, Unknown),
        (BYBIT, 200, {"retCode": 170146, "retMsg": "Order creation timeout"}, Unknown),
        (BYBIT, 200, {"retCode": 110072, "retMsg": "OrderLinkedID is duplicate"}, DuplicateId),
        (BYBIT, 200, {"retCode": 170141, "retMsg": "Duplicate clientOrderId"}, DuplicateId),
        (BYBIT, 200, {"retCode": 110007, "retMsg": "available balance is insufficient"}, Refused),
        (BYBIT, 200, {"retCode": 999999, "retMsg": "new code"}, Unknown),
        # ---------------------------------------- OKX
        (OKX, 200, {"code": "0", "data": [{"ordId": "1", "clOrdId": CID, "sCode": "0"}]}, Placed),
        (OKX, 200, {"code": "1", "data": [{"sCode": "51016", "sMsg": "Duplicated client ID"}]}, DuplicateId),
        (OKX, 200, {"code": "1", "data": [{"sCode": "51149", "sMsg": "Order timed out"}]}, Unknown),
        (OKX, 200, {"code": "50004", "msg": "Endpoint request timeout", "data": []}, Unknown),
        (OKX, 200, {"code": "1", "data": [{"sCode": "51008", "sMsg": "Insufficient balance"}]}, Refused),
        (OKX, 200, {"code": "50011", "msg": "Too Many Requests", "data": []}, Throttled),
        # ---------------------------------------- Kraken
        (KRAKEN, 200, {"error": [], "result": {"txid": "O1", "cl_ord_id": CID}}, Placed),
        (KRAKEN, 200, {"error": ["EService:Timeout"]}, Unknown),
        (KRAKEN, 200, {"error": ["EService:Deadline elapsed"]}, Refused),
        (KRAKEN, 200, {"error": ["EOrder:Duplicate order"]}, DuplicateId),
        (KRAKEN, 200, {"error": ["EOrder:Invalid price"]}, Refused),
        (KRAKEN, 200, {"error": ["EOrder:Never seen"]}, Unknown),
        # ---------------------------------------- Coinbase
        (COINBASE, 200, {"success_response": {"order_id": "1", "client_order_id": CID}}, Placed),
        (COINBASE, 500, {"error": "INTERNAL"}, Unknown),
        (COINBASE, 200, {"error_response": {"error": "UNKNOWN_FAILURE_REASON"}}, Unknown),
        (COINBASE, 200, {"error_response": {"error": "DUPLICATE_CLIENT_ORDER_ID"}}, DuplicateId),
        (COINBASE, 200, {"error_response": {"error": "INSUFFICIENT_FUND"}}, Refused),
    ],
)
def test_each_answer_proves_what_it_proves(
    codes: ReplyCodes, status: int, body: Any, kind: type[SubmitReply]
) -> None:
    reply = said(codes, status, body)
    assert type(reply) is kind, reply


def test_nothing_left_is_unsent_whatever_else_is_said() -> None:
    for error in ("ClientConnectorError: refused", "ClientConnectorDNSError", "no answer in time"):
        assert classify(ALPACA, CID, left=False, error=error) == Unsent(error)


@pytest.mark.parametrize(
    "error", ["ServerDisconnectedError", "ClientOSError: reset by peer", "TimeoutError: no answer in time"]
)
def test_bytes_that_left_without_an_answer_are_unknown(error: str) -> None:
    assert classify(ALPACA, CID, left=True, error=error) == Unknown(error)


def test_a_body_that_broke_off_is_unknown_with_its_status() -> None:
    reply = said(ALPACA, 200, json.dumps(order()).encode(), error="ClientPayloadError: not enough data")
    assert reply == Unknown("HTTP 200, and then: ClientPayloadError: not enough data")
    assert isinstance(said(ALPACA, 422, b'{"code": 42210000}', error="ClientPayloadError"), Unknown)


@pytest.mark.parametrize("body", [HTML, b"", b"slow down", {}, [], {"error": "quota"}])
@pytest.mark.parametrize("status", [418, 429])
def test_a_429_that_the_venue_did_not_say_itself_is_unknown_whatever_its_header(
    status: int, body: Any
) -> None:
    """A gateway may answer so after the venue has executed the order."""
    assert isinstance(said(ALPACA, status, body, retry_after=7 * SECOND), Unknown)


def test_the_time_of_the_venues_own_429_is_passed_on() -> None:
    body = {"code": 42910000, "message": "rate limit exceeded"}
    reply = said(ALPACA, 429, body, retry_after=3 * SECOND)
    assert isinstance(reply, Throttled)
    assert reply.retry_after == 3 * SECOND
    assert isinstance(said(ALPACA, 503, HTML, retry_after=3 * SECOND), Unknown)


def test_a_refusal_keeps_the_code_and_the_words() -> None:
    reply = said(ALPACA, 403, {"code": 40310000, "message": "insufficient buying power"})
    assert reply == Refused("40310000", "insufficient buying power")


def test_a_long_answer_is_not_poured_into_the_ledger() -> None:
    reply = said(ALPACA, 422, {"code": 42210000, "message": "x" * 5_000})
    assert isinstance(reply, Refused)
    assert len(reply.detail) == 200


def test_a_deeply_nested_answer_is_no_answer() -> None:
    assert isinstance(said(ALPACA, 200, b"[" * 100_000), Unknown)
