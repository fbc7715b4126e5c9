"""The table widget over a ledger view: newest row on top, one height for all, and a place that holds still.

At the top new rows come in under the reader's eyes; scrolled away, what is looked at stays where it is.
"""

from __future__ import annotations

import json
from functools import partial

import msgspec
from PySide6.QtCore import QByteArray, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QFocusEvent, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QWidget

from app.gui.columns import GAP, Line, translated
from app.gui.models import Index, LedgerModel
from app.gui.pages import PAGE_ROWS, Wanted

MARGIN_ROWS = PAGE_ROWS // 4
"""Read beside what is visible, so that a small scroll finds its rows there."""
_INNER = frozenset({"number", "key_of_row"})
"""Of a row, what nobody but the window needs."""


class LedgerTable(QTableView):
    """`chosen` brings the Line under the cursor as soon as it is here, `opened` asks for its story."""

    chosen = Signal(object)
    opened = Signal(object)
    sorted = Signal(object, bool)
    """The name of the column, or None for newest first; whether the highest comes first."""

    def __init__(self, model: LedgerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._number: int | None = None
        self._told: Line | None = None
        self._menu_actions: list[QAction] = []
        self._sort: tuple[str | None, bool] = (None, True)
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
        titles.setSectionsMovable(True)
        titles.setSectionsClickable(self._model.table.is_listing)
        titles.setAccessibleName(self.tr("Columns of {view}").format(view=self.accessibleName()))
        titles.sectionClicked.connect(self._title_clicked)
        titles.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        titles.customContextMenuRequested.connect(self._show_columns)
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

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        index = self.currentIndex()
        if index.isValid() and not self.selectionModel().hasSelection():
            # Qt has made the first row current, and has not chosen it: one would look like none.
            self.selectRow(index.row())

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
        else:
            self._told = None

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

    def copy_json(self) -> None:
        """The ledger's own row: UTC times, numbers as they were written."""
        line = self.current_line
        if line is not None:
            row = {name: value for name, value in line.row.items() if name not in _INNER}
            text = json.dumps(row, ensure_ascii=False, indent=2, default=msgspec.to_builtins)
            QGuiApplication.clipboard().setText(text)

    def set_menu(self, actions: list[QAction]) -> None:
        self._menu_actions = actions

    def _show_menu(self, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(self._menu_actions)
        menu.popup(self.viewport().mapToGlobal(place))

    # ------------------------------------------------------------------ order and columns

    def show_sort(self, column: str | None, descending: bool) -> None:
        """The arrow in the head; a filter that was read back comes this way too."""
        self._sort = (column, descending)
        names = [each.name for each in self._model.table.columns]
        order = Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
        titles = self.horizontalHeader()
        titles.setSortIndicator(names.index(column) if column in names else -1, order)
        titles.setSortIndicatorShown(column in names)

    def sort_by(self, column: int) -> None:
        """Highest first, then lowest first, then newest first again."""
        if not self._model.table.sortable(column):
            return
        name = self._model.table.columns[column].name
        now, descending = self._sort
        wanted = (name, True) if now != name else (name, False) if descending else (None, True)
        self.show_sort(*wanted)
        self.sorted.emit(*wanted)

    def _title_clicked(self, column: int) -> None:
        self.sort_by(column)
        # Qt has turned its own arrow already.
        self.show_sort(*self._sort)

    def column_actions(self) -> list[QAction]:
        """One for each column, ticked while it is shown. The last one that is left stays."""
        made = []
        for place, column in enumerate(self._model.table.columns):
            action = QAction(translated(column.title), self)
            action.setCheckable(True)
            action.setChecked(not self.isColumnHidden(place))
            action.setEnabled(self.isColumnHidden(place) or self._columns_shown > 1)
            action.toggled.connect(partial(self._show_column, place))
            made.append(action)
        return made

    def sort_actions(self) -> list[QAction]:
        made = []
        for place, column in enumerate(self._model.table.columns):
            if self._model.table.sortable(place):
                action = QAction(translated(column.title), self)
                action.triggered.connect(partial(self._sort_asked, place))
                made.append(action)
        return made

    def _sort_asked(self, column: int, _checked: bool = False) -> None:
        self.sort_by(column)

    @property
    def _columns_shown(self) -> int:
        return sum(not self.isColumnHidden(place) for place in range(self._model.columnCount()))

    def _show_column(self, column: int, shown: bool) -> None:
        self.setColumnHidden(column, not shown)

    def _show_columns(self, place: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(self.column_actions())
        menu.popup(self.horizontalHeader().mapToGlobal(place))

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
