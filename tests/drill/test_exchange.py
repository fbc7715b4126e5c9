"""The simulated exchange as a venue: ids, matching, holdings, sessions, pages, accounts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND
from app.drill.book import Book
from app.drill.rules import IdClass, Rules
from tests.drill.exchange_kit import NUMBER, OTHER_KEYS, OTHER_NUMBER, furnish, wired


async def test_a_market_order_fills_at_the_exchanges_own_price(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        status, order = await wire.buy("one", "10")
        assert (status, order["status"], order["filled_avg_price"]) == (200, "filled", "100")
        assert (order["client_order_id"], order["qty"], order["filled_qty"]) == ("one", "10", "10")
        account = await wire.get("/v2/account")
        assert (account["account_number"], account["cash"], account["equity"]) == (NUMBER, "99000", "100000")
        (position,) = await wire.get("/v2/positions")
        assert (position["symbol"], position["qty"], position["side"]) == ("AAPL", "10", "long")
        (fill,) = await wire.get("/v2/account/activities/FILL")
        assert (fill["order_id"], fill["qty"], fill["price"]) == (order["id"], "10", "100")
        assert "client_order_id" not in fill


async def test_the_answer_comes_before_the_fill_unless_told_otherwise(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        _, order = await wire.buy("one")
        assert (order["status"], order["filled_qty"]) == ("new", "0")
        await wire.settled()
        assert (await wire.order("one"))["status"] == "filled"


async def test_limit_and_stop_orders_rest_until_the_price_is_there(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        await wire.buy("limit", type="limit", limit_price="95")
        await wire.buy("stop", type="stop", stop_price="110")
        await wire.settled()
        assert len(await wire.get("/v2/orders")) == 2
        await wire.exchange.ask(Book.set_price, "AAPL", "94")
        assert (await wire.order("limit"))["filled_avg_price"] == "94"
        assert (await wire.order("stop"))["status"] == "new"
        await wire.exchange.ask(Book.set_price, "AAPL", "111")
        assert (await wire.order("stop"))["filled_avg_price"] == "111"


CLASSES: list[tuple[IdClass, bool, int, int]] = [
    # class, first order over, status of the second, orders at the end
    ("A", True, 200, 1),
    ("A", False, 200, 1),
    ("B", True, 422, 1),
    ("B", False, 422, 1),
    ("C", True, 200, 2),
    ("C", False, 422, 1),
    ("D", True, 422, 1),
    ("E", True, 200, 2),
    ("E", False, 200, 2),
]


@pytest.mark.parametrize(("id_class", "over", "status", "orders"), CLASSES)
async def test_each_class_does_with_a_known_id_what_its_venues_do(
    tmp_path: Path, id_class: IdClass, over: bool, status: int, orders: int
) -> None:
    rules = Rules(id_class=id_class, filling="in_reply" if over else "by_hand")
    async with wired(tmp_path, rules) as wire:
        _, first = await wire.buy("one")
        second_status, second = await wire.buy("one")
        assert (second_status, await wire.count()) == (status, orders)
        if id_class == "A":
            assert second["id"] == first["id"]
        if status == 422:
            assert second == {"code": 40010001, "message": "client_order_id must be unique"}


async def test_class_d_takes_other_bytes_under_the_same_id(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(id_class="D")) as wire:
        await wire.buy("one", "10")
        status, _ = await wire.buy("one", "10.0")
        assert (status, await wire.count()) == (200, 2)


async def test_what_comes_after_its_expiry_is_refused(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(expiry_field="not_after")) as wire:
        now = wire.clock.now()
        assert (await wire.buy("late", not_after=str(now - 1)))[0] == 422
        assert (await wire.buy("good", not_after=str(now)))[0] == 200
        assert await wire.count() == 1


async def test_resting_orders_hold_what_they_would_sell(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("entry", "10")
        assert (await wire.sell("stop", "10", type="stop", stop_price="90"))[0] == 200
        status, body = await wire.sell("exit", "10")
        assert (status, body["code"], body["held_for_orders"]) == (403, 40310000, "10")
        assert body["message"] == "insufficient qty available for order (requested: 10, available: 0)"
        _, stop = await wire.call("GET", "/v2/orders", params={"status": "open"})
        assert (await wire.call("DELETE", f"/v2/orders/{stop[0]['id']}"))[0] == 204
        assert (await wire.sell("exit", "10"))[0] == 200
        assert await wire.get("/v2/positions") == []
        assert (await wire.call("GET", "/v2/positions/AAPL"))[1]["code"] == 40410000


async def test_no_order_turns_a_position_and_shorting_is_the_accounts_right(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("entry", "10")
        assert (await wire.sell("turn", "15"))[0] == 403
        await wire.sell("flat", "10")
        assert (await wire.sell("short", "5"))[0] == 200
        assert (await wire.get("/v2/positions/AAPL"))["qty"] == "-5"
        await wire.exchange.ask(Book.add_account, "PA3", "key-3", "s", "1000", shorting=False)
        keys = {"APCA-API-KEY-ID": "key-3", "APCA-API-SECRET-KEY": "s"}
        body = {"symbol": "AAPL", "side": "sell", "type": "market", "time_in_force": "day", "qty": "1"}
        assert (await wire.call("POST", "/v2/orders", keys, json=body))[0] == 403
        status, refusal = await wire.call(
            "POST", "/v2/orders", keys, json={**body, "side": "buy", "qty": "11"}
        )
        assert (status, refusal["message"]) == (403, "insufficient buying power")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"qty": "0.5"}, 200),
        ({"qty": "0.5", "time_in_force": "gtc"}, 422),
        ({"qty": "0.5", "symbol": "MSFT"}, 403),
        ({"symbol": "NONE"}, 422),
        ({"qty": "0"}, 422),
        ({"type": "limit"}, 422),
        ({"extended_hours": True}, 422),
        ({"symbol": "BTC/USD", "qty": "0.1", "time_in_force": "gtc"}, 200),
        ({"symbol": "BTC/USD", "qty": "0.1"}, 422),
        ({"symbol": "BTC/USD", "qty": "0.1", "time_in_force": "gtc", "side": "sell"}, 403),
    ],
)
async def test_terms_are_looked_at(tmp_path: Path, fields: dict[str, Any], status: int) -> None:
    async with wired(tmp_path) as wire:
        await wire.exchange.ask(Book.add_asset, "MSFT", "200", fractionable=False)
        assert (await wire.buy("one", **fields))[0] == status
        assert await wire.count() == (1 if status == 200 else 0)


async def test_a_closed_market_keeps_orders_until_it_opens(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(is_open=False)) as wire:
        assert not (await wire.get("/v2/clock"))["is_open"]
        assert (await wire.buy("one"))[1]["status"] == "accepted"
        coin = {"symbol": "BTC/USD", "qty": "0.1", "time_in_force": "gtc"}
        await wire.buy("coin", **coin)
        await wire.settled()
        assert (await wire.order("one"))["status"] == "accepted"
        assert (await wire.order("coin"))["status"] == "filled"
        await wire.exchange.ask(Book.open_session, True)
        assert (await wire.order("one"))["status"] == "filled"


async def test_pages_of_orders_and_fills(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply", orders_per_page=3)) as wire:
        for number in range(7):
            await wire.buy(f"n{number}", "1")
        seen: list[str] = []
        after = "2020-01-01T00:00:00Z"
        while page := await wire.get("/v2/orders", status="all", limit="500", after=after, direction="asc"):
            assert len(page) <= 3
            seen += [order["client_order_id"] for order in page]
            after = page[-1]["submitted_at"]
        assert seen == [f"n{number}" for number in range(7)]
        path, query = "/v2/account/activities/FILL", {"direction": "asc", "page_size": "4"}
        first = await wire.get(path, **query)
        second = await wire.get(path, **query, page_token=first[-1]["id"])
        assert [len(first), len(second)] == [4, 3]
        wire.exchange.rules.page_tokens_left = 0
        status, _ = await wire.call("GET", path, params={**query, "page_token": first[-1]["id"]})
        assert status == 422


async def test_lookups_lag_by_endpoint_and_old_orders_vanish(tmp_path: Path) -> None:
    rules = Rules(filling="in_reply", lag={"find": 60 * SECOND, "positions": 5 * SECOND})
    async with wired(tmp_path, rules) as wire:
        await wire.buy("one")
        assert (await wire.call("GET", "/v2/orders:by_client_order_id?client_order_id=one"))[0] == 404
        assert len(await wire.get("/v2/orders", status="all")) == 1
        assert await wire.get("/v2/positions") == []
        wire.clock.advance(5 * SECOND)
        assert len(await wire.get("/v2/positions")) == 1
        wire.clock.advance(55 * SECOND)
        assert (await wire.order("one"))["status"] == "filled"
        rules.retention = {"filled": 3_600 * SECOND}
        wire.clock.advance(3_600 * SECOND)
        assert (await wire.call("GET", "/v2/orders:by_client_order_id?client_order_id=one"))[0] == 404
        assert await wire.get("/v2/orders", status="all") == []


async def test_a_key_pair_is_an_account_and_a_wrong_one_is_none(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("one")
        _, account = await wire.call("GET", "/v2/account", OTHER_KEYS)
        assert (account["account_number"], account["cash"]) == (OTHER_NUMBER, "100000")
        path = "/v2/orders:by_client_order_id?client_order_id=one"
        assert (await wire.call("GET", path, OTHER_KEYS))[0] == 404
        keys = {"APCA-API-KEY-ID": "key-1", "APCA-API-SECRET-KEY": "wrong"}
        assert (await wire.call("GET", "/v2/account", keys))[0] == 401


async def test_a_restart_goes_on_with_the_file_and_may_forget_its_numbers(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply", counts_ids=True)) as wire:
        await wire.buy("one")
        port = wire.exchange.port
        await wire.exchange.stop()
        await wire.exchange.start()
        assert wire.exchange.port == port
        assert (await wire.order("one"))["id"] == "1"
        assert (await wire.buy("one"))[0] == 422
        assert (await wire.buy("two"))[1]["id"] == "1"
        assert [row["qty"] for row in await wire.get("/v2/positions")] == ["20"]


async def test_what_a_drill_makes_happen(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="by_hand")) as wire:
        await wire.buy("one", "10")
        await wire.exchange.ask(Book.fill, "one", "4")
        await wire.exchange.ask(Book.end, "one", "canceled")
        order = await wire.order("one")
        assert (order["status"], order["filled_qty"]) == ("canceled", "4")
        await wire.exchange.ask(Book.fill, "one", "6")
        assert (await wire.order("one"))["status"] == "filled"
        await wire.exchange.ask(
            Book.by_hand,
            NUMBER,
            {"symbol": "AAPL", "side": "sell", "type": "market", "time_in_force": "day", "qty": "3"},
        )
        await wire.exchange.ask(Book.move_outside, NUMBER, "AAPL", "-2")
        assert (await wire.get("/v2/positions/AAPL"))["qty"] == "5"
        await wire.exchange.ask(Book.twin, "one")
        assert len(await wire.get("/v2/orders", status="all")) == 3


async def test_orders_that_could_trade_with_each_other_are_refused(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("entry", "10")
        await wire.buy("rests", "5", type="limit", limit_price="90")
        status, body = await wire.sell("exit", "10")
        assert (status, body["message"]) == (403, "potential wash trade detected. use complex orders")
        assert (await wire.sell("above", "10", type="limit", limit_price="120"))[0] == 200


async def test_many_calls_at_once_share_one_book(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        answers = await asyncio.gather(*(wire.buy("same", "1") for _ in range(10)))
        assert sorted(status for status, _ in answers) == [200] + [422] * 9
        assert await wire.count() == 1


async def test_a_second_furnishing_changes_nothing(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("one")
        await furnish(wire.exchange)
        assert (await wire.get("/v2/account"))["cash"] == "99000"
