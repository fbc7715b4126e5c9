"""The table models: a window over a ledger view of any length.

A model holds a count and the pages that were looked at last; a row that is not there yet is shown as a
placeholder and asked for. It never reads the ledger itself, and painting never makes a string.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor

from app.gui.columns import GAP, Line, Table, translated
from app.gui.formats import ELLIPSIS, plain_tip
from app.gui.pages import PAGE_ROWS, Known, Look
from app.gui.theme import Theme, Tone

MAX_PAGES = 64
"""So many pages stay in memory: 8192 rows."""

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_DISPLAY = Qt.ItemDataRole.DisplayRole
_FOREGROUND = Qt.ItemDataRole.ForegroundRole
_ALIGNMENT = Qt.ItemDataRole.TextAlignmentRole
_TOOL_TIP = Qt.ItemDataRole.ToolTipRole
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LedgerModel(QAbstractTableModel):
    """Row 0 is the newest.

    `rows_missing` says, at most once until the next `apply`, that somebody looked at a row that is not here.
    """

    rows_missing = Signal()

    def __init__(self, table: Table, theme: Theme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.table = table
        self._count = 0
        self._newest: int | None = None
        self._marks: dict[int, int] = {}
        self._pages: OrderedDict[int, list[Line]] = OrderedDict()
        self._stale: set[int] = set()
        self._asked = False
        self._titles = [translated(column.title) + (GAP if column.right else "") for column in table.columns]
        self._alignments = [_RIGHT if column.right else _LEFT for column in table.columns]
        self._colours: dict[Tone, QColor] = theme.ink
        self._quiet = theme.quiet

    # ------------------------------------------------------------------ what Qt asks

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else self._count

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self._titles)

    def data(self, index: Index, role: int = _DISPLAY) -> Any:
        if role == _DISPLAY:
            line = self._seen(index.row())
            if line is None:
                return ELLIPSIS if index.column() == 0 else None
            return line.shown[index.column()]
        if role == _ALIGNMENT:
            return self._alignments[index.column()]
        if role == _FOREGROUND:
            line = self.line(index.row())
            if line is None:
                return self._quiet
            tone = line.cells[index.column()].tone
            return None if tone is None else self._colours[tone]
        if role == _TOOL_TIP:
            line = self.line(index.row())
            tip = None if line is None else line.cells[index.column()].tip
            return None if tip is None else plain_tip(tip)
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _DISPLAY) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == _DISPLAY:
            return self._titles[section]
        if role == _ALIGNMENT:
            return self._alignments[section]
        return None

    # ------------------------------------------------------------------ what the window asks

    @property
    def known(self) -> Known:
        """What the next look may build on."""
        return Known(self._count, self._newest, dict(self._marks))

    @property
    def pages_held(self) -> int:
        return len(self._pages)

    def ordinal(self, row: int) -> int:
        """How many rows are older than this one; stays as it is when rows come in."""
        return self._count - 1 - row

    def line(self, row: int) -> Line | None:
        """The row as it is shown, or None while it is not here."""
        if not 0 <= row < self._count:
            return None
        page, place = divmod(self.ordinal(row), PAGE_ROWS)
        lines = self._pages.get(page)
        return None if lines is None or place >= len(lines) else lines[place]

    def row_of(self, number: int) -> int | None:
        """Where the row with this number stands, if it is among the pages held."""
        for page, lines in self._pages.items():
            for place, line in enumerate(lines):
                if line.number == number:
                    return self._count - 1 - (page * PAGE_ROWS + place)
        return None

    def apply(self, look: Look[Line], *, others_stale: bool = True) -> None:
        """Takes over one look: rows that came in, rows that changed, or everything anew.

        `others_stale`: the ledger changed, so pages that this look did not read are read again when seen.
        """
        self._asked = False
        if look.restarted or look.count < self._count:
            self.beginResetModel()
            self._pages.clear()
            self._stale.clear()
            self._take(look)
            self.endResetModel()
            return
        added = look.count - self._count
        changed = self._changed(look)
        if added:
            self.beginInsertRows(_ROOT, 0, added - 1)
        if others_stale:
            self._stale |= self._pages.keys() - look.pages.keys()
        self._take(look)
        if added:
            self.endInsertRows()
        if changed is not None:
            oldest, newest = changed
            first, last = self.index(self._count - 1 - newest, 0), self.index(self._count - 1 - oldest, 0)
            self.dataChanged.emit(first, last.siblingAtColumn(len(self._titles) - 1))

    def repaint_with(self, theme: Theme) -> None:
        """The palette changed."""
        self._colours = theme.ink
        self._quiet = theme.quiet
        if self._count:
            last = self.index(self._count - 1, len(self._titles) - 1)
            self.dataChanged.emit(self.index(0, 0), last, [_FOREGROUND])

    # ------------------------------------------------------------------ inside

    def _seen(self, row: int) -> Line | None:
        """The row that somebody looks at now; asks for it where it is missing or old."""
        page, place = divmod(self._count - 1 - row, PAGE_ROWS)
        lines = self._pages.get(page)
        missing = lines is None or place >= len(lines)
        if not self._asked and (missing or page in self._stale):
            self._asked = True
            self.rows_missing.emit()
        return None if lines is None or place >= len(lines) else lines[place]

    def _changed(self, look: Look[Line]) -> tuple[int, int] | None:
        """The first and the last ordinal, among rows already shown, whose cells are not what they were."""
        changed = [
            page * PAGE_ROWS + place
            for page, lines in look.pages.items()
            for place, (old, new) in enumerate(self._pairs(page, lines))
            if old is None or old.cells != new.cells
        ]
        changed = [ordinal for ordinal in changed if ordinal < self._count]
        return (min(changed), max(changed)) if changed else None

    def _pairs(self, page: int, lines: list[Line]) -> list[tuple[Line | None, Line]]:
        held = self._pages.get(page, [])
        return [(held[place] if place < len(held) else None, line) for place, line in enumerate(lines)]

    def _take(self, look: Look[Line]) -> None:
        self._count, self._newest, self._marks = look.count, look.newest, look.marks
        for page, lines in look.pages.items():
            self._pages[page] = lines
            self._pages.move_to_end(page)
            self._stale.discard(page)
        while len(self._pages) > MAX_PAGES:
            gone, _lines = self._pages.popitem(last=False)
            self._stale.discard(gone)
