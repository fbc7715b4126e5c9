"""The clock that is passed in: wall time, and a clock that only ever goes forward.

Nothing else in Onefill reads a clock, so that a test can hold time still, jump it, or run it backwards.
"""

from __future__ import annotations

import sys
import time
from typing import Protocol

SECOND = 1_000_000
"""Microseconds in a second: the ledger's unit of time."""


class Clock(Protocol):
    def now(self) -> int:
        """Wall time, UTC, in microseconds since 1970."""
        ...

    def boot(self) -> int:
        """Microseconds on a clock that never steps and counts sleep where the system can."""
        ...


if hasattr(time, "CLOCK_BOOTTIME"):

    def _boot_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

elif sys.platform == "darwin":
    # There CLOCK_MONOTONIC counts sleep, and time.monotonic() does not.
    def _boot_ns() -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

else:
    _boot_ns = time.monotonic_ns


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000

    def boot(self) -> int:
        return _boot_ns() // 1_000


class ManualClock:
    """A clock that a test or a drill moves by hand."""

    def __init__(self, now: int = 1_772_465_400 * SECOND, boot: int = 1_000 * SECOND) -> None:
        self._now = now
        self._boot = boot

    def now(self) -> int:
        return self._now

    def boot(self) -> int:
        return self._boot

    def advance(self, microseconds: int) -> None:
        """Time passes: both clocks move."""
        self._now += microseconds
        self._boot += microseconds

    def step(self, microseconds: int) -> None:
        """The wall clock is set forward or back; the other one does not notice."""
        self._now += microseconds
