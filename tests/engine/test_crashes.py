"""Errors that nobody handled: logged with their story, counted, and never the end of what reports them."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.clock import ManualClock
from app.engine.crashes import (
    EARLIER_NAME,
    FILE_NAME,
    MOST_KINDS,
    Crashes,
    current,
    on_loop_error,
    watching,
)
from app.logs import FILE_NAME as LOG_NAME
from app.logs import start_logging
from app.tasks import Tasks
from tests.crash.program import ROOT, Program, until

TOKEN = "T" * 43


@contextmanager
def logged(home: Path, crashes: Crashes) -> Iterator[list[dict[str, Any]]]:
    """What the log has, filled at the end."""
    lines: list[dict[str, Any]] = []
    stop = start_logging(home)
    # The test runner's own hooks stay in place around it.
    try:
        with watching(crashes=crashes):
            yield lines
    finally:
        stop()
        path = home / LOG_NAME
        lines += [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def broken(what: str = "gone wrong") -> None:
    raise ValueError(what)


def test_an_error_of_a_slot_is_logged_with_its_story_and_kept(tmp_path: Path) -> None:
    crashes = Crashes(ManualClock(1_000_000))
    with logged(tmp_path, crashes) as lines:
        try:
            broken(f"at /hook/tv/{TOKEN}")
        except ValueError:
            # As PySide reports what a slot raises.
            sys.excepthook(*sys.exc_info())
    (crash,) = crashes.kinds
    assert (crash.where, crash.count, crash.first_at) == ("the program", 1, 1_000_000)
    assert crash.what == "ValueError: at /hook/tv/***"
    assert "in broken" in crash.story
    (line,) = lines
    assert (line["event"], line["level"]) == ("unhandled error", "critical")
    assert "in broken" in line["exception"]
    assert TOKEN not in json.dumps(lines) + crash.story


def test_an_error_of_a_thread(tmp_path: Path) -> None:
    crashes = Crashes()
    with logged(tmp_path, crashes) as lines:
        thread = threading.Thread(target=broken, name="reader")
        thread.start()
        thread.join()
    assert [crash.where for crash in crashes.kinds] == ["thread reader"]
    assert [(line["event"], line["thread"]) for line in lines] == [("unhandled error in a thread", "reader")]


def test_an_error_of_a_finaliser_keeps_nothing_alive(tmp_path: Path) -> None:
    ended: list[str] = []

    class Held:
        def __del__(self) -> None:
            ended.append("held")

    class Broken:
        def __init__(self) -> None:
            self.held = Held()

        def __del__(self) -> None:
            broken("in the end")

    crashes = Crashes()
    with logged(tmp_path, crashes) as lines:
        Broken()
        gc.collect()
        assert ended == ["held"]
    assert [(crash.where, crash.what) for crash in crashes.kinds] == [
        ("a finaliser", "ValueError: in the end")
    ]
    assert "in the end" in lines[0]["exception"]


@pytest.mark.blocking_allowed(reason="pytest notes log lines as they come")
async def test_an_error_of_a_task_whoever_owns_it() -> None:
    async def work() -> None:
        broken("in a task")

    crashes, tasks = Crashes(), Tasks()
    with watching(crashes=crashes), watching():
        await asyncio.wait({tasks.start("window: reads", work())})
        await asyncio.sleep(0)
    assert [(crash.where, crash.count) for crash in crashes.kinds] == [("task window: reads", 1)]
    await asyncio.wait({tasks.start("window: reads", work())})
    await asyncio.sleep(0)
    assert crashes.count == 1


@pytest.mark.blocking_allowed(reason="pytest notes log lines as they come")
async def test_an_error_that_only_the_loop_saw_and_a_sign_that_is_no_error() -> None:
    crashes = Crashes()
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    with watching(crashes=crashes):
        loop.set_exception_handler(on_loop_error)
        try:
            loop.call_soon(broken)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            loop.call_exception_handler({"message": "Task was destroyed but it is pending!"})
        finally:
            loop.set_exception_handler(before)
    assert [(crash.where, crash.what) for crash in crashes.kinds] == [("the loop", "ValueError: gone wrong")]


def test_a_repeated_error_only_counts_up_and_the_log_has_it_rarely(tmp_path: Path) -> None:
    crashes = Crashes()
    heard: list[int] = []
    crashes.listen(lambda: heard.append(crashes.count))
    with logged(tmp_path, crashes) as lines:
        for _ in range(120):
            try:
                broken()
            except ValueError:
                sys.excepthook(*sys.exc_info())
    assert [crash.count for crash in crashes.kinds] == [120]
    assert heard == list(range(1, 121))
    assert len(lines) == 3  # the 1st, the 10th and the 100th


def test_many_different_errors_are_bounded() -> None:
    crashes = Crashes()
    for number in range(MOST_KINDS + 20):
        crashes.note("the program", ValueError(str(number)))
    assert len(crashes.kinds) == MOST_KINDS
    assert crashes.count == MOST_KINDS + 20


def test_the_story_tells_what_it_came_from_and_an_error_that_cannot_be_said_is_told_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    crashes = Crashes()
    try:
        try:
            broken()
        except ValueError as error:
            raise Mute from error
    except Mute as error:
        crashes.note("the program", error)
    (crash,) = crashes.kinds
    assert crash.what == "Mute: (it cannot be said)"
    assert "which came after" in crash.story
    assert "ValueError: gone wrong" in crash.story


def test_what_was_there_before_comes_back() -> None:
    before = (sys.excepthook, threading.excepthook, sys.unraisablehook, current())
    with watching() as outer:
        assert current() is outer
        with watching() as inner:
            assert inner is outer
        assert current() is outer
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook, current()) == before


def test_an_error_that_ends_the_program_is_logged_and_goes_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gone wrong"), logged(tmp_path, Crashes()) as lines:
        broken()
    assert [line["event"] for line in lines] == ["the program ends by an error"]


# ------------------------------------------------------------------------------------- as a program

CRASHING = """
import faulthandler, sys
from pathlib import Path
from app.engine.crashes import watching
from app.logs import start_logging

