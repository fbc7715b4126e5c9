"""When it knocks, what it says and when it waits: on an address of one's own, with a clock of the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.clock import SECOND, ManualClock
from app.tunnel import Launch, Look, Pace
from app.tunnel.base import Ending
from app.tunnel.lines import Lines
from app.tunnel.own import Own
from app.tunnel.pace import Waits
from app.tunnel.probe import SLOW
from tests.tunnel.kit import HeardDoor, Watched, alive, heard_door, stand_in, starts, until, watched

REAL = Pace(tick=0.005)
"""As in the program, on a clock that the test moves."""


def own(door: HeardDoor) -> Own:
    return Own(f"http://127.0.0.1:{door.port}")


async def beats(number: int = 4) -> None:
    """Time for the supervisor to look around some times: what does not happen then, does not happen."""
    for _ in range(number):
        await asyncio.sleep(0.006)


async def pass_time(clock: ManualClock, seconds: int) -> None:
    """In steps that are no sleep."""
    while seconds > 0:
        clock.advance(min(20, seconds) * SECOND)
        seconds -= 20
        await beats()


async def settled(tunnel: Watched, clock: ManualClock) -> None:
    await beats()
    clock.advance(SECOND)
    await tunnel.until_word("up")


async def test_it_knocks_every_five_minutes_and_not_more_often(tmp_path: Path) -> None:
    clock = ManualClock()
    async with heard_door(clock) as door, watched(own(door), tmp_path, door, clock, REAL) as tunnel:
        await settled(tunnel, clock)
        assert door.knocks == 1
        await pass_time(clock, 290)
        assert door.knocks == 1
        await pass_time(clock, 20)
        await until(lambda: door.knocks == 2)
        assert tunnel.facts.knocked_at is not None


async def test_after_a_sleep_it_knocks_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with heard_door(clock) as door, watched(own(door), tmp_path, door, clock, REAL) as tunnel:
        await settled(tunnel, clock)
        # Long before the next one is due.
        clock.advance(40 * SECOND)
        await beats()
        clock.advance(2 * SECOND)
        await until(lambda: door.knocks == 2)
        await tunnel.until_word("up")


async def test_a_first_knock_that_fails_is_tried_some_times_and_then_every_five_minutes(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with heard_door(clock) as door, watched(own(door), tmp_path, door, clock, REAL) as tunnel:
        door.status = 502
        for tries in range(1, 5):
            await beats()
            clock.advance(20 * SECOND)
            await until(lambda tries=tries: door.knocks == tries)  # type: ignore[misc]
        facts = await tunnel.until_word("degraded")
        assert facts.reached is False
        await pass_time(clock, 280)
        assert door.knocks == 4
        door.status = 200
        await pass_time(clock, 40)
        assert (await tunnel.until_word("up")).reached is True


async def test_an_answer_that_is_slower_than_a_sender_waits_is_said(tmp_path: Path) -> None:
    clock = ManualClock()
    async with heard_door(clock) as door, watched(own(door), tmp_path, door, clock, REAL) as tunnel:
        door.hold.clear()
        await beats()
        clock.advance(SECOND)
        await until(lambda: door.knocks == 1)
        clock.advance(SLOW + SECOND)
        door.hold.set()
        facts = await tunnel.until_word("degraded")
        assert "TradingView gives up after 3 s" in facts.reason
        assert facts.reached is True


async def test_what_another_process_copied_is_seen(tmp_path: Path) -> None:
    clock = ManualClock()
    async with heard_door(clock) as door, watched(own(door), tmp_path, door, clock, REAL) as tunnel:
        await settled(tunnel, clock)
        tunnel.supervisor.note_copied()
        copied = tmp_path / "tunnel" / "copied.json"
        await until(copied.exists)
        await asyncio.to_thread(
            copied.write_text, '{"address": "https://a.example.com", "at": 9999999999999999}'
        )
        await pass_time(clock, 20)
        facts = await tunnel.until_word("address changed")
        assert facts.copied == "https://a.example.com"


class Running:
    """A kind that is its program and nothing else."""

    name = "ssh"
    keeps_address = True
    patience = 60 * SECOND
    first_wait = SECOND

    def __init__(self, program: Path, address: str) -> None:
        self._program = program
        self._address = address

    async def prepare(self, port: int) -> Launch:
        return Launch((str(self._program),))

    async def look(self, lines: Lines) -> Look:
        return Look(True, self._address)

    def ending(self, code: int, lines: Lines) -> Ending:
        return Ending(f"it ended ({code})")

    async def clean(self) -> None: ...


async def test_one_that_ends_at_once_each_time_is_started_ever_more_seldom(tmp_path: Path) -> None:
    clock = ManualClock()
    program = stand_in(tmp_path / "bin", "program", "sys.exit(4)")
    async with heard_door(clock) as door:
        kind = Running(program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door, clock, REAL) as tunnel:
            for number, wait in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
                await until(lambda n=number: len(starts(tmp_path / "bin")) == n)  # type: ignore[misc]
                await until(lambda w=wait: f"next try in {w} s" in tunnel.facts.reason)  # type: ignore[misc]
                clock.advance(wait * SECOND - 1)
                await beats()
                assert len(starts(tmp_path / "bin")) == number
                clock.advance(1)


async def test_on_the_loop_of_the_window_it_is_the_same(qapp: QApplication, tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "program", "wait()")
    async with heard_door() as door:
        kind = Running(program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door) as tunnel:
            await tunnel.until_word("up")
            pid = tunnel.memory.folder.joinpath("child.json")
            assert pid.exists()
        assert not pid.exists()


async def test_stopped_while_it_starts_nothing_is_left(tmp_path: Path) -> None:
    """A stop that comes in the middle of a start waits for the start, and ends what it made."""
    program = stand_in(tmp_path / "bin", "program", "note('pid', str(os.getpid())); wait()")
    async with heard_door() as door:
        kind = Running(program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door) as tunnel:
            while tunnel.supervisor._child is None:  # noqa: ASYNC110
                await asyncio.sleep(0)
    pid = tmp_path / "bin" / "pid"
    assert not pid.exists() or not alive(int(pid.read_text() or 0))


def test_waits_grow_to_a_bound_and_those_that_a_service_asks_for_are_never_shorter() -> None:
    waits = Waits(Pace(), 2 * SECOND, jitter=lambda: 0.0)
    assert [waits.after(0) // SECOND for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    assert [waits.after(300 * SECOND) // SECOND for _ in range(5)] == [300, 600, 1200, 2400, 3600]
    waits.reset()
    assert waits.after(0) == 2 * SECOND


@pytest.mark.parametrize("luck", [0.0, 0.5, 0.999])
def test_jitter_only_makes_longer(luck: float) -> None:
    waits = Waits(Pace(), SECOND, jitter=lambda: luck)
    assert SECOND <= waits.after(0) <= 1.25 * SECOND
    assert 300 * SECOND <= waits.after(300 * SECOND) <= 375 * SECOND
