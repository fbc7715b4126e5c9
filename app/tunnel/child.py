"""One run of a tunnel's program: started, drained for ever, ended with all that it started.

Two threads of its own do what blocks; the loop only awaits. The one that starts the program lives as long as
that, since on Linux the parent-death signal goes by the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping

import structlog

from app.tunnel.base import CannotStart, Launch
from app.tunnel.leash import CREATION, Leash, on_leash
from app.tunnel.lines import Lines
from app.tunnel.orphan import Mark, mark_of

log = structlog.get_logger(__name__)

CHUNK = 65_536
BREATH = 0.005
"""Seconds between two full chunks: a program that floods is read slower, never left unread."""
SOFT = 1.0
"""Seconds that a program has to end when asked."""
HARD = 2.0


class Child:
    """`keep` is told the mark of the process as soon as there is one; on the starting thread."""

    def __init__(self, launch: Launch, lines: Lines, keep: Callable[[Mark], None] = lambda _: None) -> None:
        self.lines = lines
        self._launch = launch
        self._keep = keep
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[int] = self._loop.create_future()
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """The exit code, negative for a signal."""
        self._leash: Leash | None = None

    async def start(self) -> int:
        """The pid. Raises CannotStart."""
        threading.Thread(target=self._live, name="tunnel", daemon=True).start()
        try:
            return await asyncio.shield(self._started)
        except OSError as error:
            program = self._launch.argv[0]
            raise CannotStart(f"{program} cannot be run ({error.strerror or error})") from error

    async def stop(self) -> None:
        """Asks it to end, then ends it; nothing of it is left where the system can do that."""
        with contextlib.suppress(OSError):
            await asyncio.shield(self._started)
        for hard, seconds in ((False, SOFT), (True, HARD)):
            if self.ended.done():
                return
            if self._leash is not None:
                self._leash.end(hard=hard)
            await asyncio.wait({self.ended}, timeout=seconds)
        if not self.ended.done():
            log.error("the tunnel's program does not end")

    # ---------------------------------------------------------------------------------------- on its thread

    def _live(self) -> None:
        try:
            process = subprocess.Popen(
                on_leash(self._launch.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                env=environment(os.environ, self._launch),
                **CREATION,
            )
        except OSError as error:
            self._tell(self._started, error)
            self._tell(self.ended, -1)
            return
        leash = self._leash = Leash(process)
        mark = mark_of(process.pid)
        if mark is not None:
            self._keep(mark)
        draining = threading.Thread(target=self._drain, args=(process,), name="tunnel output", daemon=True)
        draining.start()
        self._tell(self._started, process.pid)
        _await_end(process)
        leash.release()
        code = process.wait()
        draining.join(HARD)
        self._tell(self.ended, code)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        pipe = process.stdout
        assert pipe is not None
        with pipe:
            while data := pipe.read(CHUNK):
                self.lines.feed(data)
                if len(data) == CHUNK:
                    time.sleep(BREATH)
        self.lines.close()

    def _tell(self, future: asyncio.Future[int], outcome: int | OSError) -> None:
        def tell() -> None:
            if future.done():
                return
            if isinstance(outcome, OSError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        # A loop that was closed meanwhile waits for nothing any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Returns when the program is over; where the system can, while its number is still its own."""
    if sys.platform != "win32" and hasattr(os, "waitid"):
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def environment(ours: Mapping[str, str], launch: Launch) -> dict[str, str]:
    """Our environment for a stranger's program: no secret of ours, and no library path of a frozen bundle."""
    drop = ("ONEFILL_", "_PYI_", *launch.drop)
    kept = {name: value for name, value in ours.items() if not name.startswith(drop)}
    if getattr(sys, "frozen", False):
        # PyInstaller points these at its own libraries and keeps the old value beside.
        for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
            original = kept.pop(f"{name}_ORIG", None)
            kept.pop(name, None)
            if original is not None:
                kept[name] = original
    return {**kept, **launch.environment}
