"""The table widget over a ledger view: newest row on top, one height for all, and a place that holds still.

At the top new rows come in under the reader's eyes; scrolled away, what is looked at stays where it is.
"""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QWidget

from app.gui.columns import GAP, Line, translated
from app.gui.models import Index, LedgerModel
from app.gui.pages import PAGE_ROWS, Wanted

MARGIN_ROWS = PAGE_ROWS // 4
"""Read beside what is visible, so that a small scroll finds its rows there."""


class LedgerTable(QTableView):
    """`chosen` brings the Line under the cursor as soon as it is here, `opened` asks for its story."""

    chosen = Signal(object)
    opened = Signal(object)

    def __init__(self, model: LedgerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._number: int | None = None
        self._told: Line | None = None
        self._menu_actions: list[QAction] = []
        self.setModel(model)
        self.setAccessibleName(translated(model.table.title))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self._set_up_headers()
        model.rowsInserted.connect(self._hold_still)
        model.modelReset.connect(self._find_again)
        model.dataChanged.connect(self._tell)
        self.clicked.connect(lambda _index: self.tell_again())
        self.doubleClicked.connect(lambda _index: self._open())
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)

    def _set_up_headers(self) -> None:
        metrics = self.fontMetrics()
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(round(metrics.height() * 1.6))
        rows.setMinimumSectionSize(round(metrics.height() * 1.6))
        titles = self.horizontalHeader()
        titles.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        titles.setHighlightSections(False)
        titles.setSectionsClickable(False)
        for place, column in enumerate(self._model.table.columns):
            title = titles.fontMetrics().horizontalAdvance(translated(column.title) + "00")
            sample = metrics.horizontalAdvance(column.sample + "0")
            gap = metrics.horizontalAdvance(GAP) if column.right else 0
            self.setColumnWidth(place, max(title, sample) + gap)
            if column.stretch:
                titles.setSectionResizeMode(place, QHeaderView.ResizeMode.Stretch)

    # ------------------------------------------------------------------ what is looked at

    def wanted(self) -> Wanted:
        """The rows to read: what is visible and a little around it; at the top, whatever will be newest."""
        first = max(0, self.rowAt(0))
        last = self.rowAt(self.viewport().height() - 1)
        rows = self._model.rowCount()
        if last < 0:
            last = rows - 1
        shown = last - first + 1 + MARGIN_ROWS
        if self._is_at_top:
            return Wanted(top=max(shown, PAGE_ROWS // 2))
        oldest = self._model.ordinal(last) - MARGIN_ROWS
        return Wanted(top=0, ordinals=(max(0, oldest), self._model.ordinal(first) + 1 + MARGIN_ROWS))

    @property
    def _is_at_top(self) -> bool:
        return self.verticalScrollBar().value() == 0

    def _hold_still(self, _parent: QModelIndex, first: int, last: int) -> None:
        bar = self.verticalScrollBar()
        if bar.value() > 0:
            place = bar.value() + (last - first + 1) * self.verticalHeader().defaultSectionSize()
            self.updateGeometries()
            bar.setValue(place)

    # ------------------------------------------------------------------ what is chosen

    @property
    def current_line(self) -> Line | None:
        index = self.currentIndex()
        return self._model.line(index.row()) if index.isValid() else None

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        self._tell()

    def _tell(self) -> None:
        line = self.current_line
        if line is not None and (self._told is None or line.number != self._told.number):
            self._told, self._number = line, line.number
            self.chosen.emit(line)

    def tell_again(self) -> None:
        """Says what is chosen though it is the same as before: something else may have been shown since."""
        self._told = None
        self._tell()

    def _find_again(self) -> None:
        """After a reset: the same thing, if it is still among what was read."""
        row = None if self._number is None else self._model.row_of(self._number)
        if row is not None:
            self.selectRow(row)

    def choose(self, row: int) -> None:
        self.setCurrentIndex(self._model.index(row, 0))

    def _open(self) -> None:
        line = self.current_line
        if line is not None:
            self.opened.emit(line)

    # ------------------------------------------------------------------ keys, menu, copying

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._open()
            event.accept()
            return
        super().keyPressEvent(event)

    def copy_cell(self) -> None:
        line, index = self.current_line, self.currentIndex()
        if line is not None:
            QGuiApplication.clipboard().setText(line.cells[index.column()].text)

    def copy_row(self) -> None:
        line = self.current_line
        if line is not None:
            QGuiApplication.clipboard().setText("\t".join(cell.text for cell in line.cells))

    def set_menu(self, actions: list[QAction]) -> None:
        self._menu_actions = actions

    def _show_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(self._menu_actions)
        menu.popup(self.viewport().mapToGlobal(place))

    # ------------------------------------------------------------------ what is remembered

    def header_state(self) -> QByteArray:
        return self.horizontalHeader().saveState()

    def restore_header(self, state: QByteArray) -> None:
        """Takes it only if it is of a table with as many columns."""
        before = self.horizontalHeader().saveState()
        if not self.horizontalHeader().restoreState(state) or (
            self.horizontalHeader().count() != len(self._model.table.columns)
        ):
            self.horizontalHeader().restoreState(before)
