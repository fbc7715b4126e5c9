"""Python's cycle collector, run on the window's thread only.

Left alone it runs on whichever thread happens to allocate, and destroys Qt objects there. Measured: a closed
Qt loop with cancelled timers, collected on the ledger's thread, ends the process with a segmentation fault.
"""

from __future__ import annotations

import gc
from types import TracebackType

from PySide6.QtCore import QObject, QTimerEvent

INTERVAL_MS = 1_000


class MainThreadGarbage(QObject):
    """While entered, collects once a second what the collector's own thresholds say, youngest first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._timer = 0
        self._was_enabled = False

    def __enter__(self) -> MainThreadGarbage:
        self._was_enabled = gc.isenabled()
        gc.disable()
        self._timer = self.startTimer(INTERVAL_MS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.killTimer(self._timer)
        gc.collect()
        if self._was_enabled:
            gc.enable()

    def timerEvent(self, event: QTimerEvent) -> None:
        self.collect()

    def collect(self) -> int | None:
        """Collects the oldest generation that is due; which one it was, or None."""
        counts, limits = gc.get_count(), gc.get_threshold()
        due = [age for age in range(3) if limits[age] and counts[age] > limits[age]]
        if not due or due[0] != 0:
            return None
        # An older generation is looked at only together with all younger ones.
        oldest = 0
        while oldest + 1 in due:
            oldest += 1
        gc.collect(oldest)
        return oldest
