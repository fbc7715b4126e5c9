"""Many connections: a flood of silent ones shuts nobody out, and nobody at work is closed for another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from app.clock import SECOND, ManualClock
from app.listener.server import CONNECTIONS, Door
from tests.listener.kit import BODY_HOOK, HOOK, FakeStore, Wire, alert, ask, opened, post, request, wire

HEALTH = request("/healthz", method="GET")


@contextlib.asynccontextmanager
async def wires(door: Door, number: int) -> AsyncIterator[list[Wire]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(wire(door)) for _ in range(number)]


async def until(condition: Callable[[], bool]) -> None:
    """Until the loop has come so far."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - what the door counts is no event
            await asyncio.sleep(0)


async def settled(door: Door, number: int) -> None:
    """Until the door has seen all that was opened and closed so far."""
    await until(lambda: door.facts.connections == number)


@pytest.fixture
def many_files() -> Iterator[None]:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("this user may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_512_silent_connections_and_a_sender() -> None:
    assert CONNECTIONS >= 512
    store = FakeStore()
    async with opened(store) as door, wires(door, CONNECTIONS) as silent:
        await settled(door, CONNECTIONS)
        assert (await post(door, alert())).status == 200
        # Each of them still works but the oldest, which had to make room.
        await silent[-1].send(HEALTH)
        assert (await silent[-1].response()).status == 200
        assert await silent[0].is_closed()
        assert door.facts.connections <= CONNECTIONS
    assert len(store.claimed) == 1


@pytest.mark.usefixtures("many_files")
async def test_512_connections_that_all_deliver() -> None:
    store = FakeStore()
    async with opened(store) as door, wires(door, CONNECTIONS) as senders:
        for number, sender in enumerate(senders):
            await sender.send(request(HOOK, alert(f"signal-{number}")))
        statuses = {(await sender.response()).status for sender in senders}
        assert statuses == {200}
        assert door.facts.connections == CONNECTIONS
    assert len(store.claimed) == CONNECTIONS


async def test_the_one_that_was_idle_longest_makes_room() -> None:
    clock = ManualClock()
    async with (
        opened(FakeStore(), clock, max_connections=3) as door,
        wires(door, 3) as (first, second, third),
    ):
        await settled(door, 3)
        for used in (second, first, third):
            clock.advance(SECOND)
            await used.send(HEALTH)
            await used.response()
        async with wire(door) as fourth:
            await fourth.send(HEALTH)
            await fourth.response()
            assert await second.is_closed()
            for left in (first, third, fourth):
                await left.send(HEALTH)
                assert (await left.response()).status == 200


async def test_half_a_header_and_a_body_without_its_secret_are_idle() -> None:
    clock = ManualClock()
    async with opened(FakeStore(), clock, max_connections=2) as door, wires(door, 2) as (half, nobody):
        await half.send(b"POST /hook/tv/")
        await nobody.send(request(BODY_HOOK, headers=("Content-Length: 100",), length=False) + b"{")
        await settled(door, 2)
        async with wire(door) as one, wire(door) as other:
            for line in (one, other):
                await line.send(HEALTH)
                assert (await line.response()).status == 200
            assert await half.is_closed()
            assert await nobody.is_closed()


async def test_a_delivery_under_way_is_never_closed_for_another() -> None:
    store = FakeStore(hold=asyncio.Event())
    assert store.hold is not None
    async with opened(store, max_connections=1) as door, wire(door) as sender:
        await sender.send(request(HOOK, alert()))
        await ask(door, HEALTH)
        async with wire(door) as late, wire(door) as later:
            for line in (late, later):
                await line.send(HEALTH)
            assert (await later.response()).status == 200
            assert await late.is_closed()
        store.hold.set()
        assert (await sender.response()).status == 200


async def test_at_twice_the_cap_with_everybody_at_work_the_newest_is_turned_away() -> None:
    store = FakeStore(hold=asyncio.Event())
    assert store.hold is not None
    async with opened(store, max_connections=2) as door, contextlib.AsyncExitStack() as stack:
        senders = []
        for number in range(4):
            senders.append(await stack.enter_async_context(wire(door)))
            await senders[-1].send(request(HOOK, alert(f"signal-{number}")))
            await until(lambda number=number: door.facts.deliveries == number + 1)  # type: ignore[misc]
        async with wire(door) as newest:
            with contextlib.suppress(ConnectionResetError):
                assert await newest.is_closed()
        store.hold.set()
        assert [(await sender.response()).status for sender in senders] == [200] * 4


async def test_facts_count() -> None:
    async with opened(FakeStore()) as door:
        facts = door.facts
        assert (facts.word, facts.connections, facts.deliveries, facts.rebuilt) == ("open", 0, 0, 0)
        assert facts.port
        assert facts.last_probe is None
        await post(door, alert())
        await post(door, b"{")
        await post(door, alert(), "/hook/tv/wrong")
        assert door.facts.deliveries == 2
        await settled(door, 0)
    assert (door.facts.word, door.facts.connections) == ("closed", 0)
