"""What the simulated exchange does wrong on purpose, and that its book says what happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.drill.book import Book
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import Rules
from tests.drill.exchange_kit import KEYS, wired

CUTS = [
    (Reply.RESET, (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)),
    (Reply.CLOSED, (aiohttp.ServerDisconnectedError,)),
    (Reply.TRUNCATED, (aiohttp.ClientPayloadError,)),
]


@pytest.mark.parametrize(("reply", "errors"), CUTS)
@pytest.mark.parametrize("taken", [Taken.NEVER, Taken.BEFORE_REPLY])
async def test_a_lost_answer_says_nothing_of_the_order(
    tmp_path: Path, reply: Reply, errors: tuple[type[Exception], ...], taken: Taken
) -> None:
    async with wired(tmp_path) as wire:
        wire.exchange.plan.add(Fault("submit", reply, taken))
        with pytest.raises(errors):
            await wire.buy("one")
        assert await wire.count() == (0 if taken is Taken.NEVER else 1)
        (request,) = await wire.exchange.rows("SELECT * FROM requests")
        assert request["outcome"] == ("not taken" if taken is Taken.NEVER else "taken")
        assert (await wire.buy("two"))[0] == 200


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("taken", [Taken.NEVER, Taken.BEFORE_REPLY])
async def test_a_gateways_error_comes_before_or_after_the_order(
    tmp_path: Path, status: int, taken: Taken
) -> None:
    async with wired(tmp_path) as wire:
        wire.exchange.plan.add(Fault("submit", Reply.STATUS, taken, status=status))
        seen, body = await wire.buy("one")
        assert (seen, "<html>" in body) == (status, True)
        assert await wire.count() == (0 if taken is Taken.NEVER else 1)


async def test_answers_that_are_none(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        replies = [Reply.HTML, Reply.EMPTY, Reply.REDIRECT, Reply.DUPLICATE, Reply.STRANGER, Reply.NAMELESS]
        wire.exchange.plan.add(*(Fault("submit", reply) for reply in replies))
        seen: list[Any] = [await wire.buy(f"n{number}", "1") for number in range(6)]
        assert [status for status, _ in seen] == [200, 200, 307, 422, 200, 200]
        assert "<html>" in seen[0][1]
        assert seen[1][1] is None
        assert seen[3][1]["message"] == "client_order_id must be unique"
        assert seen[4][1]["client_order_id"] == "somebody-elses-order"
        assert "id" not in seen[5][1]
        assert "client_order_id" not in seen[5][1]
        assert await wire.count() == 6


async def test_an_order_is_accepted_after_its_sender_has_given_up(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        hold = wire.exchange.plan.hold("submit", reply=Reply.RESET, taken=Taken.LATE)
        with pytest.raises(aiohttp.ClientError):
            await wire.buy("one")
        assert await wire.count() == 0
        hold.release()
        await wire.settled()
        assert await wire.count() == 1


async def test_a_slow_answer_stands_until_it_is_let_go(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        hold = wire.exchange.plan.hold("submit")
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(wire.buy("one"))
            await hold.arrived.wait()
            assert await wire.count() == 1
            assert not sending.done()
            hold.release()
        assert sending.result()[0] == 200


async def test_throttling_names_the_wait_and_takes_nothing(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        wire.exchange.plan.add(
            Fault(
                "submit", Reply.STATUS, Taken.NEVER, status=429, message="too many requests.", retry_after="7"
            )
        )
        url = f"{wire.exchange.url}/v2/orders"
        async with wire.session.post(url, headers=KEYS, json={}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
            assert (await answer.json())["code"] == 42910000
        assert await wire.count() == 0


async def test_faults_wait_their_turn_and_end(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        wire.exchange.plan.add(Fault("account", Reply.STATUS, skip=1, times=2))
        seen = [(await wire.call("GET", "/v2/account"))[0] for _ in range(4)]
        assert seen == [200, 503, 503, 200]
        wire.exchange.plan.add(Fault("*", Reply.STATUS, times=None, symbol="MSFT"))
        assert (await wire.call("GET", "/v2/assets/AAPL"))[0] == 200
        assert [(await wire.call("GET", "/v2/assets/MSFT"))[0] for _ in range(3)] == [503] * 3
        wire.exchange.plan.clear()
        assert (await wire.call("GET", "/v2/assets/MSFT"))[0] == 200
        assert wire.exchange.plan.calls == {"account": 4, "asset": 5}


async def test_lists_that_lie(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        await wire.buy("one", "1")
        await wire.buy("two", "1")
        wire.exchange.plan.add(Fault("fills", Reply.DOUBLED), Fault("positions", Reply.FLAT))
        fills = await wire.get("/v2/account/activities/FILL", direction="asc")
        assert [fills[0]["id"], fills[2]["id"]] == [fills[1]["id"], fills[3]["id"]]
        assert fills[0]["transaction_time"] > fills[2]["transaction_time"]
        assert await wire.get("/v2/positions") == []


async def test_another_process_steers_it_by_the_control_address(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        exchange = wire.exchange

        async def ask(do: str, given: dict[str, Any], token: str = exchange.control_token) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}"}
            body = {"do": do, "with": given}
            return await wire.call("POST", "/_control", headers, json=body)

        assert (await ask("set_price", {"symbol": "AAPL", "price": "1"}, "wrong"))[0] == 403
        assert (await exchange.ask(Book.asset, "AAPL") or {})["price"] == "100"
        assert (await ask("set_price", {"symbol": "AAPL", "price": "120"}))[0] == 200
        assert (await ask("fault", {"endpoint": "submit", "reply": "status", "taken": "never"}))[0] == 200
        assert (await wire.buy("one"))[0] == 503
        assert (await ask("rules", {"filling": "in_reply"}))[0] == 200
        assert (await wire.buy("two"))[1]["filled_avg_price"] == "120"
        assert (await ask("calls", {}))[1]["submit"] == 2
        assert (await ask("rows", {"sql": "SELECT count(*) AS n FROM requests"}))[1] == [{"n": 2}]
        for do, given in (("nonsense", {}), ("rules", {"colour": 1}), ("fault", {"colour": 1}), ("fill", {})):
            assert (await ask(do, given))[0] == 400


async def test_a_request_may_stand_before_it_is_acted_on(tmp_path: Path) -> None:
    async with wired(tmp_path, Rules(filling="in_reply")) as wire:
        hold = wire.exchange.plan.hold("submit", taken=Taken.LATE)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(wire.buy("one"))
            await hold.arrived.wait()
            assert await wire.count() == 0
            hold.release()
        assert sending.result()[0] == 200
        assert await wire.count() == 1


async def test_connections_are_refused_while_what_is_connected_stays(tmp_path: Path) -> None:
    async with wired(tmp_path) as wire:
        await wire.get("/v2/account")
        await wire.exchange.refuse()
        assert (await wire.get("/v2/account"))["account_number"]
        async with aiohttp.ClientSession() as stranger:
            with pytest.raises(aiohttp.ClientConnectorError):
                await stranger.get(f"{wire.exchange.url}/v2/account")
        await wire.exchange.listen()
        url = f"{wire.exchange.url}/v2/account"
        async with aiohttp.ClientSession() as stranger, stranger.get(url) as answer:
            assert answer.status == 401
