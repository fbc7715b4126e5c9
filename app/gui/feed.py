"""What keeps a view up to date: changes are gathered and looked at ten times a second at most.

A commit only marks; nothing is read or painted for a single one of them.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Protocol, TypeVar

import apsw
import structlog
from PySide6.QtCore import QObject, QTimer, Signal

from app.gui.columns import Cell, Line
from app.gui.models import LedgerModel
from app.gui.pages import PAGE_ROWS, Known, Look, Wanted, look, look_at
from app.ledger.listing import Search, matching
from app.ledger.reader import Row, SearchEnded
from app.tasks import Tasks

log = structlog.get_logger(__name__)
T = TypeVar("T")

INTERVAL_MS = 100
RETRY_MS = 1_000
"""After a look that failed."""
LEAST_BETWEEN = 1.0
"""Seconds between two searches for the same."""
SHARE = 5.0
"""So many times as long as a search took, the next one waits: the log cannot be copied while one runs."""


class Reader(Protocol):
    async def call(self, work: Callable[[apsw.Connection], T]) -> T: ...


class Finder(Reader, Protocol):
    """Runs what may take a second, on a thread of its own."""

    def end(self) -> None: ...


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
    """Reads one view's rows for its model, one look at a time; what is asked meanwhile is one more look.

    With a filter or a sort the rows' numbers are searched for first, on the searches' thread. A search is
    run anew when the ledger changed, but takes a sixth of the time at most: `searching` tells of each.
    """

    refreshed = Signal()
    failed = Signal(str)
    searching = Signal(bool)

    def __init__(
        self,
        reader: Reader,
        model: LedgerModel,
        wanted: Callable[[], Wanted],
        tasks: Tasks,
        parent: QObject | None = None,
        *,
        finder: Finder | None = None,
    ) -> None:
        super().__init__(parent)
        self._reader = reader
        self._model = model
        self._wanted = wanted
        self._tasks = tasks
        self._finder = finder
        self._search: Callable[[], Search] = Search
        self._found: array[int] | None = None
        self._search_at = 0.0
        self._retry = QTimer(self, interval=RETRY_MS, singleShot=True)
        self._retry.timeout.connect(lambda: self.refresh(changed=True))
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(lambda: self.refresh(changed=True))
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

    def find(self, search: Callable[[], Search]) -> None:
        """From the next look on only what this finds, in its order; what is searched for now is given up."""
        self._search = search
        self._found = None
        self._changed = self._anew = True
        if self._running and self._finder is not None:
            self._finder.end()

    @property
    def numbers(self) -> array[int] | None:
        """What was found, in the order that is shown; None where it is all rows, newest first."""
        return self._found

    def read(self, connection: apsw.Connection, known: Known | None, wanted: Wanted) -> Look[Line]:
        """On the reader's thread."""
        table = self._model.table
        return look(connection, table.view, known, wanted, table.line)

    def stop(self) -> None:
        self._stopped = True
        self._retry.stop()
        self._later.stop()

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
        search = self._search
        try:
            found = await self._read(search, changed, anew)
        except SearchEnded:
            found = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the view says so and tries again
            log.warning("the window cannot read the ledger", view=self._model.table.view, error=repr(error))
            self.failed.emit(str(error) or type(error).__name__)
            self._changed |= changed
            self._anew |= anew
            if not self._stopped:
                self._retry.start()
            return
        self._retry.stop()
        if found is None or search is not self._search:
            # Asked for something else meanwhile, or rows went away under the search.
            self._due = self._changed = self._anew = True
        elif not self._stopped:
            self._model.apply(found, others_stale=changed)
            self.refreshed.emit()

    async def _read(self, search: Callable[[], Search], changed: bool, anew: bool) -> Look[Line] | None:
        asked = search()
        wanted = self._wanted()
        if asked.is_plain or self._finder is None:
            self._found = None
            known = None if anew else self._model.known
            return await self._reader.call(lambda c: self.read(c, known, wanted))
        before, now = self._found, time.monotonic()
        numbers = before
        if numbers is None or anew or (changed and now >= self._search_at):
            numbers = await self._numbers(self._finder, asked)
        elif changed and not self._later.isActive():
            self._later.start(max(1, round((self._search_at - now) * 1_000)))
        table = self._model.table
        restarted = anew or before is None or not _follows(before, numbers)
        found = await self._reader.call(
            lambda c: look_at(c, table.view, numbers, wanted, table.line, restarted)
        )
        if found is not None:
            self._found = numbers
        return found

    async def _numbers(self, finder: Finder, asked: Search) -> array[int]:
        view, began = self._model.table.view, time.monotonic()
        self.searching.emit(True)
        try:
            return await finder.call(lambda c: matching(c, view, asked))
        finally:
            if not self._stopped:
                self.searching.emit(False)
            ended = time.monotonic()
            self._search_at = ended + max(LEAST_BETWEEN, (ended - began) * SHARE)


def _follows(before: array[int], now: array[int]) -> bool:
    """Whether rows only came in on top."""
    return len(now) >= len(before) and now[len(now) - len(before) :] == before


class ListFeed(Feed):
    """Reads a whole short list each time, in an order of its own. `rows` brings them as they are shown."""

    def __init__(self, reader: Reader, model: LedgerModel, tasks: Tasks, parent: QObject | None) -> None:
        super().__init__(reader, model, Wanted, tasks, parent)
        self._table = model.table
        self._numbers_of: dict[str, int] = {}
        self._shown: list[tuple[int, tuple[Cell, ...]]] = []

    def rows(self, connection: apsw.Connection) -> list[Row]:
        """On the reader's thread. `key_of_row` tells a row from the others: by it, it is found again."""
        raise NotImplementedError

    def read(self, connection: apsw.Connection, known: Known | None, wanted: Wanted) -> Look[Line]:
        lines = []
        for row in self.rows(connection):
            row["number"] = self._numbers_of.setdefault(row["key_of_row"], len(self._numbers_of))
            lines.append(self._table.line(row))
        shown = [(line.number, line.cells) for line in lines]
        same, self._shown = shown == self._shown, shown
        lines.reverse()
        pages = {
            start // PAGE_ROWS: lines[start : start + PAGE_ROWS] for start in range(0, len(lines), PAGE_ROWS)
        }
        return Look(len(lines), lines[-1].number if lines else None, {}, pages, restarted=not same)