home = Path(sys.argv[1])
stop = start_logging(home)
with watching(home) as crashes:
    print([crash.what for crash in crashes.kinds], flush=True)
    if sys.argv[2] == "die":
        faulthandler._sigsegv()
stop()
"""


def run_crashing(home: Path, how: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    command = [sys.executable, "-c", CRASHING, str(home), how]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=30)


def test_a_crash_of_the_interpreter_is_written_down_and_told_once_at_the_next_start(tmp_path: Path) -> None:
    died = run_crashing(tmp_path, "die")
    assert died.returncode != 0
    assert died.stderr == ""
    assert "Segmentation fault" in (tmp_path / FILE_NAME).read_text()
    told = run_crashing(tmp_path, "live")
    assert "ended by a crash: Fatal Python error: Segmentation fault" in told.stdout
    assert "an earlier run crashed" in (tmp_path / LOG_NAME).read_text()
    assert "Segmentation fault" in (tmp_path / EARLIER_NAME).read_text()
    assert (tmp_path / FILE_NAME).read_text() == ""


WITHOUT_A_CONSOLE = """
import os, sys
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = None
from app.cli import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="stopped by a signal")
def test_without_a_console_the_program_runs_and_its_log_has_what_stderr_cannot(tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-c", WITHOUT_A_CONSOLE, "--home", str(home), "serve", "--port", "0"]
    with Program(home) as program:
        program.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        until((home / "control.sock").exists, "the program")
        program.process.terminate()
        assert program.process.wait(20) == 0
    # And what cannot start says so in its exit code, without falling over what it cannot print.
    (home / "config.toml").write_text("nonsense = ")
    assert subprocess.run(command, cwd=ROOT, timeout=30).returncode == 1


def test_the_log_does_without_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    stop = start_logging(tmp_path)
    logging.getLogger("somewhere").error("seen all the same")
    stop()
    assert "seen all the same" in (tmp_path / LOG_NAME).read_text()


@pytest.mark.blocking_allowed(reason="the whole program, with its log, in this process")
def test_serve_watches_its_loop_and_an_error_that_ends_it_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import app.engine
    from app.cli.run import run_without_window

    class Broken:
        """An engine whose start fails in a way that nobody foresaw, after a callback did."""

        def __init__(self, home: Path, port: int | None) -> None:
            pass

        def request_stop(self, why: str) -> None:
            pass

        async def start(self) -> None:
            asyncio.get_running_loop().call_soon(broken, "in a callback")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (watched := current()) is not None
            assert [crash.where for crash in watched.kinds] == ["the loop"]
            broken("at the start")

    monkeypatch.setattr(app.engine, "Engine", Broken)
    with pytest.raises(ValueError, match="at the start"):
        run_without_window(tmp_path / "home", 0)
    lines = [json.loads(line) for line in (tmp_path / "home" / LOG_NAME).read_text().splitlines()]
    assert [(line["event"], "in broken" in line["exception"]) for line in lines] == [
        ("error on the loop", True),
        ("the program ends by an error", True),
    ]


def test_a_forced_stop_comes_also_where_there_is_no_stderr(tmp_path: Path) -> None:
    """Frozen without a console there is no descriptor 2: writing to it fails, and must not keep the end."""
    program = (
        "import os, time; from app.cli.run import force_after; os.close(2); force_after(0); time.sleep(20)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=40)
    assert done.returncode == 3
