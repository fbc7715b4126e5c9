"""One view of the window: its filter, its table, what stands there while it is empty or cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QPalette
from PySide6.QtWidgets import QGridLayout, QLabel, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from app.clock import Clock
from app.gui.columns import Line, Table, translated
from app.gui.feed import Feed, Finder, Reader
from app.gui.filter_bar import FilterBar
from app.gui.filters import Filter, read_filter
from app.gui.models import LedgerModel
from app.gui.notice import Notice
from app.gui.offer_bar import OfferBar
from app.gui.pages import place_of
from app.gui.table import LedgerTable
from app.gui.theme import scaled, theme_of
from app.ledger.listing import LISTINGS, chip_counts
from app.ledger.reader import SearchEnded
from app.tasks import Tasks

log = structlog.get_logger(__name__)

COUNTS_EVERY = 2.0
"""Seconds between two counts of the chips, at least."""


class Below(QWidget):
    """What a view may have below its rows, and what reads for itself: plots."""

    @property
    def stops(self) -> list[QWidget]:
        raise NotImplementedError

    def refresh(self, *, at_once: bool = False) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Sources:
    """What views read from: short reads, long searches, and the clock that says what "last hour" is."""

    reader: Reader
    finder: Finder
    clock: Clock
    tasks: Tasks


class LedgerTab(QWidget):
    """Reads only while it is told to: `refresh`. `counted` brings the number of rows after each look."""

    counted = Signal(int)

    def __init__(self, table: Table, sources: Sources, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.definition = table
        self.sources = sources
        self.model = LedgerModel(table, theme_of(self.palette()), self)
        self.table = LedgerTable(self.model, self)
        self.feed = self.make_feed(sources)
        self.problem = Notice(self)
        self.empty = EmptyState(translated(table.empty_title), translated(table.empty_text), self)
        self.nothing = EmptyState(
            self.tr("Nothing matches the filter"), self.tr("Clear it to see all rows again."), self
        )
        self._reading = EmptyState("", self.tr("Reading the ledger…"), self)
        self._stack = QStackedWidget(self)
        for page in (self._reading, self.empty, self.nothing, self.table):
            self._stack.addWidget(page)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.filter_bar: FilterBar | None = None
        if table.is_listing:
            self._add_filter()
        self._column.addWidget(self._stack, 1)
        # Below, where it moves no row under the mouse.
        self._column.addWidget(self.problem)
        self.offers: OfferBar | None = None
        self.charts: Below | None = None
        self._wish: int | None = None
        self._counting = False
        self._count_at = 0.0
        self.feed.refreshed.connect(self._refreshed)
        self.feed.failed.connect(self._failed)

    def _add_filter(self) -> None:
        bar = self.filter_bar = FilterBar(self.definition, self.sources.clock.now(), self)
        self._column.addWidget(bar)
        self.nothing.add_button(bar.clear_button.text()).clicked.connect(bar.clear)
        bar.changed.connect(self._filtered)
        bar.left.connect(self.table.setFocus)
        self.table.sorted.connect(bar.sort)
        self.feed.searching.connect(bar.show_searching)

    def make_feed(self, sources: Sources) -> Feed:
        return Feed(sources.reader, self.model, self.table.wanted, sources.tasks, self, finder=sources.finder)

    def set_actions(self, actions: Mapping[str, QAction]) -> None:
        """Below the rows, a button for each thing that can be done about one."""
        if self.definition.offers:
            self.offers = OfferBar([actions[name] for name in self.definition.offers], self)
            self._column.addWidget(self.offers)

    def set_below(self, charts: Below) -> None:
        """Plots below the rows, as tall as these."""
        self.charts = charts
        place = self._column.indexOf(self._stack) + 1
        self._column.insertWidget(place, charts, 1)

    def choose(self, number: int) -> None:
        """The row with this number, as soon as it is here; where the filter hides it, the filter goes."""
        if self.filter_bar is not None and (self.filter.narrows or self.filter.sort is not None):
            self.set_filter(Filter())
        self._wish = number
        if not self._choose_wish():
            self.sources.tasks.start("window looks for a row", self._find_wish(number))

    def _choose_wish(self) -> bool:
        row = None if self._wish is None else self.model.row_of(self._wish)
        if row is None:
            return False
        self._wish = None
        self.table.choose(row)
        self.table.scrollTo(self.model.index(row, 0))
        return True

    async def _find_wish(self, number: int) -> None:
        """It is among the pages that are not here: to its place, and it comes."""
        view = self.definition.view
        try:
            row = await self.sources.reader.call(lambda c: place_of(c, view, number))
        except Exception as error:  # noqa: BLE001 - the row is not chosen then; its story says what is wrong
            log.warning("the window cannot look for a row", view=view, error=repr(error))
            row = None
        if row is None or self._wish != number:
            self._wish = None if self._wish == number else self._wish
        elif not self._choose_wish() and row < self.model.rowCount():
            self.table.scrollTo(self.model.index(row, 0))
            self.refresh()

    def lines(self) -> Iterator[Line]:
        """The rows that are here."""
        for row in range(self.model.rowCount()):
            line = self.model.line(row)
            if line is not None:
                yield line

    @property
    def stops(self) -> list[QWidget]:
        """In the order of Tab."""
        before = self.filter_bar.stops if self.filter_bar else []
        after = self.offers.buttons if self.offers else []
        between = self.charts.stops if self.charts else []
        return [*before, self.table, *between, *after]

    @property
    def is_empty(self) -> bool:
        return self._stack.currentWidget() is self.empty

    @property
    def is_shown_as_table(self) -> bool:
        return self._stack.currentWidget() is self.table

    def refresh(self, *, anew: bool = False) -> None:
        """Reads the view; `anew` counts all of it again."""
        self.feed.refresh(changed=True, anew=anew)

    def stop(self) -> None:
        self.feed.stop()
        if self.charts is not None:
            self.charts.stop()
        if self.filter_bar is not None:
            self.filter_bar.stop()

    # ------------------------------------------------------------------ the filter

    @property
    def filter(self) -> Filter:
        return self.filter_bar.filter if self.filter_bar else Filter()

    def restore_filter(self, text: str) -> None:
        """As it was kept by `filter.written()`."""
        if self.filter_bar is not None and text:
            listing = LISTINGS[self.definition.view]
            wanted = read_filter(text, set(listing.columns), set(self.filter_bar.chips))
            self.filter_bar.take(wanted)
            self.table.show_sort(wanted.sort, wanted.descending)
            self._find(wanted)

    def set_filter(self, wanted: Filter) -> None:
        """As if a person had set it."""
        if self.filter_bar is not None:
            self.filter_bar.take(wanted)
            self.table.show_sort(wanted.sort, wanted.descending)
            self._filtered(wanted)

    def _filtered(self, wanted: Filter) -> None:
        self._find(wanted)
        self.table.scrollToTop()
        self.refresh(anew=True)

    def _find(self, wanted: Filter) -> None:
        clock = self.sources.clock
        self.feed.find(lambda: wanted.search(clock.now()))

    # ------------------------------------------------------------------ what came

    def _refreshed(self) -> None:
        self.problem.clear()
        rows = self.model.rowCount()
        if self.filter_bar is not None:
            self.filter_bar.show_found(rows)
        none = self.nothing if self.filter.narrows else self.empty
        self._stack.setCurrentWidget(self.table if rows else none)
        if self._wish is not None:
            self._choose_wish()
        self.counted.emit(rows)
        if self.charts is not None:
            self.charts.refresh()
        if self.definition.counts_chips:
            self._count_chips()
        self.looked()

    def looked(self) -> None:
        """After each look; for what a view tells beside its rows."""

    def _count_chips(self) -> None:
        """Now and then: it is one pass over all rows."""
        if self._counting or time.monotonic() < self._count_at:
            return
        self._counting = True
        self.sources.tasks.start(f"window counts {self.definition.name}", self._counted())

    async def _counted(self) -> None:
        began, view = time.monotonic(), self.definition.view
        try:
            counts = await self.sources.finder.call(lambda c: chip_counts(c, view))
        except SearchEnded:
            return  # the next look counts
        except Exception as error:  # noqa: BLE001 - the view itself says what is wrong
            log.warning("the window cannot count", view=view, error=repr(error))
            return
        finally:
            self._counting = False
        ended = time.monotonic()
        self._count_at = ended + max(COUNTS_EVERY, (ended - began) * 20)
        if self.filter_bar is not None:
            self.filter_bar.show_counts(counts)

    def _failed(self, why: str) -> None:
        text = self.tr("The ledger cannot be read now ({why}). What is shown may be old; trying again.")
        self.problem.say(text.format(why=why), "error")

    def changeEvent(self, event: QEvent) -> None:
        if event.type() == QEvent.Type.PaletteChange:
            self.model.repaint_with(theme_of(self.palette()))
        super().changeEvent(event)


class EmptyState(QWidget):
    """A few words in the middle: what is missing and what to do next."""

    def __init__(self, title: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        heading, words = QLabel(title, self), QLabel(text, self)
        heading.setFont(scaled(self.font(), 1.35, bold=True))
        heading.setVisible(bool(title))
        for label in (heading, words):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        # Lines of about sixty characters read best; a narrow pane has shorter ones.
        words.setMaximumWidth(self.fontMetrics().averageCharWidth() * 60)
        layout = QGridLayout(self)
        layout.setContentsMargins(24, 0, 24, 0)
        layout.setRowStretch(0, 2)
        layout.addWidget(heading, 1, 1)
        layout.addWidget(words, 2, 1)
        layout.setRowStretch(3, 3)
        for side in (0, 2):
            layout.setColumnStretch(side, 1)
        layout.setColumnStretch(1, 1000)
        layout.setAlignment(words, Qt.AlignmentFlag(0))
        self.setAutoFillBackground(True)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.words = words
        self._grid = layout

    def add_button(self, text: str) -> QToolButton:
        """Below the words."""
        button = QToolButton(self)
        button.setText(text)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._grid.setRowStretch(3, 0)
        self._grid.addWidget(button, 3, 1, Qt.AlignmentFlag.AlignHCenter)
        self._grid.setRowStretch(4, 3)
        return button
