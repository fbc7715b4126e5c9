"""Where the time goes: cProfile on the loop's thread and on the ledger writer's, summed up by module.

Processor time, not time on the clock, so that waiting is in nobody's account. What builtins and most of the
standard library do is put to the account of the module that called them. Profiling makes code of many small
calls look dearer than it is; what counts is the order, not the number.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import defaultdict
from pathlib import PurePath
from typing import TypeAlias

import msgspec

ON_THEIR_OWN = ("asyncio", "logging", "concurrent")
"""Parts of the standard library that have an account."""

_Function: TypeAlias = tuple[str, int, str]
_Called: TypeAlias = tuple[int, int, float, float]
_Stats: TypeAlias = dict[_Function, tuple[int, int, float, float, dict[_Function, _Called]]]


class Spent(msgspec.Struct, frozen=True):
    """`part` of all processor time of both threads."""

    module: str
    thread: str
    part: float


class Profiler:
    """One thread's profile: `start` and `stop` must be called on that thread."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self._profile = cProfile.Profile(time.thread_time)

    def start(self) -> None:
        self._profile.enable()

    def stop(self) -> None:
        self._profile.disable()

    def seconds(self) -> dict[tuple[str, str], float]:
        """By module and thread."""
        stats: _Stats = pstats.Stats(self._profile).stats  # type: ignore[attr-defined]
        found: dict[str, float] = defaultdict(float)
        for function, (_, _, own, _, _) in stats.items():
            _put(found, stats, function, own, 12)
        return {(module, self.thread): seconds for module, seconds in found.items()}


def parts(profilers: list[Profiler]) -> list[Spent]:
    """The dearest first."""
    seconds = [entry for profiler in profilers for entry in profiler.seconds().items()]
    total = sum(spent for _, spent in seconds)
    seconds.sort(key=lambda entry: -entry[1])
    return [Spent(module, thread, spent / total) for (module, thread), spent in seconds]


def _put(found: dict[str, float], stats: _Stats, function: _Function, own: float, depth: int) -> None:
    module = _module(function[0])
    callers = stats[function][4] if function in stats else {}
    if module is not None or not callers or depth == 0:
        found[module or "the rest"] += own
        return
    total = sum(called[2] for called in callers.values())
    for caller, called in callers.items():
        part = called[2] / total if total else 1 / len(callers)
        _put(found, stats, caller, own * part, depth - 1)


def _module(file: str) -> str | None:
    """The account of a file's functions, None where their callers pay."""
    names = PurePath(file).with_suffix("").parts
    if "site-packages" in names:
        return names[names.index("site-packages") + 1]
    if "app" in names:
        return ".".join(names[names.index("app") :])
    if "benchmarks" in names:
        return "benchmarks"
    return next((name for name in ON_THEIR_OWN if name in names), None)
