"""HTTP as it can be sent: framing, slow and broken bodies, pipelining, keep-alive."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from app.clock import SECOND, SystemClock
from app.listener import connection
from tests.listener.kit import BODY_HOOK, HOOK, FakeStore, alert, ask, opened, request, wire

CHUNKED = ("Transfer-Encoding: chunked",)


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def test_a_chunked_body() -> None:
    store = FakeStore()
    async with opened(store) as door:
        head = request(HOOK, headers=CHUNKED, length=False)
        assert (await ask(door, head + chunks(alert(), 7))).status == 200
    assert json.loads(store.claimed[0][0].body) == json.loads(alert())


async def test_a_chunked_body_over_the_limit_is_refused_while_it_comes() -> None:
    store = FakeStore()
    async with opened(store) as door, wire(door) as line:
        await line.send(request(HOOK, headers=CHUNKED, length=False))
        # The end never comes: the answer does.
        await line.send(b"10001\r\n" + b" " * 0x10001 + b"\r\n")
        response = await line.response()
        assert (response.status, response.json["status"]) == (413, "too_large")
        assert response.headers["connection"] == "close"
        assert await line.is_closed()
    assert [refusal.http_status for _, refusal, _ in store.refused] == [413]
    assert store.refused[0][0].body == ""


async def test_a_length_over_the_limit_is_refused_before_the_body() -> None:
    async with opened(FakeStore()) as door, wire(door) as line:
        await line.send(request(HOOK, headers=("Content-Length: 1000000000",), length=False))
        assert (await line.response()).status == 413
        assert await line.is_closed()


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: -1",),
        ("Content-Length: 5, 5",),
        ("Transfer-Encoding: gzip, chunked, chunked",),
        ("Host: other.example", "Content-Length: 5"),
        ("X-Long: " + "a" * 5_000, "Content-Length: 5"),
        ("A\x00B: c", "Content-Length: 5"),
    ],
)
async def test_an_ambiguous_request_is_400_and_ends_the_connection(headers: tuple[str, ...]) -> None:
    store = FakeStore()
    async with opened(store) as door, wire(door) as line:
        await line.send(request(HOOK, headers=headers, length=False) + b"0\r\n\r\n")
        response = await line.response()
        assert (response.status, response.json["status"]) == (400, "invalid")
        assert response.reason == "malformed_request"
        assert await line.is_closed()
    assert store.claimed == []
    assert store.unauthenticated == ["malformed"]


async def test_a_broken_chunk_is_400() -> None:
    store = FakeStore()
    async with opened(store) as door, wire(door) as line:
        await line.send(request(HOOK, headers=CHUNKED, length=False))
        await line.send(b'5\r\n{"a":\r\nzz\r\n')
        response = await line.response()
        assert (response.status, response.json["status"]) == (400, "invalid")
        assert await line.is_closed()
    assert store.claimed == []


async def test_many_pipelined_requests_are_answered_in_their_order() -> None:
    store = FakeStore()
    async with opened(store) as door, wire(door) as line:
        await line.send(b"".join(request(HOOK, alert(f"signal-{number}")) for number in range(100)))
        keys = [(await line.response()).json["key"] for _ in range(100)]
    assert keys == [f"signal-{number}" for number in range(100)]


async def test_a_connection_stays_open_between_requests_after_refusals_too() -> None:
    async with opened(FakeStore()) as door, wire(door) as line:
        for path, body, status in [
            (HOOK, alert(), 200),
            (HOOK, b"{", 400),
            ("/hook/tv/wrong", alert(), 404),
            (HOOK, alert(), 200),
            ("/elsewhere", alert(), 404),
        ]:
            await line.send(request(path, body))
            assert (await line.response()).status == status
        assert door.facts.connections == 1


async def test_http_1_0_and_connection_close() -> None:
    async with opened(FakeStore()) as door:
        for data in (
            request(HOOK, alert()).replace(b"HTTP/1.1", b"HTTP/1.0"),
            request(HOOK, alert(), headers=("Connection: close",)),
        ):
            async with wire(door) as line:
                await line.send(data)
                assert (await line.response()).status == 200
                assert await line.is_closed()


async def test_expect_100_continue_gets_its_go_ahead_only_after_the_token() -> None:
    async with opened(FakeStore()) as door:
        body = alert()
        async with wire(door) as line:
            headers = ("Expect: 100-continue", f"Content-Length: {len(body)}")
            await line.send(request(HOOK, headers=headers, length=False))
            assert (await line.response()).status == 100
            await line.send(body)
            assert (await line.response()).status == 200
        async with wire(door) as line:
            await line.send(request("/hook/tv/wrong", headers=headers, length=False))
            assert (await line.response()).status == 404


async def test_an_upgrade_is_not_followed() -> None:
    async with opened(FakeStore()) as door:
        headers = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
        assert (await ask(door, request(HOOK, alert(), headers=headers))).status == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "image/png", ""])
async def test_the_content_type_decides_nothing(content_type: str) -> None:
    async with opened(FakeStore()) as door:
        data = request(HOOK, alert(), headers=(f"Content-Type: {content_type}",))
        assert (await ask(door, data)).status == 200


async def test_a_body_that_does_not_come_is_answered_503_and_the_connection_ends() -> None:
    """503 is the one answer after which a sender with a slow line sends again; 504 never is."""
    store = FakeStore()
    async with opened(store, SystemClock(), body_timeout=SECOND // 20) as door:
        for path in (HOOK, BODY_HOOK):
            async with wire(door) as line:
                await line.send(request(path, headers=("Content-Length: 100",), length=False) + b'{"half')
                response = await line.response()
                assert (response.status, response.json["status"]) == (503, "not_accepted")
                assert response.reason == "body_timeout"
                assert response.headers["retry-after"] == "5"
                assert response.headers["connection"] == "close"
                assert await line.is_closed()
    # The token was right: the delivery has a row. The secret was never seen: that one has none.
    assert [refusal.reason for _, refusal, _ in store.refused] == ["body_timeout"]
    assert store.unauthenticated == ["body_timeout"]


async def test_a_sender_that_leaves_inside_the_body_leaves_a_row() -> None:
    refused = asyncio.Event()

    class Noting(FakeStore):
        async def refuse(self, *arguments: object) -> int:
            refused.set()
            return await super().refuse(*arguments)  # type: ignore[arg-type]

    store = Noting()
    async with opened(store) as door:
        async with wire(door) as line:
            await line.send(request(HOOK, headers=("Content-Length: 100",), length=False) + b'{"half')
            # Heard once the door has read the half of it.
            await ask(door, request("/healthz", method="GET"))
        await refused.wait()
    assert [(refusal.http_status, refusal.reason) for _, refusal, _ in store.refused] == [
        (503, "disconnected")
    ]


async def test_a_sender_that_leaves_before_the_answer_does_not_undo_the_claim() -> None:
    store = FakeStore(hold=asyncio.Event())
    assert store.hold is not None
    async with opened(store) as door:
        async with wire(door) as line:
            await line.send(request(HOOK, alert()))
            await ask(door, request("/healthz", method="GET"))
        await ask(door, request("/healthz", method="GET"))
        store.hold.set()
    assert store.outcomes == ["open"]
    assert len(store.claimed) == 1


async def test_an_error_past_the_handler_is_503_never_500_or_504(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise TimeoutError

    async with opened(FakeStore()) as door:
        with monkeypatch.context() as patch:
            patch.setattr(connection.Connection, "begin", broken)
            response = await ask(door, request(HOOK, alert()))
        assert (response.status, response.json["status"], response.reason) == (
            503,
            "not_accepted",
            "internal",
        )
        assert (await ask(door, request(HOOK, alert()))).status == 200


async def test_stop_lets_a_delivery_under_way_be_answered() -> None:
    store = FakeStore(hold=asyncio.Event())
    assert store.hold is not None
    async with opened(store) as door, wire(door) as line, wire(door) as idle:
        await line.send(request(HOOK, alert()))
        await ask(door, request("/healthz", method="GET"))
        stopping = asyncio.gather(door.stop())
        assert await idle.is_closed()
        store.hold.set()
        assert (await line.response()).status == 200
        await stopping
        assert door.facts.word == "closed"
        with contextlib.suppress(ConnectionError):
            assert await line.is_closed()
