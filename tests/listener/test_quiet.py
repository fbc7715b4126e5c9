"""Nothing of a request reaches a log: no token, no secret, no body, whatever is sent and however it fails."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest
import structlog

from app.clock import ManualClock
from app.ledger.errors import LedgerUnavailable
from app.listener import quiet
from app.listener.server import Door
from tests.listener.kit import (
    BODY_HOOK,
    HOOK,
    SECRET,
    TOKEN,
    FakeStore,
    alert,
    ask,
    opened,
    post,
    request,
    wire,
)

CANARY = "canary-5d1f"


class Logs:
    """Everything that any logger said, formatted with its traceback and extras."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        error = event.get("exc_info")
        self.lines.append(f"{method} {event!r} {error!r}")
        raise structlog.DropEvent

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def logs() -> Iterator[Logs]:
    logs = Logs()
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    structlog.configure(processors=[logs.note], cache_logger_on_first_use=False)
    yield logs
    structlog.reset_defaults()
    root.setLevel(level)
    root.removeHandler(handler)
    # The standard loggers' part is looked at by each test through `said`.
    assert TOKEN not in stream.getvalue()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, logs: Logs) -> Any:
    # `logs` has set the level; set here too, it would be put back after that of `logs`, to the wrong one.
    return lambda: logs.text + caplog.text + "".join(repr(record.__dict__) for record in caplog.records)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with opened(FakeStore()) as opened_door:
        yield opened_door


