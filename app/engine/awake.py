"""Keeps this computer from falling asleep by itself while trading is not halted, where a person wants that.

What it starts ends with the program, however that ends. Where it cannot, it says so; trading goes on.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from typing import Protocol

import structlog

from app.clock import SECOND, Clock
from app.engine.status import Fact
from app.tasks import Tasks
from app.tunnel import CannotStart, Launch
from app.tunnel.child import Child

log = structlog.get_logger(__name__)

BEAT = 1.0
AGAIN = 300 * SECOND
"""Microseconds until it is tried again, where it did not work."""
WHY = "Trading is active"


class CannotHold(Exception):
    """This computer cannot be kept awake. One line: why, and what to do."""


class Hold(Protocol):
    """One way to keep a computer awake."""

    async def take(self) -> None:
        """Raises CannotHold."""
        ...

    async def give_back(self) -> None: ...

    def lost(self) -> str:
        """Why it does not hold any more; empty while it does."""
        ...


class ProgramHolds:
    """A helper of the system that keeps it awake as long as it runs; it dies with this program."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._launch = Launch(argv)
        self._child: Child | None = None

    async def take(self) -> None:
        child = self._child = Child(self._launch, self._launch.lines())
        try:
            await child.start()
        except CannotStart as error:
            raise CannotHold(error.reason) from error
        # One that is refused says so and ends; one that holds does not end.
        await asyncio.wait({child.ended}, timeout=0.5)
        if child.ended.done():
            raise CannotHold(self._ended(child))

    async def give_back(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def lost(self) -> str:
        return self._ended(self._child) if self._child is not None and self._child.ended.done() else ""

    def _ended(self, child: Child) -> str:
        said = " ".join(child.lines.last(1))[:200]
        name = os.path.basename(self._launch.argv[0])
        return f"{name} has ended" + (f": {said}" if said else "")


class WindowsHolds:
    """`set_state` is SetThreadExecutionState: what it sets belongs to the thread, and ends with it."""

    CONTINUOUS, SYSTEM_REQUIRED = 0x8000_0000, 0x0000_0001

    def __init__(self, set_state: Callable[[int], int]) -> None:
        self._set_state = set_state

    async def take(self) -> None:
        # The loop's own thread, which lives as long as the engine does.
        if not self._set_state(self.CONTINUOUS | self.SYSTEM_REQUIRED):
            raise CannotHold("Windows did not take the wish to stay awake")

    async def give_back(self) -> None:
        self._set_state(self.CONTINUOUS)

    def lost(self) -> str:
        return ""


class NothingHolds:
    def __init__(self, why: str) -> None:
        self._why = why

    async def take(self) -> None:
        raise CannotHold(self._why)

    async def give_back(self) -> None:
        """There is nothing."""

    def lost(self) -> str:
        return ""


def hold_of(
    system: str,
    which: Callable[[str], str | None] = shutil.which,
    pid: int | None = None,
    windows: Callable[[int], int] | None = None,
) -> Hold:
    """The way of this system (`sys.platform`). Blocking: it looks for programs."""
    if system == "win32":
        return WindowsHolds(windows or _windows_call())
    if system == "darwin":
        caffeinate = which("caffeinate")
        if caffeinate is None:
            return NothingHolds("there is no caffeinate on this Mac: switch its sleep off in the settings")
        return ProgramHolds((caffeinate, "-i", "-w", str(pid or os.getpid())))
    inhibit, sleep = which("systemd-inhibit"), which("sleep")
    if inhibit is None or sleep is None:
        remedy = "switch its sleep off in the system's settings"
        return NothingHolds(f"there is no systemd-inhibit on this computer: {remedy}")
    words = ("--what=idle:sleep", "--who=Onefill", f"--why={WHY}", "--mode=block")
    return ProgramHolds((inhibit, *words, sleep, "infinity"))


def _windows_call() -> Callable[[int], int]:
    import ctypes

    call: Callable[[int], int] = ctypes.windll.kernel32.SetThreadExecutionState  # type: ignore[attr-defined,unused-ignore]
    return call


class Awake:
    """`wanted` says whether it should be held now. `make` may block; it is called on a thread."""

    def __init__(
        self,
        is_on: bool,
        wanted: Callable[[], bool],
        clock: Clock,
        changed: Callable[[], None],
        make: Callable[[], Hold] = lambda: hold_of(sys.platform),
        beat: float = BEAT,
    ) -> None:
        self.is_held = False
        self.why_not = ""
        self._is_on = is_on
        self._wanted = wanted
        self._clock = clock
        self._changed = changed
        self._make = make
        self._beat = beat
        self._hold: Hold | None = None
        self._next_try: int | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: Tasks) -> None:
        if self._is_on:
            self._task = tasks.start("awake", self._run())

    async def stop(self) -> None:
        """What was begun is ended too."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._give_back()

    def facts(self) -> list[Fact]:
        """Empty where nobody asked for it, and while it is not wanted."""
        if not self._is_on:
            return []
        if self.why_not:
            return [Fact("awake", "cannot", "warning", f"this computer may fall asleep: {self.why_not}")]
        return [Fact("awake", "held", "ok", "this computer is kept awake")] if self.is_held else []

    async def _run(self) -> None:
        while True:
            await self._turn()
            await asyncio.sleep(self._beat)

    async def _turn(self) -> None:
        if not self._wanted():
            if self.is_held or self.why_not:
                await self._give_back()
                self._say(held=False, why_not="")
            self._next_try = None
            return
        if self._hold is not None and self.is_held:
            lost = self._hold.lost()
            if lost:
                await self._give_back()
                self._failed(lost)
            return
        if self._next_try is None or self._clock.boot() >= self._next_try:
            await self._take()

    async def _take(self) -> None:
        hold = self._hold = await asyncio.to_thread(self._make)
        try:
            await hold.take()
        except CannotHold as error:
            await self._give_back()
            self._failed(str(error))
            return
        self._say(held=True, why_not="")

    def _failed(self, why: str) -> None:
        log.warning("this computer is not kept awake", why=why)
        self._next_try = self._clock.boot() + AGAIN
        self._say(held=False, why_not=why)

    async def _give_back(self) -> None:
        hold, self._hold = self._hold, None
        self.is_held = False
        if hold is not None:
            await hold.give_back()

    def _say(self, *, held: bool, why_not: str) -> None:
        if (held, why_not) != (self.is_held, self.why_not):
            self.is_held, self.why_not = held, why_not
            self._changed()
