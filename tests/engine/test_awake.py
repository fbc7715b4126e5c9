"""A computer is kept awake while it is wanted, by stand-ins for what each system has; it stops nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from app.clock import SECOND, ManualClock
from app.engine.awake import AGAIN, Awake, Hold, NothingHolds, ProgramHolds, WindowsHolds, hold_of
from app.tasks import Tasks
from tests.engine.kit import running, word
from tests.engine.kit import until as engine_until
from tests.tunnel.kit import alive, until

unix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a script of Unix")


class World:
    def __init__(self) -> None:
        self.wanted = True
        self.clock = ManualClock()
        self.changes = 0

    def changed(self) -> None:
        self.changes += 1


@contextlib.asynccontextmanager
async def kept(world: World, make: Callable[[], Hold], *, is_on: bool = True) -> AsyncIterator[Awake]:
    made = Awake(is_on, lambda: world.wanted, world.clock, world.changed, make, beat=0.01)
    tasks = Tasks()
    made.start(tasks)
    try:
        yield made
    finally:
        await made.stop()
        await tasks.stop()


def helper(folder: Path, body: str) -> tuple[str, ...]:
    """A stand-in for systemd-inhibit: notes what it was asked, then does what `body` says."""
    folder.mkdir(exist_ok=True)
    program = folder / "systemd-inhibit"
    program.write_text(f'#!/bin/sh\necho "$@" >>"{folder}/asked"\necho $$ >"{folder}/pid"\n{body}\n')
    program.chmod(0o755)
    return (str(program), "--what=idle:sleep", "sleep", "infinity")


def pid_of(folder: Path) -> int:
    file = folder / "pid"
    text = file.read_text().strip() if file.exists() else ""
    return int(text or 0)


@unix
async def test_a_helper_holds_while_it_is_wanted_and_goes_afterwards(tmp_path: Path) -> None:
    world, argv = World(), helper(tmp_path, "exec sleep 600")
    async with kept(world, lambda: ProgramHolds(argv)) as awake:
        await until(lambda: awake.is_held)
        assert [(fact.name, fact.word, fact.level) for fact in awake.facts()] == [("awake", "held", "ok")]
        pid = pid_of(tmp_path)
        assert alive(pid)
        world.wanted = False
        await until(lambda: not alive(pid))
        assert awake.facts() == []
        world.wanted = True
        await until(lambda: awake.is_held)
        again = pid_of(tmp_path)
        assert again != pid
    assert not alive(again), "a stop leaves nothing"


@unix
async def test_a_helper_that_is_refused_is_a_fact_and_is_tried_again(tmp_path: Path) -> None:
    world, argv = World(), helper(tmp_path, "echo 'Failed to inhibit: Access denied' >&2; exit 1")
    async with kept(world, lambda: ProgramHolds(argv)) as awake:
        await until(awake.facts)
        (fact,) = awake.facts()
        assert (fact.word, fact.level) == ("cannot", "warning")
        assert "Access denied" in fact.reason
        helper(tmp_path, "exec sleep 600")
        await asyncio.sleep(0.1)
        assert not awake.is_held, "not in a loop"
        world.clock.advance(AGAIN + SECOND)
        await until(lambda: awake.is_held)
        assert awake.facts()[0].word == "held"


@unix
async def test_a_helper_that_dies_is_noticed(tmp_path: Path) -> None:
    world, argv = World(), helper(tmp_path, "exec sleep 600")
    async with kept(world, lambda: ProgramHolds(argv)) as awake:
        await until(lambda: awake.is_held)
        os.kill(pid_of(tmp_path), signal.SIGKILL)
        await until(lambda: awake.why_not)
        assert "has ended" in awake.facts()[0].reason


async def test_where_there_is_nothing_it_says_so_and_what_to_do() -> None:
    world = World()
    async with kept(world, lambda: hold_of("linux", which=lambda _name: None)) as awake:
        await until(awake.facts)
        assert "systemd-inhibit" in awake.facts()[0].reason
        assert "settings" in awake.facts()[0].reason
    async with kept(World(), lambda: NothingHolds("no")) as awake:
        await until(lambda: awake.why_not)


async def test_nobody_asked_for_it_so_nothing_is_started() -> None:
    def never() -> Hold:
        raise AssertionError("nothing may be started")

    async with kept(World(), never, is_on=False) as awake:
        await asyncio.sleep(0.05)
        assert awake.facts() == []


async def test_windows_is_told_and_told_back() -> None:
    said: list[int] = []

    def set_state(flags: int) -> int:
        said.append(flags)
        return 1

    world = World()
    async with kept(world, lambda: hold_of("win32", windows=set_state)) as awake:
        await until(lambda: awake.is_held)
    assert said == [0x8000_0001, 0x8000_0000]
    async with kept(world, lambda: WindowsHolds(lambda _flags: 0)) as awake:
        await until(lambda: awake.why_not)
        assert "Windows" in awake.why_not


def test_what_is_run_where() -> None:
    linux = hold_of("linux", which=lambda name: f"/usr/bin/{name}")
    assert isinstance(linux, ProgramHolds)
    assert linux._launch.argv[:2] == ("/usr/bin/systemd-inhibit", "--what=idle:sleep")
    assert linux._launch.argv[-2:] == ("/usr/bin/sleep", "infinity")
    mac = hold_of("darwin", which=lambda name: f"/usr/bin/{name}", pid=77)
    assert isinstance(mac, ProgramHolds)
    assert mac._launch.argv == ("/usr/bin/caffeinate", "-i", "-w", "77"), "it ends with us by itself too"


APP = """
import asyncio, sys
from app.engine.awake import ProgramHolds

async def main():
    hold = ProgramHolds(tuple(sys.argv[1:]))
    await hold.take()
    print("held", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@unix
async def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    argv = helper(tmp_path, "exec sleep 600")
    app = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", textwrap.dedent(APP), *argv],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    try:
        assert app.stdout is not None
        assert await asyncio.to_thread(app.stdout.readline) == b"held\n"
        pid = pid_of(tmp_path)
        assert alive(pid)
        app.kill()
        await until(lambda: not alive(pid))
    finally:
        app.kill()
        await asyncio.to_thread(app.communicate)


async def test_an_engine_holds_it_while_trading_is_not_halted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []

    def set_state(flags: int) -> int:
        said.append(flags)
        return 1

    monkeypatch.setattr("app.engine.awake.hold_of", lambda _system: WindowsHolds(set_state))
    monkeypatch.setattr("app.engine.manners.Awake", partial(Awake, beat=0.01))
    (tmp_path / "config.toml").write_text("[system]\nkeep_awake = true\n")
    async with running(tmp_path) as engine:
        await engine_until(engine, lambda: word(engine.status(), "awake") == "held")
        await engine.command("halt", {"exits_only": True}, actor="test", request_id="1")
        assert word(engine.status(), "awake") == "held", "exits are still to be placed"
        await engine.command("halt", {}, actor="test", request_id="2")
        await engine_until(engine, lambda: word(engine.status(), "awake") == "")
        assert len(said) == 2
        await engine.command("resume", {}, actor="test", request_id="3")
        await engine_until(engine, lambda: word(engine.status(), "awake") == "held")
    assert said[-1] == WindowsHolds.CONTINUOUS
