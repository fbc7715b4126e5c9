"""What time did behind the program's back: the wall clock stepped, or the program stood still (HOLES H31).

A sleep, a stopped process and a stalled machine look the same from inside: the clock that counts all of them
went on, and nobody looked at it. Until the next look has noticed, nothing may be sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.clock import SECOND, Clock

JUMP = 30 * SECOND
"""A step of the wall clock against the other one, or time between two looks, that is told."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Both in microseconds, zero where it was the other: the signed step, and how long nobody looked."""

    step: int
    stood_still: int


class ClockJumps:
    """Looked at every beat by the watch; asked at any time, from any thread, whether that is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # One tuple: another thread must not see the half of a look.
        self._last = self._read()

    def steady(self) -> bool:
        """False from the moment of a jump until it has been looked at."""
        return self._since(self._read()) is None

    def look(self) -> Jump | None:
        """What happened since the look before."""
        now = self._read()
        jump = self._since(now)
        self._last = now
        return jump

    def _read(self) -> tuple[int, int]:
        return self._clock.now(), self._clock.boot()

    def _since(self, read: tuple[int, int]) -> Jump | None:
        (now, boot), (last_now, last_boot) = read, self._last
        step, gap = (now - boot) - (last_now - last_boot), boot - last_boot
        if abs(step) <= JUMP and gap <= JUMP:
            return None
        return Jump(step if abs(step) > JUMP else 0, gap if gap > JUMP else 0)
