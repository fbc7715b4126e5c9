"""What keeps a view up to date: changes are gathered and looked at ten times a second at most.

A commit only marks; nothing is read or painted for a single one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import apsw
import structlog
from PySide6.QtCore import QObject, QTimer, Signal

from app.gui.columns import Line
from app.gui.models import LedgerModel
from app.gui.pages import Known, Look, Wanted, look
from app.tasks import Tasks

log = structlog.get_logger(__name__)
T = TypeVar("T")

INTERVAL_MS = 100
RETRY_MS = 1_000
"""After a look that failed."""


class Reader(Protocol):
    async def call(self, work: Callable[[apsw.Connection], T]) -> T: ...


class Coalescer(QObject):
    """Gathers the names of what changed; `due` brings all at once, not sooner than 100 ms after the last.

    While paused it only gathers.
    """

    due = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.timer = QTimer(self, interval=INTERVAL_MS, singleShot=True)
        self.timer.timeout.connect(self._flush)
        self._topics: frozenset[str] = frozenset()
        self._paused = False
        self._stopped = False

    def mark(self, topics: frozenset[str]) -> None:
        self._topics |= topics
        self._start()

    def pause(self, paused: bool) -> None:
        self._paused = paused
        if paused:
            self.timer.stop()
        else:
            self._start()

    def stop(self) -> None:
        self._stopped = True
        self.timer.stop()

    def _start(self) -> None:
        if self._topics and not self._paused and not self._stopped and not self.timer.isActive():
            self.timer.start()

    def _flush(self) -> None:
        topics, self._topics = self._topics, frozenset()
        if topics:
            self.due.emit(topics)


class Feed(QObject):
    """Reads one view's rows for its model, one look at a time; what is asked meanwhile is one more look."""

    refreshed = Signal()
    failed = Signal(str)

    def __init__(
        self,
        reader: Reader,
        model: LedgerModel,
        wanted: Callable[[], Wanted],
        tasks: Tasks,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._reader = reader
        self._model = model
        self._wanted = wanted
        self._tasks = tasks
        self._retry = QTimer(self, interval=RETRY_MS, singleShot=True)
        self._retry.timeout.connect(lambda: self.refresh(changed=True))
        self._due = False
        self._changed = False
        self._anew = False
        self._running = False
        self._stopped = False
        model.rows_missing.connect(lambda: self.refresh(changed=False))

    def refresh(self, *, changed: bool, anew: bool = False) -> None:
        """Looks again soon.

        `changed`: the ledger did, not only what is visible. `anew`: nothing of earlier looks is believed.
        """
        self._due = True
        self._changed |= changed
        self._anew |= anew
        if not self._running and not self._stopped:
            self._running = True
            self._tasks.start(f"window reads {self._model.table.name}", self._run())

    def read(self, connection: apsw.Connection, known: Known | None, wanted: Wanted) -> Look[Line]:
        """On the reader's thread."""
        table = self._model.table
        return look(connection, table.view, known, wanted, table.line)

    def stop(self) -> None:
        self._stopped = True
        self._retry.stop()

    async def _run(self) -> None:
        try:
            while self._due and not self._stopped:
                await self._look()
        finally:
            self._running = False

    async def _look(self) -> None:
        self._due = False
        changed, self._changed = self._changed, False
        anew, self._anew = self._anew, False
        wanted = self._wanted()
        known = None if anew else self._model.known

        try:
            found = await self._reader.call(lambda c: self.read(c, known, wanted))
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says so and tries again
            log.warning("the window cannot read the ledger", view=self._model.table.view, error=repr(error))
            self.failed.emit(str(error) or type(error).__name__)
            self._changed |= changed
            if not self._stopped:
                self._retry.start()
            return
        self._retry.stop()
        if not self._stopped:
            self._model.apply(found, others_stale=changed)
            self.refreshed.emit()
