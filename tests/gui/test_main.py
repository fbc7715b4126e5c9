"""The whole program with its window, as a process of its own: every way to quit is a clean one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, contextlib, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.gui.main import run
from app.logs import start_logging

def window():
    return next(each for each in QApplication.topLevelWidgets() if each.windowTitle().endswith("Onefill"))

DO = {
    "nothing": lambda: None,
    "quit": QApplication.quit,
    "close": lambda: window().close(),
}

@contextlib.asynccontextmanager
async def beside(engine):
    print("open", flush=True)
    asyncio.get_running_loop().call_later(0.2, DO[sys.argv[2]])
    yield
    print("closed", flush=True)

home = Path(sys.argv[1])
stop_logging = start_logging(home)
code = run(home, 0, beside)
stop_logging()
sys.exit(code)
"""
BOUND = 50
"""Seconds until a child counts as hung; a stop itself has 5."""


@contextmanager
def started(home: Path, does: str = "nothing") -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(home), does],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def ended(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = child.communicate(timeout=BOUND)
    return child.returncode, out, err


def wait_open(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"


@pytest.mark.parametrize("does", ["quit", "close"])
def test_every_way_to_quit_is_clean(tmp_path: Path, does: str) -> None:
    with started(tmp_path, does) as child:
        code, out, err = ended(child)
    assert (code, out) == (0, "open\nclosed\n"), err
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_clean_quit_and_the_home_is_free_again(tmp_path: Path, number: int) -> None:
    for _ in range(2):
        with started(tmp_path) as child:
            wait_open(child)
            child.send_signal(number)
            code, out, err = ended(child)
        assert (code, out) == (0, "closed\n"), err
        assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_second_window_on_the_same_home_is_refused_in_words(tmp_path: Path) -> None:
    with started(tmp_path) as first:
        wait_open(first)
        with started(tmp_path) as second:
            assert second.stderr is not None
            line = second.stderr.readline()
            assert line.startswith("onefill: ")
            # It shows the same in a window, which stays until it is read or the process is asked to go.
            assert second.poll() is None
            second.send_signal(signal.SIGTERM)
            code, out, _err = ended(second)
            assert (code, out) == (1, "")
        first.send_signal(signal.SIGTERM)
        assert ended(first)[0] == 0
