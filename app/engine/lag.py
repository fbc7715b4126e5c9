"""How late the loop is: what endangers an answer is a stalled loop, so it is measured and shown (DESIGN 4).

Measures only; nothing rests on it.
"""

from __future__ import annotations

import asyncio
from collections import deque

INTERVAL = 0.1
"""Seconds between two looks."""
WINDOW = 60.0
WARNING_MS = 250.0
ERROR_MS = 1_000.0


class LoopLag:
    """Milliseconds by which the loop woke late: now, at most in the last minute, at most since the start."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.max_since_start_ms = 0.0
        self._seconds: deque[tuple[int, float]] = deque()
        """The largest lag of each second of the last minute."""

    @property
    def max_ms(self) -> float:
        return max((lag for _, lag in self._seconds), default=0.0)

    def note(self, at: float, lag_ms: float) -> None:
        """`at` is the loop's time in seconds. A wake that came early is no lag."""
        lag_ms = max(0.0, lag_ms)
        self.now_ms = lag_ms
        self.max_since_start_ms = max(self.max_since_start_ms, lag_ms)
        second = int(at)
        if self._seconds and self._seconds[-1][0] == second:
            second, largest = self._seconds.pop()
            lag_ms = max(lag_ms, largest)
        self._seconds.append((second, lag_ms))
        while self._seconds[0][0] <= second - WINDOW:
            self._seconds.popleft()

    async def measure(self) -> None:
        """Runs until cancelled."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(INTERVAL)
            now = loop.time()
            self.note(now, (now - before - INTERVAL) * 1_000)
            before = now