MALFORMED = {
    "method": f"P@ST {HOOK} HTTP/1.1\r\n\r\n",
    "version": f"POST {HOOK} HTTP/9.x\r\n\r\n",
    "words": f"POST {HOOK} more {CANARY} HTTP/1.1\r\n\r\n",
    "long line": f"POST {HOOK}?{CANARY * 1000} HTTP/1.1\r\n\r\n",
    "not ascii": f"POST {HOOK}/é HTTP/1.1\r\nHost: a\r\n\r\n",
    "header without colon": f"POST {HOOK} HTTP/1.1\r\nHost: a\r\n{CANARY}\r\n\r\n",
    "header name": f"POST {HOOK} HTTP/1.1\r\nHost: a\r\nX {CANARY}: {TOKEN}\r\n\r\n",
    "header value": f"POST {HOOK} HTTP/1.1\r\nHost: a\r\nAuthorization: {TOKEN}\x00{CANARY}\r\n\r\n",
    "two lengths": f"POST {HOOK} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "many headers": f"POST {HOOK} HTTP/1.1\r\n" + f"X-{CANARY}: {TOKEN}\r\n" * 100 + "\r\n",
    "tls": f"\x16\x03\x01{TOKEN}\r\n\r\n",
    "rubbish": f"{TOKEN} {CANARY}\r\n\r\n",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_leaves_nothing_in_a_log(name: str, door: Door, said: Any) -> None:
    response = await ask(door, MALFORMED[name].encode("latin-1", "replace"))
    assert response.status in (400, 404)
    assert TOKEN.encode() not in response.content
    assert CANARY.encode() not in response.content
    assert "a request that is not HTTP" in said()
    assert TOKEN not in said()
    assert CANARY not in said()


async def test_no_answer_and_no_log_of_a_delivery_holds_token_secret_or_body(said: Any) -> None:
    store = FakeStore()
    async with opened(store) as door:
        responses = [
            await post(door, alert(comment=CANARY)),
            await post(door, alert(comment=CANARY), f"{HOOK}?token={CANARY}"),
            await post(door, alert(secret=SECRET, comment=CANARY), BODY_HOOK),
            await post(door, alert(secret=f"{SECRET}x", comment=CANARY), BODY_HOOK),
            await post(door, f'{{"secret": "{SECRET}", "comment": "{CANARY}"'.encode(), BODY_HOOK),
            await post(door, f'{{"secret": "{SECRET}", "comment": "{CANARY}"'.encode()),
            await post(door, alert(secret=SECRET, comment=CANARY), f"/hook/tv/{TOKEN}x"),
            await post(door, alert(comment=CANARY), HOOK, f"Authorization: {SECRET}", f"Cookie: {CANARY}"),
            await post(door, alert(comment=CANARY), HOOK, f"Idempotency-Key: {SECRET}"),
            await post(door, alert(comment=CANARY), HOOK, "Content-Encoding: gzip"),
        ]
        store.error = RuntimeError(f"{TOKEN} {SECRET} {CANARY}")
        responses.append(await post(door, alert(comment=CANARY)))
        store.error = LedgerUnavailable("full", f"{TOKEN} {SECRET} {CANARY}")
        responses.append(await post(door, alert(comment=CANARY)))
    assert {response.status for response in responses} >= {200, 400, 401, 404, 415, 503}
    for response in responses:
        told = response.content.decode() + repr(response.headers)
        assert TOKEN not in told
        assert SECRET not in told
        assert CANARY not in told
    assert "delivery answered" in said()
    assert "a claim failed" in said()
    assert "RuntimeError" in said()
    for word in (TOKEN, SECRET, CANARY):
        assert word not in said()
    kept = [delivery.body for delivery, _, _ in store.claimed]
    kept += [delivery.body for delivery, _, _ in store.refused]
    kept += [delivery.body for delivery, _ in store.posted]
    assert len(kept) == 9
    assert not any(SECRET in body or TOKEN in body for body in kept)


async def test_a_delivery_that_claims_nothing_has_a_line_and_a_claimed_one_its_row_alone(
    door: Door, said: Any
) -> None:
    assert (await post(door, alert())).status == 200
    assert "delivery answered" not in said()
    assert (await post(door, b"{")).status == 400
    assert said().count("delivery answered") >= 1
    assert "invalid_json" in said()


async def test_a_fault_in_the_pipeline_is_logged_with_its_places_and_without_its_words(
    door: Door, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(f"cannot read {TOKEN} in {CANARY}")

    monkeypatch.setattr("app.listener.pipeline.read_alert", broken)
    response = await post(door, alert(comment=CANARY))
    assert (response.status, response.reason) == (503, "internal")
    assert "ValueError" in said()
    assert "test_quiet.py" in said()
    assert CANARY not in said()
    assert TOKEN not in said()


async def test_what_the_parser_itself_trips_over_is_not_printed_by_the_loop(
    door: Door, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(f"{TOKEN} {CANARY}")

    async with wire(door) as line:
        await ask(door, request("/healthz", method="GET"))
        monkeypatch.setattr("aiohttp.web.RequestHandler.data_received", broken)
        await line.send(request(HOOK, alert(comment=CANARY)))
        assert await line.is_closed()
        monkeypatch.undo()
    assert (await post(door, alert())).status == 200
    assert "a connection's data could not be read" in said()
    assert TOKEN not in said()
    assert CANARY not in said()


async def test_a_flood_of_malformed_requests_is_a_few_lines_and_a_count(logs: Logs) -> None:
    store = FakeStore()
    clock = ManualClock()
    async with opened(store, clock) as door:
        for _ in range(50):
            await ask(door, b"rubbish\r\n\r\n")
        assert logs.text.count("a request that is not HTTP") == quiet.LINES_A_SPAN
        clock.advance(quiet.SPAN)
        await ask(door, b"rubbish\r\n\r\n")
        assert f"'held_back': {50 - quiet.LINES_A_SPAN}" in logs.lines[-1]
    assert store.unauthenticated == ["malformed"] * 51


async def test_aiohttp_s_own_loggers_say_nothing_of_a_request_while_a_door_is_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    def ours() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name in quiet.LOGGERS]

    def speak() -> None:
        for name in quiet.LOGGERS:
            try:
                raise ValueError(f"bad line {TOKEN}")
            except ValueError:
                logging.getLogger(name).exception("error handling %s", HOOK)

    async with opened(FakeStore()):
        for _ in range(5):
            speak()
        assert len(ours()) == quiet.LINES_A_SPAN
        assert "ValueError" in caplog.text
        assert TOKEN not in caplog.text + "".join(repr(record.__dict__) for record in ours())
    speak()
    # Once the door is closed they are as they were.
    assert len(ours()) == quiet.LINES_A_SPAN + len(quiet.LOGGERS)


def test_where_names_causes_and_survives_a_circle() -> None:
    def fail() -> None:
        try:
            raise KeyError(CANARY)
        except KeyError as inner:
            raise ValueError(CANARY) from inner

    with pytest.raises(ValueError, match=CANARY) as caught:
        fail()
    places = quiet.where(caught.value)
    assert [place for place in places if ":" not in place] == ["ValueError", "KeyError"]
    assert "test_quiet.py" in places[1]
    assert CANARY not in " ".join(places)
    cause = caught.value.__cause__
    assert cause is not None
    cause.__cause__ = caught.value
    assert quiet.where(caught.value) == places
