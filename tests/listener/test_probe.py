"""The door hears itself knock, notices when it went deaf, and is opened anew on its port."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from app.clock import SECOND, Clock, ManualClock
from app.listener.probe import HEADER, Probe
from app.listener.server import Door, DoorCannotOpen
from tests.listener.kit import HOOK, FakeStore, alert, ask, opened, post, request, wire

QUICK: dict[str, Any] = {"probe_interval": 0.01, "probe_timeout": 0.05}


def listening(door: Door) -> socket.socket:
    assert door._site is not None
    server = door._site._server
    assert isinstance(server, asyncio.Server)
    return server.sockets[0]._sock  # type: ignore[attr-defined,no-any-return]


def go_deaf(door: Door) -> None:
    """The port is still there and connects, but nobody accepts."""
    asyncio.get_running_loop().remove_reader(listening(door).fileno())


def close_underneath(door: Door) -> None:
    """As the proactor loop does after a reset during accept (CPython gh-93821)."""
    loop: Any = asyncio.get_running_loop()
    loop._stop_serving(listening(door))


async def until(door: Door, condition: Any) -> None:
    for _ in range(1_000):
        if condition(door.facts):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"it did not come to that: {door.facts}")


async def test_a_door_that_hears_itself_says_when() -> None:
    clock = ManualClock()
    async with opened(FakeStore(), clock, **QUICK) as door:
        await until(door, lambda facts: facts.last_probe == clock.now())
        clock.advance(SECOND)
        await until(door, lambda facts: facts.last_probe == clock.now())
        assert (door.facts.word, door.facts.rebuilt, door.facts.deliveries) == ("open", 0, 0)


@pytest.mark.parametrize("break_it", [go_deaf, close_underneath])
async def test_a_deaf_door_is_opened_anew_on_its_port_and_open_connections_stay(break_it: Any) -> None:
    async with opened(FakeStore(), **QUICK) as door, wire(door) as line:
        await line.send(request(HOOK, alert("a-1")))
        assert (await line.response()).status == 200
        port = door.facts.port
        break_it(door)
        await until(door, lambda facts: facts.rebuilt == 1 and facts.word == "open")
        assert (door.facts.reason, door.facts.port) == ("", port)
        assert (await post(door, alert("a-2"))).status == 200
        await line.send(request(HOOK, alert("a-3")))
        assert (await line.response()).status == 200


async def test_a_port_that_another_took_is_told_and_taken_back_once_free() -> None:
    async with opened(FakeStore(), **QUICK) as door:
        port = door.facts.port
        assert port is not None
        close_underneath(door)
        other = await asyncio.start_server(_answer_200, "127.0.0.1", port)
        # It answers 200 to whatever comes, but it is not us.
        await until(door, lambda facts: "taken by another program" in facts.reason)
        assert (door.facts.word, door.facts.rebuilt) == ("deaf", 0)
        other.close()
        await until(door, lambda facts: facts.rebuilt == 1)
        await until(door, lambda facts: facts.word == "open")
        assert (await post(door, alert())).status == 200


async def _answer_200(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}')
    writer.close()
    await writer.wait_closed()


async def test_one_unheard_knock_rebuilds_nothing() -> None:
    answers = iter([False, True, False, None, False])
    async with opened(FakeStore()) as door:

        async def knock(host: str, port: int) -> bool | None:
            return next(answers)

        door._probe.knock = knock  # type: ignore[method-assign]
        words = []
        for _ in range(4):
            await door._look()
            words.append(door.facts.word)
        # Unheard, heard, unheard, nothing known: never two in a row that count.
        assert words == ["open"] * 4
        assert door.facts.rebuilt == 0


async def test_a_loop_that_stood_still_proves_nothing() -> None:
    class Jumping(ManualClock):
        def boot(self) -> int:
            self.advance(SECOND)
            return super().boot()

    clock: Clock = Jumping()
    probe = Probe(clock, patience=0.01)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        assert await probe.knock("127.0.0.1", port) is None
        assert await Probe(ManualClock(), patience=0.01).knock("127.0.0.1", port) is False


async def test_only_our_own_knock_is_heard() -> None:
    async with opened(FakeStore()) as door:
        for word in ("", "guess", "é"):
            data = request("/healthz", method="GET", headers=(f"{HEADER}: {word}",))
            assert (await ask(door, data)).status == 200
            assert not door._probe._heard


async def test_a_port_that_is_taken_is_refused_with_a_sentence() -> None:
    async with opened(FakeStore()) as door:
        with pytest.raises(DoorCannotOpen, match=r"port \d+ is taken by another program"):
            async with opened(FakeStore(), port=door.facts.port):
                pass
        assert (await post(door, alert())).status == 200


async def test_a_door_that_was_stopped_watches_no_more() -> None:
    async with opened(FakeStore(), **QUICK) as door:
        await until(door, lambda facts: facts.last_probe is not None)
        await door.stop()
        assert door.facts.word == "closed"
        await door.stop()
