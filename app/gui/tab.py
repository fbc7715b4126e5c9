"""One view of the window: its table, what stands there while it is empty or cannot be read."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QGridLayout, QLabel, QStackedWidget, QVBoxLayout, QWidget

from app.gui.columns import Table, translated
from app.gui.feed import Feed, Reader
from app.gui.models import LedgerModel
from app.gui.notice import Notice
from app.gui.table import LedgerTable
from app.gui.theme import scaled, theme_of
from app.tasks import Tasks


class LedgerTab(QWidget):
    """Reads only while it is told to: `refresh`. `counted` brings the number of rows after each look."""

    counted = Signal(int)

    def __init__(self, table: Table, reader: Reader, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.definition = table
        self.model = LedgerModel(table, theme_of(self.palette()), self)
        self.table = LedgerTable(self.model, self)
        self.feed = self.make_feed(reader, tasks)
        self.problem = Notice(self)
        self.empty = EmptyState(translated(table.empty_title), translated(table.empty_text), self)
        self._reading = EmptyState("", self.tr("Reading the ledger…"), self)
        self._stack = QStackedWidget(self)
        for page in (self._reading, self.empty, self.table):
            self._stack.addWidget(page)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(self._stack, 1)
        # Below, where it moves no row under the mouse.
        self._column.addWidget(self.problem)
        self.feed.refreshed.connect(self._refreshed)
        self.feed.failed.connect(self._failed)

    def make_feed(self, reader: Reader, tasks: Tasks) -> Feed:
        return Feed(reader, self.model, self.table.wanted, tasks, self)

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

    def _refreshed(self) -> None:
        self.problem.clear()
        rows = self.model.rowCount()
        self._stack.setCurrentWidget(self.table if rows else self.empty)
        self.counted.emit(rows)

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
