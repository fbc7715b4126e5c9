"""Every shared case from its bytes to its settled order: real door, ledger, lanes and paper exchange.

Each at its own clock, with its source's settings and its starting book. What a case expects stands in
payloads.jsonl; only what becomes of an accepted one on paper is said here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.clock import ManualClock
from app.domain.signal import Signal
from app.domain.times import read_time
from app.listener.auth import Credential, SourceAccess, secret_digest
from app.listener.server import Door
from tests.execution.kit import Desk, desk
from tests.listener.kit import HOOK, TOKEN, Response, admission, opened, post, source

Case = dict[str, Any]

LINES = (Path(__file__).parent / "payloads.jsonl").read_text("utf-8").splitlines()
CASES: dict[str, Case] = {case["name"]: case for case in map(json.loads, LINES) if case["issue"] == 2}

COMES_AFTER = {"dup_second_reordered": "dup_first", "dup_third_same_id_other_body": "dup_first"}
"""Case -> the one that is delivered before it to the same ledger."""

NO_PRICE = ("DENIED", "REFERENCE_PRICE_UNAVAILABLE", "0")
SETTLED: dict[str, tuple[str, str, str]] = {
    "flat_json_strings": ("DONE", "Filled", "10"),
    "flat_json_numbers_explicit_id": ("WORKING", "New", "0"),
    "nested_strategy_object": ("DONE", "Filled", "5"),
    "reverse_single_order": ("DONE", "Filled", "-0.2"),
    "bom_prefixed": ("DONE", "Filled", "0"),
    "trailing_newline_text_plain": NO_PRICE,
    "scientific_notation": ("WORKING", "New", "0"),
    "dup_first": NO_PRICE,
    "dup_second_reordered": NO_PRICE,
    "paper_flag": NO_PRICE,
    "cancel_all_symbol": ("DONE", "NOTHING_TO_DO", "0"),
}
"""Accepted case -> state of its order, its FIX status or the first word of its reason, our book after it."""

HINTS = {
    "trailing_comma": "comma",
    "plot_placeholder_breaks_json": "placeholder",
    "raw_newline_in_string": "\\n",
}
"""Refused case -> what its detail has to speak of."""


# --------------------------------------------------------------------------------------------------- the line


def settings_of(case: Case) -> str:
    short = "true" if case["source"].get("allow_short") else "false"
    return (
        f'[[sources]]\nname = "tv"\nid = "tv-id"\naccounts = ["paper"]\nauth = "{case["source"]["auth"]}"\n'
        f'[[accounts]]\nname = "paper"\nbroker = "paper"\nallow_short = {short}\n'
    )


def access_of(case: Case) -> SourceAccess:
    secret = case["source"].get("secret") if case["source"]["auth"] == "body" else TOKEN
    return source(
        id="tv-id",
        auth=case["source"]["auth"],
        credentials=(Credential(secret_digest(secret)),),
        admission=admission("tv-id", "tv", accounts=tuple(case["source"]["accounts"])),
    )


class Line:
    """The whole way, open. `claims_before` were made for the starting book."""

    def __init__(self, case: Case, open_desk: Desk, door: Door) -> None:
        self.case = case
        self.desk = open_desk
        self.door = door
        self.claims_before = 0

    async def hold(self, book: Mapping[str, str]) -> None:
        """Buys the starting book, so that ledger and exchange agree on it."""
        for symbol, quantity in book.items():
            order = await self.desk.trade(symbol=symbol, action="buy", quantity=quantity)
            assert (order["state"], order["filled_quantity"]) == ("DONE", quantity)
            self.claims_before += 1

    async def post(self, name: str) -> Response:
        case = CASES[name]
        path = HOOK if case["source"]["auth"] == "path" else "/hook/tv"
        response = await post(
            self.door, case["body"].encode("utf-8"), path, f"Content-Type: {case['content_type']}"
        )
        await self.desk.writer.run(lambda _: None)
        return response

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        return await self.desk.reader.rows(sql)

    async def deliveries(self) -> list[dict[str, Any]]:
        """Those of the door: the starting book came past it."""
        return (await self.rows("SELECT * FROM v_deliveries ORDER BY number"))[self.claims_before :]

    async def claims(self) -> list[dict[str, Any]]:
        return (await self.rows("SELECT * FROM claims ORDER BY id"))[self.claims_before :]

    async def orders(self) -> list[dict[str, Any]]:
        return (await self.desk.orders())[self.claims_before :]


@asynccontextmanager
async def line(home: Path, name: str) -> AsyncIterator[Line]:
    case = CASES[name]
    clock = ManualClock() if case["clock"] is None else ManualClock(read_time(case["clock"]))
    async with (
        desk(home, settings_of(case), clock=clock) as open_desk,
        opened(open_desk.store, clock, tv=access_of(case)) as door,
    ):
        door.set_sources({"tv": access_of(case)})
        way = Line(case, open_desk, door)
        await way.hold(case["source"].get("book", {}))
        if name in COMES_AFTER:
            await way.post(COMES_AFTER[name])
        yield way


def names(*decisions: str) -> list[str]:
    return [name for name, case in CASES.items() if case["expected"]["decision"].startswith(decisions)]


# --------------------------------------------------------------------------------------------------- accepted


@pytest.mark.parametrize("name", names("accept"))
async def test_an_accepted_case_becomes_the_order_that_it_asks_for(tmp_path: Path, name: str) -> None:
    expected = CASES[name]["expected"]
    async with line(tmp_path, name) as way:
        response = await way.post(name)
        assert (response.status, response.json["status"]) == (expected["http"], "accepted")
        if "key" in expected:
            assert response.json["key"] == expected["key"]
        order = await settled(way, name)
        (claim,) = await way.claims()
        signal = msgspec.json.decode(claim["signal"], type=Signal)
        for word, value in expected.get("order", {}).items():
            assert spoken(word, signal, order) == value, word
        (row,) = await way.deliveries()
        assert (row["verdict"], row["http_status"]) == ("accepted", 200)
        assert row["signal"] == response.json["signal"] == f"S{claim['id']}"
        assert len(await way.orders()) == 1


async def settled(way: Line, name: str) -> dict[str, Any]:
    """The one order, come to rest as SETTLED says; the exchange has it exactly if it was sent."""
    state, word, book = SETTLED[name]
    number = f"SELECT state FROM orders WHERE id = {way.claims_before + 1}"
    await way.desk.until(number, state)
    (order,) = await way.orders()
    assert word in (order["ord_status"], (order["reason"] or "").split(" ")[0])
    symbol = order["symbol"]
    assert await way.desk.book(symbol) == Decimal(book)
    sent = [row for row in way.desk.paper_orders() if row["client_order_id"] == order["client_order_id"]]
    assert [row["status"] for row in sent] == ([order["ord_status"]] if order["client_order_id"] else [])
    return order


def spoken(word: str, signal: Signal, order: dict[str, Any]) -> str | None:
    """A case's word for an order as the ledger has it: of the order where it was sent, else the signal."""
    after, before = signal.market_position, signal.prev_market_position
    stated = signal.bar_time if signal.fired_at is None else signal.fired_at
    values: dict[str, Any] = {
        "symbol": order["symbol"],
        "exchange_hint": signal.exchange,
        "side": order["side"] or signal.action.value,
        "qty": order["quantity"] or signal.quantity,
        "signal_qty": signal.quantity,
        "type": order["type"],
        "limit_price": order["limit_price"],
        "tif": order["tif"],
        "ref_price": signal.price,
        "signal_time": None if stated is None else rfc_3339(stated),
        "position_after": None if after is None else f"{after.value} {signal.market_position_size}",
        "position_before": None if before is None else before.value,
        "target_position": signal.target,
        "intent": {"cancel": "cancel_open_orders"}.get(order["action"], "reverse"),
    }
    return None if values[word] is None else format(values[word])


