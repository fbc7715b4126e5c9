"""How often a tunnel is looked at, probed and started anew. Microseconds where nothing else is said."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from app.clock import SECOND


@dataclass(frozen=True, slots=True)
class Pace:
    tick: float = 0.5
    """Seconds that the supervisor sleeps at most."""
    look: int = 10 * SECOND
    """The local probe; while it starts, every tick."""
    copied: int = 2 * SECOND
    """How often it is looked whether a command says that the address was taken."""
    public: int = 300 * SECOND
    """The probe from outside. More often would eat a free plan: ngrok counts 20,000 a month."""
    first_tries: tuple[int, ...] = (SECOND, 4 * SECOND, 10 * SECOND, 20 * SECOND)
    """After a (re)connect: the waits before each try until one arrives, since names take time to spread."""
    asleep: int = 30 * SECOND
    """Nobody looked for so long: the machine slept."""
    most_wait: int = 60 * SECOND
    """Between two starts."""
    most_limited_wait: int = 3_600 * SECOND
    """Between two starts where the service counts them."""
    steady: int = 60 * SECOND
    """Up for so long: the next end is a new one, and waits from the beginning."""
    suspicions: int = 2
    """So many regular probes in a row that did not arrive: the program is started anew."""


class Waits:
    """The waits between starts: doubled each time, with jitter, and longer where a service counts starts."""

    def __init__(self, pace: Pace, first: int, jitter: Callable[[], float] = random.random) -> None:
        self._pace = pace
        self._first = first
        self._jitter = jitter
        self._ends = 0
        self._limited = 0

    def after(self, least: int) -> int:
        """The wait after one more end that asks for at least `least`."""
        wait = min(self._pace.most_wait, self._first << min(self._ends, 16))
        self._ends += 1
        if least:
            least = min(max(self._pace.most_limited_wait, least), least << min(self._limited, 8))
            self._limited += 1
        # Never shorter than asked for; only longer by up to a quarter.
        return max(wait, least) + int(max(wait, least) * self._jitter() / 4)

    def reset(self) -> None:
        self._ends = self._limited = 0
