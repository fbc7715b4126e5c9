"""The strip on top: is it alive? One cell a fact, with a glyph, a word and the reason in words.

Shows what the engine says of itself; it asks nobody and decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent, QTextLayout
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.gui.formats import plain_tip, visible
from app.gui.notice import Card, ink
from app.gui.theme import scaled
from app.gui.words import ABSENT, LEVELS, TRADING, Word, fact_name, tr

if TYPE_CHECKING:
    from app.engine import Fact, Status

CELL_CHARS = 22
"""A cell is at least this wide; what does not fit beside goes to a second line."""
REASON_LINES = 2
"""What does not fit is in the tooltip and in Health."""


class FactCell(Card):
    """Name, glyph and word on the first line, the reason on the second, the whole of it in the tooltip."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fact: Fact | None = None
        self.name, self.word, self.reason = QLabel(self), QLabel(self), ElidedLabel(self)
        small = scaled(self.font(), 0.9)
        self.name.setFont(small)
        self.reason.setFont(small)
        self.word.setFont(scaled(self.font(), 1.0, bold=True))
        # Room for both from the start: a part that gets worse must not move what is below, Halt least of all.
        self.reason.set_lines(REASON_LINES)
        for label in (self.name, self.word):
            label.setTextFormat(Qt.TextFormat.PlainText)
        first = QHBoxLayout()
        first.setSpacing(6)
        first.addWidget(self.name)
        first.addWidget(self.word)
        first.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 5, 6, 5)
        layout.setSpacing(1)
        layout.addLayout(first)
        layout.addWidget(self.reason)
        layout.addStretch(1)

    @property
    def fact(self) -> Fact | None:
        return self._fact

    def show_fact(self, fact: Fact) -> None:
        if fact == self._fact:
            return
        self._fact = fact
        shown, reason, name = fact_word(fact), visible(fact.reason), fact_name(fact.name)
        word = tr(shown.text)
        self.name.setText(name)
        self.word.setText(shown.shown)
        self.reason.setText(reason)
        whole = f"{name}: {word}" + (f". {reason}" if reason else "")
        self.setToolTip(plain_tip(whole))
        self.setAccessibleName(f"{name}: {word}")
        self.setAccessibleDescription(reason)
        self._colour()

    def _colour(self) -> None:
        if self._fact is None:
            return
        tone, theme = fact_word(self._fact).tone, self.theme
        self.set_tone(tone if self._fact.level != "ok" else None)
        ink(self.name, theme.quiet if self._fact.level == "ok" else theme.text)
        ink(self.reason, theme.quiet if self._fact.level == "ok" else theme.text)
        ink(self.word, theme.ink[tone] if self._fact.level == "ok" else theme.wash_ink[tone])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()


def fact_word(fact: Fact) -> Word:
    """Glyph, word and tone of what a part says of itself."""
    if fact.name == "trading" and fact.word in TRADING:
        return TRADING[fact.word]
    if fact.level == "ok" and fact.word == "none":
        return ABSENT
    word = visible(fact.word.replace("_", " "))
    level = LEVELS[fact.level]
    return Word(level.glyph, "OK" if word == "ok" else word[:1].upper() + word[1:], level.tone)


class ElidedLabel(QWidget):
    """A text on so many lines; what does not fit gives up its end rather than its neighbours' room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self._lines = 1
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    @property
    def text(self) -> str:
        """The whole of it."""
        return self._text

    def setText(self, text: str) -> None:
        self._text = text
        self._resized()

    def set_lines(self, lines: int) -> None:
        """At most so many; there is room for them, few as they are now."""
        self._lines = lines
        self._resized()

    def shown_lines(self) -> list[str]:
        """What is painted, the last line elided where more would follow."""
        lines: list[str] = []
        layout = QTextLayout(self._text, self.font())
        layout.beginLayout()
        while (line := layout.createLine()).isValid() and len(lines) < self._lines:
            line.setLineWidth(max(1, self.width()))
            lines.append(self._text[line.textStart() : line.textStart() + line.textLength()])
        layout.endLayout()
        if lines:
            rest = self._text[sum(len(each) for each in lines[:-1]) :]
            lines[-1] = self.fontMetrics().elidedText(rest, Qt.TextElideMode.ElideRight, self.width())
        return lines

    def sizeHint(self) -> QSize:
        return QSize(0, self.fontMetrics().lineSpacing() * self._lines)

    def _resized(self) -> None:
        self.updateGeometry()
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._lines > 1 and event.oldSize().width() != event.size().width():
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, metrics = QPainter(self), self.fontMetrics()
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        for place, line in enumerate(self.shown_lines()):
            painter.drawText(0, place * metrics.lineSpacing() + metrics.ascent(), line)
        painter.end()


class StatusStrip(QWidget):
    """All facts, side by side, in as many lines as they need."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(self.tr("Status"))
        self._cells: dict[str, FactCell] = {}
        self._columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 4, 0, 2)
        self._grid.setHorizontalSpacing(4)
        self._grid.setVerticalSpacing(4)

    @property
    def cells(self) -> dict[str, FactCell]:
        """By the fact's name."""
        return self._cells

    def show_status(self, status: Status) -> None:
        names = [fact.name for fact in status.facts]
        if names != list(self._cells):
            self._rebuild(names)
        for fact in status.facts:
            self._cells[fact.name].show_fact(fact)

    def _rebuild(self, names: Sequence[str]) -> None:
        kept = {name: self._cells.get(name) or FactCell(self) for name in dict.fromkeys(names)}
        for name, cell in self._cells.items():
            if name not in kept:
                cell.setParent(None)
                cell.deleteLater()
        self._cells = kept
        self._columns = 0
        self._arrange()

    def _arrange(self) -> None:
        least = self.fontMetrics().averageCharWidth() * CELL_CHARS
        fitting = max(1, self.width() // max(1, least))
        lines = -(-len(self._cells) // fitting) or 1
        columns = -(-len(self._cells) // lines)
        if columns == self._columns:
            return
        self._columns = columns
        for place, cell in enumerate(self._cells.values()):
            self._grid.addWidget(cell, place // columns, place % columns)
            cell.show()
        for column in range(self._grid.columnCount()):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._cells:
            self._arrange()
