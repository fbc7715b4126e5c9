"""Each row of the contract's table, over a socket, with a real ledger behind it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND, ManualClock
from app.listener.server import Door
from tests.listener.kit import (
    ALERT,
    BODY_HOOK,
    HOOK,
    SECRET,
    Ledger,
    admission,
    alert,
    ask,
    ledger,
    opened,
    post,
    request,
    source,
)

ROW = "SELECT verdict, http_status, reason, signal, key, ack_ms FROM v_deliveries ORDER BY number"
BODIES = "SELECT body FROM bodies ORDER BY delivery_id"
UNAUTHENTICATED = "SELECT reason, sum(count) FROM unauthenticated GROUP BY reason"


@dataclass
class Place:
    door: Door
    ledger: Ledger
    clock: ManualClock

    async def later(self, seconds: int) -> None:
        """Time passes while nothing waits at the ledger, or it would seem overdue."""
        await self.ledger.rows("SELECT 1")
        self.clock.advance(seconds * SECOND)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    clock = ManualClock()
    async with ledger(tmp_path, clock) as book, opened(book.store, clock) as door:
        yield Place(door, book, clock)


async def test_claimed_now(place: Place) -> None:
    response = await post(place.door, alert("signal-1"))
    assert response.status == 200
    assert response.json["status"] == "accepted"
    assert response.json["signal"] == "S1"
    assert response.json["key"] == "signal-1"
    assert response.json["key_source"] == "body"
    assert response.json["outcome"]["state"] == "PENDING"
    order = response.json["outcome"]["orders"][0]
    assert set(order) == {
        "client_order_id", "broker_order_id", "account", "symbol", "side", "quantity", "state", "ord_status",
        "filled_quantity", "average_price", "reason",
    }  # fmt: skip
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert "idempotent-replayed" not in response.headers
    assert await place.ledger.rows(ROW) == [("accepted", 200, None, "S1", "signal-1", 0)]


async def test_the_same_again_is_a_duplicate_with_the_outcome_and_its_count(place: Place) -> None:
    await post(place.door, alert())
    await place.later(5)
    response = await post(place.door, alert(quantity="10.0", comment="another comment"))
    assert response.status == 200
    assert response.json["status"] == "duplicate"
    assert response.json["signal"] == "S1"
    assert response.json["outcome"]["state"] == "PENDING"
    assert response.json["first_seen"] == "2026-03-02T15:30:00.000000Z"
    assert response.json["deliveries"] == 2
    assert response.headers["idempotent-replayed"] == "true"
    assert (await post(place.door, alert())).json["deliveries"] == 3
    assert [row[:3] for row in await place.ledger.rows(ROW)] == [
        ("accepted", 200, None), ("duplicate", 200, None), ("duplicate", 200, None),
    ]  # fmt: skip


async def test_h11_what_was_taken_as_a_label_is_said_in_the_answer(place: Place) -> None:
    timed = alert("signal-1", fired_at="2026-03-02T15:30:00Z")
    assert "warnings" not in (await post(place.door, timed)).json
    for word in ("accepted", "duplicate"):
        response = await post(place.door, alert("my-first-alert"))
        assert response.json["status"] == word
        assert any("label" in sentence for sentence in response.json["warnings"])


async def test_a_source_can_choose_409_for_duplicates(place: Place) -> None:
    place.door.set_sources({"tv": source(duplicate_status=409)})
    await post(place.door, alert())
    response = await post(place.door, alert())
    assert (response.status, response.json["status"], response.reason) == (409, "duplicate", "duplicate")
    assert response.headers["idempotent-replayed"] == "true"
    assert [row[1] for row in await place.ledger.rows(ROW)] == [200, 409]


async def test_the_same_key_with_another_intent_is_a_conflict(place: Place) -> None:
    await post(place.door, alert())
    response = await post(place.door, alert(quantity="11"))
    assert response.status == 422
    assert (response.json["status"], response.reason) == ("conflict", "intent_differs")
    assert response.json["fields"] == ["quantity"]
    assert (await place.ledger.rows(ROW))[1][:4] == ("conflict", 422, "intent_differs", "S1")


async def test_a_key_re_used_on_another_bar_is_a_conflict(place: Place) -> None:
    await post(place.door, alert(bar_time="2026-03-02T15:15:00Z", interval="15"))
    await place.later(900)
    response = await post(place.door, alert(bar_time="2026-03-02T15:30:00Z", interval="15"))
    assert (response.status, response.json["status"], response.reason) == (422, "conflict", "key_reused")
    assert response.json["fields"] == ["bar_time"]


async def test_too_old_is_stale(place: Place) -> None:
    response = await post(place.door, alert(fired_at="2026-03-02T15:28:00Z"))
    assert (response.status, response.json["status"], response.reason) == (422, "stale", "stale")
    assert (await place.ledger.rows(ROW))[0][:3] == ("stale", 422, "stale")


async def test_before_the_watermark_is_stale(place: Place) -> None:
    moment = place.clock.now()
    await place.ledger.writer.run(
        lambda tx: tx.change("sources", "UPDATE sources SET watermark = ? WHERE id = 'tv-id'", (moment,))
    )
    response = await post(place.door, alert(fired_at="2026-03-02T15:29:59Z"))
    assert (response.status, response.json["status"], response.reason) == (422, "stale", "before_watermark")


@pytest.mark.parametrize(
    ("body", "reason", "fields"),
    [
        (b"", "empty_body", []),
        (b"{", "invalid_json", []),
        (b"\xff\xfe{}", "not_utf8", []),
        (b"buy AAPL", "not_an_order_message", []),
        (b'{"symbol":"AAPL","action":"buy","quantity":NaN}', "non_finite_number", ["quantity"]),
        (b'{"qty":1,"qty":2,"symbol":"AAPL","action":"buy"}', "duplicate_key", ["qty"]),
        (b"[" * 20_000, "too_deep", []),
        (b'{"Ticker":"AAPL","side":"purchase","qty":"1"}', None, ["side"]),
        (b'{"ticker":"AAPL","qty":"1"}', "missing_field", ["action"]),
        (b'{"symbol":"AAPL","action":"buy","qty":"1","leverage":5}', "unsupported_field", ["leverage"]),
        (b'{"symbol":"AAPL","action":"buy","qty":"1","quantity":"2"}', "contradictory", ["quantity", "qty"]),
        (b'{"symbol":"AAPL","action":"{{strategy.order.action}}"}', "unsubstituted_placeholder", ["action"]),
    ],
)
async def test_what_cannot_be_understood_is_400(
    place: Place, body: bytes, reason: str | None, fields: list[str]
) -> None:
    response = await post(place.door, body)
    assert (response.status, response.json["status"]) == (400, "invalid")
    assert response.reason == reason or reason is None
    assert response.json["fields"] == fields
    assert response.json["detail"]
    row = (await place.ledger.rows(ROW))[0]
    assert row == ("invalid", 400, response.reason, None, None, 0)


async def test_the_future_is_400_with_the_field_as_it_was_sent(place: Place) -> None:
    fine = await post(place.door, alert(timenow="2026-03-02T15:30:30Z"))
    assert fine.status == 200
    response = await post(place.door, alert("b", timenow="2026-03-02T15:30:31Z"))
    assert (response.status, response.reason, response.json["fields"]) == (400, "in_future", ["timenow"])
    response = await post(place.door, alert("c", time="2026-03-02T15:45:00Z", interval="15"))
    assert (response.status, response.reason, response.json["fields"]) == (400, "in_future", ["time"])


async def test_keys_that_disagree_or_are_too_long_are_400(place: Place) -> None:
    response = await post(place.door, alert("signal-1"), HOOK, "Idempotency-Key: signal-2")
    assert (response.status, response.reason) == (400, "keys_disagree")
    assert response.json["fields"] == ["key", "Idempotency-Key"]
    response = await post(place.door, alert("x" * 256))
    assert (response.status, response.reason, response.json["fields"]) == (400, "key_too_long", ["key"])


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("Idempotency-Key: order-77", "order-77"),
        ('Idempotency-Key: "order-77"', "order-77"),
        ("idempotency-key:   order-77  ", "order-77"),
        ("X-Idempotency-Key: order-77", "order-77"),
        ("Webhook-Id: msg_2Lh9KR", "msg_2Lh9KR"),
    ],
)
async def test_a_key_from_a_header(place: Place, header: str, key: str) -> None:
    response = await post(place.door, json.dumps(ALERT).encode(), HOOK, header)
    assert (response.status, response.json["key"], response.json["key_source"]) == (200, key, "header")


async def test_the_same_header_twice_is_refused(place: Place) -> None:
    response = await post(place.door, alert(), HOOK, "Idempotency-Key: a-1", "Idempotency-Key: a-1")
    assert (response.status, response.reason) == (400, "repeated_header")


async def test_a_derived_key_and_a_window_key(place: Place) -> None:
    body = json.dumps(ALERT | {"time": "2026-03-02T15:15:00Z", "interval": "15"}).encode()
    assert (await post(place.door, body)).json["key_source"] == "derived"
    assert (await post(place.door, body)).json["status"] == "duplicate"
    assert (await post(place.door, json.dumps(ALERT).encode())).json["key_source"] == "window"


async def test_entries_over_the_source_s_rate_are_503(place: Place) -> None:
    place.door.set_sources({"tv": source(admission=admission("tv-id", "tv", entries_per_minute=1))})
    assert (await post(place.door, alert("a-1"))).status == 200
    response = await post(place.door, alert("a-2"))
    assert (response.status, response.json["status"], response.reason) == (503, "not_accepted", "rate")
    assert response.headers["retry-after"] == "5"
    assert (await post(place.door, alert("a-3", action="exit"))).status == 200
    await place.later(60)
    assert (await post(place.door, alert("a-2"))).json["status"] == "accepted"


async def test_a_body_secret_that_is_right(place: Place) -> None:
    for path in (BODY_HOOK, BODY_HOOK + "/"):
        response = await post(place.door, alert(path, secret=SECRET), path)
        assert (response.status, response.json["status"]) == (200, "accepted")
    response = await post(place.door, alert("c", passphrase=SECRET), BODY_HOOK)
    assert response.status == 200
    bodies = await place.ledger.rows(BODIES)
    assert len(bodies) == 3
    assert not any(SECRET in body for (body,) in bodies)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (alert(secret="wrong"), "bad_secret"),
        (alert(secret="é\U0001f600"), "bad_secret"),
        (alert(), "missing_secret"),
        (alert(secret=""), "missing_secret"),
        (b"{" + SECRET.encode(), "unreadable"),
        (b"", "unreadable"),
    ],
)
async def test_a_body_without_its_secret_is_401_and_nothing_of_it_is_kept(
    place: Place, body: bytes, reason: str
) -> None:
    response = await post(place.door, body, BODY_HOOK)
    assert response.status == 401
    assert response.json == {"status": "unauthorized", "reason": reason}
    assert await place.ledger.rows(ROW) == []
    assert await place.ledger.rows(BODIES) == []
    assert await place.ledger.rows(UNAUTHENTICATED) == [(reason, 1)]


async def test_a_body_too_large_is_413(place: Place) -> None:
    exactly = alert(comment="x" * 4_000).ljust(65_536)
    assert (await post(place.door, exactly)).status == 200
    response = await post(place.door, b"x" * 65_537)
    assert (response.status, response.json["status"]) == (413, "too_large")
    assert response.reason == "body_over_64_kib"
    assert (await place.ledger.rows(ROW))[1][:3] == ("too_large", 413, "body_over_64_kib")
    assert (await place.ledger.rows(BODIES))[1] == ("",)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity"])
async def test_any_content_encoding_is_415(place: Place, encoding: str) -> None:
    response = await post(place.door, alert(), HOOK, f"Content-Encoding: {encoding}")
    assert (response.status, response.json["status"]) == (415, "unsupported_encoding")
    assert response.reason == "content_encoding"
    assert (await place.ledger.rows(ROW))[0][:3] == ("unsupported_encoding", 415, "content_encoding")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
async def test_not_post_is_405(place: Place, method: str) -> None:
    head = method == "HEAD"
    for path in (HOOK, BODY_HOOK, "/hook/nobody/nothing"):
        response = await ask(place.door, request(path, method=method), has_body=not head)
        assert response.status == 405
        assert response.headers["allow"] == "POST"
        if not head:
            assert response.json == {"status": "method_not_allowed", "reason": "post_only"}
    assert await place.ledger.rows(ROW) == []


async def test_stopping_is_503_for_everything_authenticated_and_its_body_is_kept(place: Place) -> None:
    place.door.close_intake()
    for path, body in ((HOOK, alert()), (BODY_HOOK, alert(secret=SECRET))):
        response = await post(place.door, body, path)
        assert (response.status, response.json["status"], response.reason) == (
            503,
            "not_accepted",
            "stopping",
        )
        assert response.headers["retry-after"] == "5"
    assert (await post(place.door, alert(secret="wrong"), BODY_HOOK)).status == 401
    assert (await post(place.door, alert(), "/hook/tv/wrong")).status == 404
    assert [row[:3] for row in await place.ledger.rows(ROW)] == [("not_accepted", 503, "stopping")] * 2
    assert json.loads((await place.ledger.rows(BODIES))[0][0]) == json.loads(alert())
    assert place.door.facts.word == "stopping"


async def test_every_answer_but_200_carries_a_reason_and_none_says_what_this_is(place: Place) -> None:
    answers = [
        await post(place.door, alert()),
        await post(place.door, alert(quantity="3")),
        await post(place.door, b"{"),
        await post(place.door, alert(), "/hook/tv/wrong"),
        await post(place.door, alert(), BODY_HOOK),
        await post(place.door, alert(), HOOK, "Content-Encoding: gzip"),
        await ask(place.door, b"NOT HTTP\r\n\r\n"),
    ]
    for response in answers:
        assert response.status == 200 or response.reason
        told = json.dumps(response.headers) + response.content.decode()
        assert not re.search("python|aiohttp|onefill", told, re.IGNORECASE)


async def test_milliseconds_run_from_the_headers_to_the_answer(place: Place) -> None:
    claim = place.ledger.store.claim

    def slow(*arguments: Any) -> Any:
        place.clock.advance(SECOND // 4)
        return claim(*arguments)

    place.ledger.store.claim = slow  # type: ignore[assignment,method-assign]
    await post(place.door, alert())
    assert (await place.ledger.rows("SELECT ack_us FROM deliveries")) == [(250_000,)]
