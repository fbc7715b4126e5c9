"""How long the loop lets somebody wait: asked from a thread, since the loop's own timers are late with it.

The wait counts from the moment when the thread was due, so that a thread that did not get the interpreter
hides nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time

INTERVAL = 0.005
"""Seconds between two questions."""


class Stalls:
    """`longest` and `percentile` in milliseconds, since `reset`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waits: list[float] = []
        self._heard = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="stalls", daemon=True)
        self._thread.start()

    def reset(self) -> None:
        self._waits = []

    @property
    def longest(self) -> float:
        return max(self._waits, default=0.0) * 1e3

    def percentile(self, part: float) -> float:
        waits = sorted(self._waits)
        return waits[min(len(waits) - 1, int(len(waits) * part))] * 1e3 if waits else 0.0

    def stop(self) -> None:
        self._over.set()
        self._heard.set()

    def _ask(self) -> None:
        due = time.perf_counter()
        while not self._over.is_set():
            due = max(due + INTERVAL, time.perf_counter())
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            self._heard.clear()
            try:
                self._loop.call_soon_threadsafe(self._hear, due)
            except RuntimeError:
                return
            self._heard.wait()
            due = time.perf_counter()

    def _hear(self, due: float) -> None:
        self._waits.append(time.perf_counter() - due)
        self._heard.set()
