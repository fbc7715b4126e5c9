"""The door on the Qt loop, whose timers fire early and linger: the same answers, the same bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND, ManualClock, SystemClock
from tests.listener.kit import HOOK, FakeStore, alert, ledger, opened, post, request, wire
from tests.listener.test_probe import QUICK, close_underneath, go_deaf, until

pytestmark = pytest.mark.qasync

SHORT = SECOND // 20


async def test_deliveries_to_a_ledger(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ledger(tmp_path, clock) as book, opened(book.store, clock) as door:
        responses = await asyncio.gather(*(post(door, alert(f"signal-{n // 2}")) for n in range(40)))
        words = [response.json["status"] for response in responses]
        assert (words.count("accepted"), words.count("duplicate")) == (20, 20)
        assert await book.rows("SELECT count(*) FROM orders") == [(20,)]


async def test_the_bounds_hold() -> None:
    clock = SystemClock()
    store = FakeStore(hold=asyncio.Event())
    assert store.hold is not None
    async with opened(store, clock, deadline=SHORT, body_timeout=SHORT // 2) as door:
        began = clock.boot()
        assert (await post(door, alert())).reason == "late"
        assert clock.boot() - began >= SHORT
        async with wire(door) as line:
            began = clock.boot()
            await line.send(request(HOOK, headers=("Content-Length: 9",), length=False))
            assert (await line.response()).reason == "body_timeout"
            assert clock.boot() - began >= SHORT // 2
        store.hold.set()


@pytest.mark.parametrize("break_it", [go_deaf, close_underneath])
async def test_a_deaf_door_is_opened_anew(break_it: Any) -> None:
    async with opened(FakeStore(), **QUICK) as door:
        await until(door, lambda facts: facts.last_probe is not None)
        break_it(door)
        await until(door, lambda facts: facts.rebuilt >= 1 and facts.word == "open")
        assert (await post(door, alert())).status == 200