def rfc_3339(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def test_a_reversal_is_one_order_of_the_whole_distance(tmp_path: Path) -> None:
    """From long 0.2 to short 0.2: sell 0.4 once, never twice."""
    async with line(tmp_path, "reverse_single_order") as way:
        await way.post("reverse_single_order")
        order = await settled(way, "reverse_single_order")
        assert (order["side"], order["quantity"], order["filled_quantity"]) == ("sell", "0.4", "0.4")


@pytest.mark.parametrize("name", names("accept"))
async def test_an_accepted_case_again_is_a_duplicate_of_its_one_order(tmp_path: Path, name: str) -> None:
    async with line(tmp_path, name) as way:
        first = await way.post(name)
        order = await settled(way, name)
        again = await way.post(name)
        assert (again.status, again.json["status"]) == (200, "duplicate")
        assert again.json["signal"] == first.json["signal"]
        assert again.json["deliveries"] == 2
        assert again.headers["idempotent-replayed"] == "true"
        (outcome,) = again.json["outcome"]["orders"]
        assert (outcome["state"], outcome["client_order_id"]) == (order["state"], order["client_order_id"])
        assert len(await way.orders()) == 1


# ------------------------------------------------------------------------------------ duplicates and refusals


@pytest.mark.parametrize("name", names("duplicate"))
async def test_a_case_that_repeats_another_is_its_duplicate(tmp_path: Path, name: str) -> None:
    async with line(tmp_path, name) as way:
        order = await settled(way, name)
        response = await way.post(name)
        assert (response.status, response.json["status"]) == (CASES[name]["expected"]["http"], "duplicate")
        assert response.json["signal"] == order["signal"]
        assert response.json["outcome"]["orders"][0]["reason"] == order["reason"]
        assert [row["verdict"] for row in await way.deliveries()] == ["accepted", "duplicate"]
        assert len(await way.orders()) == 1


@pytest.mark.parametrize("name", names("reject"))
async def test_a_refused_case_claims_nothing_and_says_why(tmp_path: Path, name: str) -> None:
    expected = CASES[name]["expected"]
    async with line(tmp_path, name) as way:
        before = len(await way.claims())
        response = await way.post(name)
        assert (response.status, response.reason) == (expected["http"], expected["reason"])
        word = {400: "invalid", 401: "unauthorized"}.get(expected["http"])
        assert response.json["status"] == (word or ("stale" if expected["reason"] == "stale" else "conflict"))
        if "fields" in expected:
            assert response.json["fields"] == expected["fields"]
        if "position" in expected:
            assert expected["position"] in response.json["detail"]
        assert HINTS.get(name, "") in response.json.get("detail", "")
        assert len(await way.claims()) == len(await way.orders()) == before
        rows = (await way.deliveries())[before:]
        if expected["http"] == 401:
            assert rows == []
            assert await way.rows("SELECT reason, count FROM unauthenticated") == [
                {"reason": expected["reason"], "count": 1}
            ]
        else:
            assert [(row["http_status"], row["reason"]) for row in rows] == [
                (response.status, response.reason)
            ]


# ------------------------------------------------------------------------------------------------ all of them


@pytest.mark.parametrize("name", list(CASES))
async def test_no_case_leaves_its_secret_behind(tmp_path: Path, name: str) -> None:
    async with line(tmp_path, name) as way:
        response = await way.post(name)
        kept = await way.rows("SELECT body FROM bodies UNION ALL SELECT signal FROM claims")
        said = [response.content.decode(), *(next(iter(row.values())) for row in kept), str(way.desk.log)]
        assert not any("demo-pass" in text or "wrong-000" in text for text in said)


def test_every_case_of_this_issue_is_told_apart() -> None:
    """A case with a new kind of decision, or an accepted one of which nothing is said here, is noticed."""
    accepted, repeated, refused = names("accept"), names("duplicate"), names("reject")
    assert len(accepted) + len(repeated) + len(refused) == len(CASES) == 25
    assert set(accepted) | set(repeated) == set(SETTLED)
    assert set(COMES_AFTER) | set(HINTS) <= set(CASES)
