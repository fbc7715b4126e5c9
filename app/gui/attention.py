"""The band that cannot be put away: something needs a person. It goes when nothing does any more."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.gui.formats import one_line
from app.gui.notice import Card, ink
from app.gui.theme import Tone, scaled
from app.ledger.needs import Need


class Attention(Card):
    """Hidden while there is nothing worse than a note."""

    asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = QLabel(self)
        self.label.setWordWrap(True)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setFont(scaled(self.font(), 1.1, bold=True))
        self.button = QToolButton(self)
        self.button.setText(self.tr("Show what needs you"))
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.clicked.connect(self.asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 7, 12, 7)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.set_tone(Tone.DOUBT, loud=True)
        self._colour()
        self.hide()

    def show_needs(self, needs: Sequence[Need]) -> None:
        """`needs` worst first: the first one is said, of the others how many there are."""
        pressing = [need for need in needs if need.severity != "info"]
        self.setVisible(bool(pressing))
        if not pressing:
            return
        text = f"!  {one_line(pressing[0].text)}"
        if len(needs) > 1:
            more = self.tr("All that needs you: {number}.")
            text += "  " + more.format(number=len(needs))
        if text != self.label.text():
            self.label.setText(text)
            self.setAccessibleName(text)

    def _colour(self) -> None:
        ink(self.label, self.theme.solid_ink[Tone.DOUBT])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
