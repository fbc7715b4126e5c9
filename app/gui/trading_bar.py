"""The kill switch: its state in a word, and Halt, Exits only, Resume always in reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.gui.buttons import ActionButton, button, dress
from app.gui.notice import ink
from app.gui.theme import scaled, theme_of
from app.gui.words import TRADING, look_up, tr


class TradingBar(QWidget):
    def __init__(
        self, halt: QAction, exits_only: QAction, resume: QAction, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._state: str | None = None
        self.word = QLabel(self)
        self.word.setFont(scaled(self.font(), 1.1, bold=True))
        self.halt = StopButton(self)
        dress(self.halt, halt)
        self.exits_only = button(exits_only, self)
        self.resume = button(resume, self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(QLabel(self.tr("Trading"), self))
        layout.addWidget(self.word)
        for each in (self.halt, self.exits_only, self.resume):
            layout.addWidget(each)
        # Room for the longest word, so that the buttons never move under the mouse.
        metrics = self.word.fontMetrics()
        longest = max(metrics.horizontalAdvance(word.shown) for word in TRADING.values())
        self.word.setMinimumWidth(longest + metrics.averageCharWidth())
        self._colour()

    def show_state(self, state: str) -> None:
        if state == self._state:
            return
        self._state = state
        word = look_up(TRADING, state)
        self.word.setText(word.shown)
        self.word.setToolTip(tr(word.help))
        self.word.setAccessibleName(self.tr("Trading is {state}").format(state=tr(word.text)))
        self._colour()

    def _colour(self) -> None:
        theme = theme_of(self.palette())
        if self._state is not None:
            ink(self.word, theme.ink[look_up(TRADING, self._state).tone])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()


class StopButton(ActionButton):
    """White on dark red while it can be pressed. Painted here, for the style would lighten the ground."""

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.isEnabled():
            super().paintEvent(event)
            return
        theme, painter = theme_of(self.palette()), QPainter(self)
        ground = theme.stop.darker(120) if self.isDown() else theme.stop
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(ground.lighter(112) if self.underMouse() and not self.isDown() else ground)
        painter.setPen(QPen(theme.text, 2) if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), 3, 3)
        font = self.font()
        font.setBold(True)
        painter.setFont(font)
        painter.setPen(theme.stop_ink)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text())
        painter.end()


def command_text(answer: Mapping[str, object]) -> str:
    """What a change of the kill switch did, and what it could not stop any more."""
    state = str(answer.get("trading_state", ""))
    parts = {
        "halted": tr("Trading is halted: signals are claimed and shown, and nothing is placed."),
        "exits_only": tr("Exits only: entries are denied, exits are placed."),
        "active": tr("Trading is active: entries and exits are placed."),
    }
    text = [parts.get(state, state)]
    if state != "active":
        for name, words in (
            ("in_flight", tr("Already on the way: {orders}.")),
            ("resting", tr("At the broker and may still fill: {orders}.")),
        ):
            orders = answer.get(name)
            if isinstance(orders, Sequence) and orders:
                text.append(words.format(orders=_named([str(each) for each in orders])))
    return " ".join(text)


def _named(orders: list[str]) -> str:
    shown = ", ".join(orders[:5])
    return (
        shown
        if len(orders) <= 5
        else tr("{some} and {number} more").format(some=shown, number=len(orders) - 5)
    )
