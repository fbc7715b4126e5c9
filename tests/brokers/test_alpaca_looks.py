"""Looks at Alpaca: what is ours is found, what failed is no absence, and half a list is none."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.brokers import alpaca_read
from app.brokers.alpaca_wire import FACTS
from app.brokers.base import BrokerOrder, LookupFailed, OrderRequest, Placed, RateLimited, Throttled
from app.clock import SECOND, ManualClock
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side
from app.drill.book import Book
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import Rules
from tests.brokers.alpaca_kit import Venue, answers, broker_at, http_server, venue_at
from tests.brokers.paper_kit import nothing_against
from tests.brokers.test_classify import order as order_json
from tests.drill.exchange_kit import NUMBER

CID = "0123456789abcdef8123456789abcdef"


async def buy(venue: Venue, number: int, **fields: Any) -> str:
    """An order of ours, filled at once; returns its id."""
    client_order_id = f"{number:032x}"
    request = OrderRequest(client_order_id, "AAPL", Side.BUY, Decimal(1))
    reply = await venue.broker.submit(replace(request, **fields), nothing_against)
    assert isinstance(reply, Placed), reply
    await venue.exchange.settle()
    return client_order_id


async def found_by(table: dict[str, Any]) -> BrokerOrder | None:
    """What `find` makes of an answer."""
    handler, _ = answers(table)
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        try:
            await broker.connect()
            return await broker.find(CID)
        finally:
            await broker.close()


BY_ID = "/v2/orders:by_client_order_id"

# ------------------------------------------------------------------------------------------------- one order


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(status=404, text="<html>no such page</html>", content_type="text/html"),
        lambda _: web.Response(status=404),
        lambda _: web.json_response({"message": "endpoint not found."}, status=404),
        lambda _: web.json_response({"code": 40410000, "message": "endpoint not found"}, status=404),
        lambda _: web.json_response({"code": 40010001, "message": "client_order_id"}, status=422),
        lambda _: web.json_response({"code": 40410000, "message": "order not found"}, status=500),
        lambda _: web.json_response({"code": 40110000, "message": "request is not authorized"}, status=401),
        lambda _: web.Response(status=200, text="<html></html>", content_type="text/html"),
        lambda _: web.Response(status=200),
        lambda _: web.Response(status=307, headers={"Location": BY_ID}),
        lambda _: web.json_response([]),
        lambda _: web.json_response({}),
        lambda _: web.json_response(order_json(client_order_id="somebody else's")),
        lambda _: web.json_response(order_json(client_order_id=None)),
        lambda _: web.json_response(order_json(id="")),
        lambda _: web.json_response(order_json(filled_qty="many")),
        lambda _: web.json_response(order_json(created_at="2026-03-02")),
    ],
)
async def test_what_is_not_an_answer_to_the_question_is_a_failed_look(answer: Any) -> None:
    with pytest.raises(LookupFailed):
        await found_by({BY_ID: answer})


async def test_alpacas_own_404_is_an_absence() -> None:
    assert await found_by({}) is None


@pytest.mark.parametrize(
    ("word", "filled", "status"),
    [
        ("pending_new", "0", OrdStatus.PENDING_NEW),
        ("accepted", "0", OrdStatus.NEW),
        ("held", "0", OrdStatus.NEW),
        ("done_for_day", "4", OrdStatus.PARTIALLY_FILLED),
        ("a_word_of_tomorrow", "0", OrdStatus.NEW),
        ("a_word_of_tomorrow", "4", OrdStatus.PARTIALLY_FILLED),
        ("pending_cancel", "4", OrdStatus.PENDING_CANCEL),
        ("canceled", "4", OrdStatus.CANCELED),
        ("replaced", "4", OrdStatus.CANCELED),
        ("expired", "0", OrdStatus.EXPIRED),
        ("rejected", "0", OrdStatus.REJECTED),
        ("filled", "10", OrdStatus.FILLED),
    ],
)
async def test_no_word_that_is_not_known_is_an_end(word: str, filled: str, status: OrdStatus) -> None:
    found = await found_by({BY_ID: order_json(status=word, filled_qty=filled)})
    assert found is not None
    assert (found.status, found.filled_quantity) == (status, Decimal(filled))


async def test_a_short_sale_is_a_sale_and_nanoseconds_are_read() -> None:
    found = await found_by({BY_ID: order_json(side="sell_short")})
    assert found is not None
    assert found.side is Side.SELL
    assert found.created_at == 1_772_465_400_123_456


# ---------------------------------------------------------------------------------------------------- lists


async def test_lists_are_paged_to_the_end_whatever_a_page_holds(tmp_path: Path) -> None:
    async with venue_at(tmp_path, Rules(orders_per_page=2)) as venue:
        ids = [await buy(venue, number) for number in range(7)]
        open_ids = [
            await buy(venue, number, type=OrderType.LIMIT, limit_price=Decimal(50)) for number in range(7, 12)
        ]
        found = await venue.broker.snapshot(0)
        assert found.failed == {}
        assert [one.client_order_id for one in found.recent_orders] == ids + open_ids
        assert [one.client_order_id for one in found.open_orders] == open_ids
        assert [one.client_order_id for one in found.fills] == ids
        assert found.pages > 12 / 2 + 5 / 2


async def test_a_list_whose_entries_come_twice_and_backwards_is_read_once(tmp_path: Path) -> None:
    async with venue_at(tmp_path, Rules(orders_per_page=3)) as venue:
        ids = [await buy(venue, number) for number in range(5)]
        for endpoint in ("orders", "fills", "positions"):
            venue.exchange.plan.add(Fault(endpoint, Reply.DOUBLED, times=None))
        found = await venue.broker.snapshot(0)
        assert found.failed == {}
        assert sorted(str(one.client_order_id) for one in found.recent_orders) == ids
        assert sorted(str(one.client_order_id) for one in found.fills) == ids
        assert found.positions == {"AAPL": Decimal(5)}


async def test_a_list_beyond_all_pages_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with venue_at(tmp_path, Rules(orders_per_page=2)) as venue:
        for number in range(6):
            await buy(venue, number)
        monkeypatch.setattr(alpaca_read, "MAX_PAGES", 3)
        found = await venue.broker.snapshot(0)
        assert set(found.failed) == {"recent_orders"}
        assert "more than 3 pages" in found.failed["recent_orders"]
        assert found.recent_orders == []
        assert len(found.fills) == 6


async def test_pages_that_are_too_short_to_be_followed_have_failed(tmp_path: Path) -> None:
    async with venue_at(tmp_path, Rules(orders_per_page=1)) as venue:
        await buy(venue, 0)
        assert (await venue.broker.snapshot(0)).failed == {}
        await buy(venue, 1)
        assert set((await venue.broker.snapshot(0)).failed) == {"recent_orders"}


def fill_json(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"2026::{number:04}",
        "activity_type": "FILL",
        "transaction_time": f"2026-03-02T15:{30 + number // 60:02}:{number % 60:02}.5Z",
        "type": "partial_fill",
        "price": "100.25",
        "qty": "1",
        "side": "buy",
        "symbol": "AAPL",
        "order_id": "904837e3-3b76-47ec-b432-046db621571b",
        **fields,
    }


def pages_of(fills: list[dict[str, Any]], size: int, *, breaks_after: int | None = None) -> Any:
    """The fills by page and token; the cursor fails after so many pages."""
    served = 0

    def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal served
        token = request.query.get("page_token")
        begin = 0 if token is None else 1 + next(i for i, one in enumerate(fills) if one["id"] == token)
        if served == breaks_after:
            body = {"code": 40010000, "message": "page_token has expired"}
            return web.json_response(body, status=422)
        served += 1
        return web.json_response(fills[begin : begin + size])

    return answer


FILLS = "/v2/account/activities/FILL"


async def test_fills_of_an_order_are_paged_and_no_stranger_is_among_them() -> None:
    fills = [fill_json(number) for number in range(10)]
    fills.insert(3, fill_json(99, order_id="another"))
    filled = order_json(status="filled", filled_qty="10", filled_avg_price="100.25")
    handler, asked = answers({BY_ID: filled, FILLS: pages_of(fills, 4)})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        await broker.connect()
        found = await broker.fills(CID)
        await broker.close()
    assert [one.exec_id for one in found] == [f"2026::{number:04}" for number in range(10)]
    assert {(one.client_order_id, one.price, one.fee) for one in found} == {
        (CID, Decimal("100.25"), Decimal(0))
    }
    # What adds up is complete: no page is asked for beyond it.
    assert sum("activities" in one for one in asked) == 3


async def test_a_cursor_that_fails_halfway_is_a_failed_look_and_no_shorter_list() -> None:
    fills = [fill_json(number) for number in range(10)]
    filled = order_json(status="filled", filled_qty="10")
    handler, _ = answers({BY_ID: filled, FILLS: pages_of(fills, 4, breaks_after=1)})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        await broker.connect()
        with pytest.raises(LookupFailed, match="expired"):
            await broker.fills(CID)
        await broker.close()


async def test_a_cursor_that_stands_still_is_a_failed_look() -> None:
    fills = [fill_json(number) for number in range(4)]
    handler, _ = answers({BY_ID: order_json(filled_qty="10"), FILLS: fills})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        await broker.connect()
        with pytest.raises(LookupFailed, match="nothing new"):
            await broker.fills(CID)
        await broker.close()


async def test_fills_name_their_order_by_alpacas_id_and_are_given_ours(tmp_path: Path) -> None:
    """Also where no list shows the order: it is older than what was asked for, or the list failed."""
    async with venue_at(tmp_path) as venue:
        client_order_id = await buy(venue, 1, type=OrderType.LIMIT, limit_price=Decimal(90))
        await venue.exchange.ask(
            Book.by_hand,
            NUMBER,
            {"symbol": "AAPL", "qty": "2", "side": "buy", "type": "market", "time_in_force": "day"},
        )
        venue.clock.advance(600 * SECOND)
        since = venue.clock.now()
        await venue.exchange.ask(Book.set_price, "AAPL", "89")
        await venue.broker.connect()  # nothing is remembered
        venue.exchange.plan.add(Fault("orders", Reply.STATUS, status=500, times=None))
        found = await venue.broker.snapshot(since)
        assert set(found.failed) == {"open_orders", "recent_orders"}
        assert [(one.client_order_id, one.quantity) for one in found.fills] == [(client_order_id, Decimal(1))]
        everything = await venue.broker.snapshot(0)
        assert len(everything.fills) == 2
        assert everything.fills[0].client_order_id not in (None, client_order_id)


# ------------------------------------------------------------------------------------------------- sections


@pytest.mark.parametrize(
    ("endpoint", "skip", "section"),
    [
        ("clock", 0, "clock"),
        ("positions", 0, "positions"),
        ("positions", 1, "positions"),
        ("orders", 0, "open_orders"),
        ("orders", 3, "recent_orders"),
        ("fills", 0, "fills"),
        ("fills", 1, "fills"),
    ],
)
@pytest.mark.parametrize("reply", [Reply.STATUS, Reply.HTML, Reply.EMPTY, Reply.TRUNCATED])
async def test_a_section_that_fails_is_unknown_and_the_others_are_there(
    tmp_path: Path, endpoint: str, skip: int, section: str, reply: Reply
) -> None:
    async with venue_at(tmp_path) as venue:
        await buy(venue, 1)
        await buy(venue, 2, type=OrderType.LIMIT, limit_price=Decimal(50))
        venue.exchange.plan.add(Fault(endpoint, reply, status=500, skip=skip, times=1))
        found = await venue.broker.snapshot(0)
        assert set(found.failed) == {section}
        assert found.failed[section]
        assert (found.clock_offset is None) is (section == "clock")
        if section != "open_orders":
            assert len(found.open_orders) == 1
        if section != "recent_orders":
            assert len(found.recent_orders) == 2
        if section != "fills":
            assert len(found.fills) == 1


async def test_without_knowing_whose_account_it_is_there_is_no_snapshot(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("account", Reply.STATUS, status=500))
        with pytest.raises(LookupFailed):
            await venue.broker.snapshot(0)


# ----------------------------------------------------------------------------------------------- positions


@pytest.mark.parametrize(
    ("positions", "held"),
    [
        ([{"symbol": "AAPL", "qty": "-3", "side": "short"}], {"AAPL": Decimal(-3)}),
        ([{"symbol": "AAPL", "qty": "3", "side": "short"}], {"AAPL": Decimal(-3)}),
        (
            [{"symbol": "BTCUSD", "qty": "0.5", "side": "long", "asset_class": "crypto"}],
            {"BTC/USD": Decimal("0.5")},
        ),
        ([{"symbol": "AAPL", "qty": "-3", "side": "long"}], None),
        ([{"symbol": "AAPL", "qty": "3", "side": "sideways"}], None),
        (
            [{"symbol": "AAPL", "qty": "3", "side": "long"}, {"symbol": "AAPL", "qty": "4", "side": "long"}],
            None,
        ),
        ([{"symbol": "AAPL", "side": "long"}], None),
        ({"code": 1, "message": "no list"}, None),
    ],
)
async def test_positions_are_signed_and_what_contradicts_itself_has_not_been_read(
    positions: Any, held: dict[str, Decimal] | None
) -> None:
    handler, _ = answers({"/v2/positions": positions})
    async with http_server(handler) as url:
        broker = broker_at(url, ManualClock())
        await broker.connect()
        try:
            if held is None:
                with pytest.raises(LookupFailed):
                    await broker.position("AAPL")
            else:
                for instrument, quantity in held.items():
                    assert await broker.position(instrument) == quantity
                assert await broker.position("MSFT") == 0
        finally:
            await broker.close()


# ---------------------------------------------------------------------------------------------- rate limits


async def test_a_429_on_a_look_pauses_everything_and_counts_as_nothing(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("find", Reply.STATUS, taken=Taken.NEVER, status=429, retry_after="30"))
        with pytest.raises(RateLimited) as limited:
            await venue.broker.find(CID)
        assert limited.value.retry_after == 30 * SECOND
        with pytest.raises(RateLimited):
            await venue.broker.find(CID)
        reply = await venue.broker.submit(OrderRequest(CID, "AAPL", Side.BUY, Decimal(1)), nothing_against)
        assert isinstance(reply, Throttled)
        assert (venue.calls("find"), venue.calls("submit")) == (1, 0)
        venue.clock.advance(30 * SECOND)
        assert await venue.broker.find(CID) is None


async def test_a_429_in_a_snapshot_is_a_pause_and_no_failed_section(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("fills", Reply.STATUS, taken=Taken.NEVER, status=429, retry_after="9"))
        with pytest.raises(RateLimited) as limited:
            await venue.broker.snapshot(0)
        assert limited.value.retry_after == 9 * SECOND


async def test_looks_leave_room_for_orders_in_the_budget(tmp_path: Path) -> None:
    async with venue_at(tmp_path, facts=replace(FACTS, requests_per_minute=25)) as venue:
        # 25 less the reserve of 20; connect has used two.
        for _ in range(3):
            assert await venue.broker.find(CID) is None
        with pytest.raises(RateLimited) as limited:
            await venue.broker.find(CID)
        assert limited.value.retry_after == 60 * SECOND
        await buy(venue, 1)
        venue.clock.advance(60 * SECOND)
        assert await venue.broker.find(CID) is None


async def test_what_the_venue_says_of_its_budget_holds_looks_back_in_time() -> None:
    reset = str(1_772_465_400 + 12)
    headers = {"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "7", "X-RateLimit-Reset": reset}

    def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(order_json(), headers=headers)

    handler, _ = answers({BY_ID: answer})
    clock = ManualClock(now=1_772_465_400 * SECOND)
    async with http_server(handler) as url:
        broker = broker_at(url, clock)
        await broker.connect()
        assert await broker.find(CID) is not None
        with pytest.raises(RateLimited) as limited:
            await broker.find(CID)
        assert limited.value.retry_after == 12 * SECOND
        clock.advance(12 * SECOND)
        assert await broker.find(CID) is not None
        await broker.close()
