"""Every way to quit leads to one wish, and a stop that hangs is ended all the same.

Signals only ask; the deadline runs on a thread, since a loop that hangs keeps no timer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from PySide6.QtCore import QTimer

log = structlog.get_logger(__name__)

STOP_SECONDS = 8.0
"""The engine's own bound is 5 s; what is still there then will not end by itself."""
LAST_LINE_SECONDS = 0.2
EXIT_HUNG = 3
HEARTBEAT_MS = 200


class Deadline:
    """Ends the process, if it still runs so long after `start`. `end` calls it off."""

    def __init__(self, seconds: float = STOP_SECONDS, kill: Callable[[int], object] = os._exit) -> None:
        self._seconds = seconds
        self._kill = kill
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """May be called again; the first call counts."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="stop-deadline", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _wait(self) -> None:
        if not self._over.wait(self._seconds):
            log.critical("the stop hung and was ended by force", seconds=self._seconds)
            # The log is written by another thread: let it.
            self._over.wait(LAST_LINE_SECONDS)
            self._kill(EXIT_HUNG)


@contextmanager
def signals_ask(loop: asyncio.AbstractEventLoop, wish: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM call `wish` on the loop while this holds."""
    if sys.platform == "win32":
        with _windows_signals(loop, wish):
            yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, wish, number.name)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def _windows_signals(loop: asyncio.AbstractEventLoop, wish: Callable[[str], None]) -> Iterator[None]:
    """Python sees a signal only when it runs, so a timer makes it run five times a second."""
    numbers = [signal.SIGINT]
    if hasattr(signal, "SIGBREAK"):
        numbers.append(signal.SIGBREAK)
    before = {
        number: signal.signal(number, lambda got, _frame: loop.call_soon_threadsafe(wish, str(got)))
        for number in numbers
    }
    heartbeat = QTimer(interval=HEARTBEAT_MS)
    heartbeat.timeout.connect(lambda: None)
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()
        for number, handler in before.items():
            signal.signal(number, handler)
