"""A child is ended with all that it started, dies with us, and its orphan is found by more than a pid."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.tunnel import CannotStart, Launch, TunnelMemory
from app.tunnel.child import Child, environment
from app.tunnel.leash import on_leash
from app.tunnel.orphan import Mark, _from_ps, end_orphan, mark_of
from tests.tunnel.kit import alive, set_mood, stand_in, starts, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="groups and signals of Unix")


def pid_in(path: Path) -> int:
    text = path.read_text() if path.exists() else ""
    return int(text or 0)


PARENT = """
import subprocess
grandchild = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
note("grandchild", str(grandchild.pid))
wait()
"""


async def test_it_ends_with_all_that_it_started(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "parent", PARENT)
    launch = Launch((str(program),))
    child = Child(launch, launch.lines())
    pid = await child.start()
    await until(lambda: pid_in(tmp_path / "grandchild") > 0)
    grandchild = pid_in(tmp_path / "grandchild")
    await child.stop()
    assert child.ended.result() == -signal.SIGTERM
    await until(lambda: not alive(pid) and not alive(grandchild))


async def test_what_it_started_goes_too_when_it_dies_by_itself(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "parent", PARENT)
    launch = Launch((str(program),))
    child = Child(launch, launch.lines())
    await child.start()
    await until(lambda: pid_in(tmp_path / "grandchild") > 0)
    set_mood(tmp_path, "die")
    assert await child.ended == 3
    await until(lambda: not alive(pid_in(tmp_path / "grandchild")))


async def test_one_that_ignores_the_request_is_ended(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "deaf", "note('ready', '1'); wait()", "deaf")
    launch = Launch((str(program),))
    child = Child(launch, launch.lines())
    await child.start()
    await until((tmp_path / "ready").exists)
    await child.stop()
    assert child.ended.result() == -signal.SIGKILL


async def test_a_program_that_cannot_be_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tunnel.child.on_leash", list)
    launch = Launch((str(tmp_path / "nothing"),))
    child = Child(launch, launch.lines())
    with pytest.raises(CannotStart, match="nothing cannot be run"):
        await child.start()
    await child.stop()


APP = """
import asyncio, sys
from pathlib import Path
from app.tunnel import Launch
from app.tunnel import child as room

async def main():
    if sys.argv[2] == "no-kernel":
        room.on_leash = list
    if sys.argv[2] == "kernel-alone":
        from app.tunnel import leash
        leash._WATCH = "read -r _"
    launch = Launch((sys.argv[1],))
    child = room.Child(launch, launch.lines())
    print(await child.start(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@contextlib.contextmanager
def app_with(program: Path, how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    app = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(APP), str(program), how],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert app.stdout is not None
    try:
        yield app, int(app.stdout.readline())
    finally:
        app.kill()
        app.wait()
        app.stdout.close()


@pytest.mark.parametrize("how", ["as-it-is", "no-kernel"])
async def test_it_dies_with_a_program_that_is_killed(tmp_path: Path, how: str) -> None:
    """Without the kernel's signal, as on macOS, the shell at the pipe does it, for the whole group."""
    program = stand_in(tmp_path, "parent", PARENT, "deaf")
    with app_with(program, how) as (app, pid):
        await until(lambda: pid_in(tmp_path / "grandchild") > 0)
        assert alive(pid)
        app.kill()
        await until(lambda: not alive(pid) and not alive(pid_in(tmp_path / "grandchild")))


@pytest.mark.skipif(len(on_leash(())) == 0, reason="no setpriv with --pdeathsig on this system")
async def test_the_kernels_own_signal_is_enough(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "deaf", "note('ready', '1'); wait()", "deaf")
    with app_with(program, "kernel-alone") as (app, pid):
        await until((tmp_path / "ready").exists)
        app.kill()
        await until(lambda: not alive(pid))


def test_linux_has_the_kernels_own_signal_where_setpriv_is() -> None:
    argv = on_leash(["program", "x"])
    assert argv[-2:] == ["program", "x"]
    if sys.platform.startswith("linux") and Path("/usr/bin/setpriv").exists():
        assert argv[1:4] == ["--pdeathsig", "KILL", "--"]


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_an_orphan_is_ended_if_pid_and_start_time_are_its_own(tmp_path: Path) -> None:
    memory = TunnelMemory(tmp_path)
    with sleeper() as process:
        mark = mark_of(process.pid)
        assert mark is not None
        memory.keep_child(mark)
        assert memory.end_orphan()
        assert process.wait(5) == -signal.SIGKILL
    assert not memory.end_orphan()


def test_another_process_with_that_pid_is_left_alone(tmp_path: Path) -> None:
    memory = TunnelMemory(tmp_path)
    with sleeper() as process:
        memory.keep_child(Mark(process.pid, "an earlier boot 123"))
        assert not memory.end_orphan()
        assert process.poll() is None


@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps on this system")
def test_where_there_is_no_proc_ps_says_when_a_process_began() -> None:
    with sleeper() as process:
        began = _from_ps(process.pid)
        assert began is not None
        assert re.search(r"\d\d:\d\d:\d\d \d{4}$", began)
        assert _from_ps(process.pid) == began
        process.kill()
        process.wait()
        assert _from_ps(process.pid) is None


@pytest.mark.parametrize("pid", [0, 1, os.getpid()])
def test_no_mark_leads_to_ourselves_or_to_the_system(pid: int) -> None:
    mark = mark_of(pid) or Mark(pid, "")
    assert not end_orphan(mark)


def test_a_damaged_file_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    memory = TunnelMemory(tmp_path)
    memory.put("child.json", "{")
    memory.put("copied.json", '{"address": 1}')
    assert not memory.end_orphan()
    assert memory.copied() is None


async def test_the_mark_of_a_running_child_is_kept(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "quiet", "wait()")
    launch = Launch((str(program),), environment={"GIVEN": "yes"})
    memory = TunnelMemory(tmp_path)
    child = Child(launch, launch.lines(), memory.keep_child)
    pid = await child.start()
    assert json.loads((tmp_path / "tunnel" / "child.json").read_text())["pid"] == pid
    await until(lambda: bool(starts(tmp_path)))
    assert json.loads(starts(tmp_path)[0])["env"]["GIVEN"] == "yes"
    await child.stop()


def test_a_frozen_program_gives_its_library_path_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    ours = {"LD_LIBRARY_PATH": "/bundle", "LD_LIBRARY_PATH_ORIG": "/usr/own", "DYLD_LIBRARY_PATH": "/bundle"}
    assert environment(ours, Launch(("x",))) == {"LD_LIBRARY_PATH": "/usr/own"}
