"""The filter of a view: words, a time, and conditions as chips. Typing waits a moment.

Its two lines are always there, so that nothing moves when a filter is set or cleared.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import msgspec
from PySide6.QtCore import QDateTime, QEvent, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QComboBox,
    QDateTimeEdit,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.gui.columns import Table, translated
from app.gui.filters import RANGES, SECOND, Filter, midnight
from app.gui.formats import grouped
from app.gui.notice import ink
from app.gui.theme import theme_of
from app.gui.words import tr
from app.ledger.listing import LISTINGS

SETTLED_MS = 250
"""After the last key."""


class FilterBar(QWidget):
    """`changed` brings the Filter; `left` asks for the table below."""

    changed = Signal(object)
    left = Signal()

    def __init__(self, table: Table, now: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._table = table
        self._filter = Filter()
        self._counts: dict[str, int] = {}
        self._settled = QTimer(self, interval=SETTLED_MS, singleShot=True)
        self._settled.timeout.connect(self._typed)
        self.text = QLineEdit(self)
        self.text.setClearButtonEnabled(True)
        self.text.setAccessibleName(self.tr("Filter"))
        for inner in self.text.findChildren(QToolButton):
            inner.setAccessibleName(self.tr("Clear the words"))
        self.text.setPlaceholderText(self.tr("Filter: words, or {example}").format(example=self._example()))
        self.text.setToolTip(
            self.tr("Every word must be found. A name and a colon look in one column: {names}.").format(
                names=", ".join(LISTINGS[table.view].columns)
            )
        )
        self.span = QComboBox(self)
        self.span.setAccessibleName(self.tr("Time"))
        for name, words in RANGES.items():
            self.span.addItem(tr(words), name)
        self.since, self.until = self._time(self.tr("From")), self._time(self.tr("To"))
        self._set_times(midnight(now), midnight(now) + 86_400 * SECOND)
        self.status = QLabel(self)
        self.status.setAccessibleName(self.tr("What was found"))
        self.clear_button = QToolButton(self)
        self.clear_button.setText(self.tr("Clear filter"))
        self.clear_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.chips: dict[str, QToolButton] = {}
        self._lay_out()
        self.text.textEdited.connect(lambda _text: self._settled.start())
        self.text.textChanged.connect(self._cleared)
        self.text.returnPressed.connect(self._typed)
        self.text.installEventFilter(self)
        self.span.currentIndexChanged.connect(lambda _place: self._told())
        self.since.dateTimeChanged.connect(lambda _time: self._settled.start())
        self.until.dateTimeChanged.connect(lambda _time: self._settled.start())
        self.clear_button.clicked.connect(self.clear)
        self._show()

    def _example(self) -> str:
        columns = LISTINGS[self._table.view].columns
        return "symbol:AAPL" if "symbol" in columns else "account:paper" if "account" in columns else "AAPL"

    def _time(self, name: str) -> QDateTimeEdit:
        made = QDateTimeEdit(self)
        made.setDisplayFormat("yyyy-MM-dd HH:mm")
        made.setAccessibleName(name)
        made.hide()
        return made

    def _lay_out(self) -> None:
        first, second = QHBoxLayout(), QHBoxLayout()
        for row in (first, second):
            row.setSpacing(6)
        for widget in (self.text, self.span, self.since, self.until):
            first.addWidget(widget, 1 if widget is self.text else 0)
        for chip in self._table.chips:
            button = QToolButton(self)
            button.setCheckable(True)
            button.setAutoRaise(True)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.toggled.connect(partial(self._chip_pressed, chip.name))
            self.chips[chip.name] = button
            second.addWidget(button)
        second.addStretch(1)
        second.addWidget(self.status)
        second.addWidget(self.clear_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 6, 6, 4)
        column.setSpacing(4)
        column.addLayout(first)
        column.addLayout(second)

    @property
    def stops(self) -> list[QWidget]:
        """In the order of Tab."""
        return [self.text, self.span, self.since, self.until, *self.chips.values(), self.clear_button]

    # ------------------------------------------------------------------ the filter

    @property
    def filter(self) -> Filter:
        return self._filter

    def take(self, wanted: Filter) -> None:
        """Shows this filter, without a word to anybody."""
        self._filter = wanted
        with ExitStack() as quiet:
            for each in (self.text, self.span, self.since, self.until, *self.chips.values()):
                quiet.enter_context(QSignalBlocker(each))
            self.text.setText(wanted.text)
            self.span.setCurrentIndex(max(0, self.span.findData(wanted.span)))
            if wanted.span == "between":
                self._set_times(wanted.since, wanted.until)
            for name, button in self.chips.items():
                button.setChecked(name in wanted.chips)
        self._show()

    def sort(self, column: str | None, descending: bool) -> None:
        self._ask(msgspec.structs.replace(self._filter, sort=column, descending=descending))

    def clear(self) -> None:
        """All rows; the order stays."""
        self.take(Filter(sort=self._filter.sort, descending=self._filter.descending))
        self.changed.emit(self._filter)
        self.text.setFocus()

    def _typed(self) -> None:
        self._settled.stop()
        self._told()

    def _cleared(self, text: str) -> None:
        """By its own button: nothing more is to come."""
        if not text and self._filter.text:
            self._typed()

    def _chip_pressed(self, _name: str, _checked: bool) -> None:
        self._told()

    def _told(self) -> None:
        """Made of what stands in the widgets."""
        self._ask(
            Filter(
                text=self.text.text(),
                chips=[name for name, button in self.chips.items() if button.isChecked()],
                span=self.span.currentData(),
                since=self.since.dateTime().toMSecsSinceEpoch() * 1_000,
                until=self.until.dateTime().toMSecsSinceEpoch() * 1_000,
                sort=self._filter.sort,
                descending=self._filter.descending,
            )
        )

    def _ask(self, wanted: Filter) -> None:
        if wanted != self._filter:
            self._filter = wanted
            self._show()
            self.changed.emit(wanted)

    def _set_times(self, since: int, until: int) -> None:
        for edit, at in ((self.since, since), (self.until, until)):
            edit.setDateTime(QDateTime.fromMSecsSinceEpoch(at // 1_000))

    # ------------------------------------------------------------------ what is shown

    def _show(self) -> None:
        between = self._filter.span == "between"
        self.since.setVisible(between)
        self.until.setVisible(between)
        self.clear_button.setEnabled(self._filter.narrows)
        for chip in self._table.chips:
            self._show_chip(chip.name, translated(chip.text), self._counts.get(chip.name))

    def _show_chip(self, name: str, words: str, count: int | None) -> None:
        button = self.chips[name]
        number = "" if count is None else f" {grouped(count)}"
        pressed = button.isChecked()
        # A chip that holds says so by more than its ground.
        text = f"{words}{number} ✕" if pressed else f"{words}{number}"
        if text != button.text():
            button.setText(text)
        font = button.font()
        font.setBold(pressed)
        button.setFont(font)
        state = self.tr("on") if pressed else self.tr("off")
        button.setAccessibleName(self.tr("Only {what}: {state}").format(what=words + number, state=state))

    def show_counts(self, counts: dict[str, int]) -> None:
        """Beside each chip how many rows it stands for."""
        self._counts = counts
        for chip in self._table.chips:
            self._show_chip(chip.name, translated(chip.text), counts.get(chip.name))

    def show_found(self, rows: int) -> None:
        words = self.tr("{number} found") if self._filter.narrows else self.tr("{number} rows")
        self._say(words.format(number=grouped(rows)))

    def show_searching(self, searching: bool) -> None:
        if searching:
            self._say(self.tr("Searching…"))

    def _say(self, text: str) -> None:
        if text != self.status.text():
            self.status.setText(text)
        ink(self.status, theme_of(self.palette()).quiet)

    # ------------------------------------------------------------------ keys

    def eventFilter(self, watched: object, event: QEvent) -> bool:
        if watched is self.text and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Down:
                self.left.emit()
                return True
            if event.key() == Qt.Key.Key_Escape and self._filter.narrows:
                self.clear()
                return True
        return super().eventFilter(watched, event)  # type: ignore[arg-type]

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            ink(self.status, theme_of(self.palette()).quiet)

    def stop(self) -> None:
        self._settled.stop()
