"""A clock that runs faster than the real one, for drills in which minutes must pass.

Several processes that are given the same start read the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.clock import SystemClock

_REAL = SystemClock()


@dataclass(frozen=True)
class HurriedClock:
    """`speed` times as fast since `began` (UTC microseconds) and `began_boot` (that of `boot`)."""

    speed: int
    began: int
    began_boot: int

    @classmethod
    def from_now(cls, speed: int) -> HurriedClock:
        return cls(speed, _REAL.now(), _REAL.boot())

    @classmethod
    def read(cls, text: str) -> HurriedClock:
        """As `str` writes it."""
        speed, began, began_boot = map(int, text.split(":"))
        return cls(speed, began, began_boot)

    def __str__(self) -> str:
        return f"{self.speed}:{self.began}:{self.began_boot}"

    def now(self) -> int:
        return self.began + (_REAL.now() - self.began) * self.speed

    def boot(self) -> int:
        return self.began_boot + (_REAL.boot() - self.began_boot) * self.speed
