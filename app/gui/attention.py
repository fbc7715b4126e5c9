"""The band that cannot be put away: something needs a person. It goes quiet when nothing does any more.

Its line is always there, so that nothing moves under the mouse when it gets loud.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from app.gui.formats import one_line, plain_tip
from app.gui.notice import Card, ink
from app.gui.status_strip import ElidedLabel
from app.gui.theme import Tone, scaled
from app.ledger.needs import Need


class Attention(Card):
    """Loud while there is anything worse than a note."""

    asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = ElidedLabel(self)
        self.label.setFont(scaled(self.font(), 1.1, bold=True))
        self.button = QToolButton(self)
        self.button.setText(self.tr("Show what needs you"))
        self.button.clicked.connect(self.asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 7, 12, 7)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.setFixedHeight(self.button.sizeHint().height() + 14)
        self._loud = False
        self.show_needs([])

    @property
    def is_loud(self) -> bool:
        return self._loud

    def show_needs(self, needs: Sequence[Need]) -> None:
        """`needs` worst first: the first one is said, of the others how many there are."""
        pressing = [need for need in needs if need.severity != "info"]
        self._loud = bool(pressing)
        text = "✓  " + self.tr("Nothing needs you")
        if pressing:
            text = f"!  {one_line(pressing[0].text)}"
            if len(needs) > 1:
                more = self.tr("All that needs you: {number}.").format(number=len(needs))
                text = f"!  {more}  {one_line(pressing[0].text)}"
        elif needs:
            text += ". " + self.tr("Notes: {number}").format(number=len(needs))
        if text != self.label.text:
            self.label.setText(text)
            self.label.setToolTip(plain_tip(text))
            self.setAccessibleName(text)
        self.button.setVisible(self._loud)
        self._colour()

    def _colour(self) -> None:
        self.set_tone(Tone.DOUBT if self._loud else None, loud=self._loud)
        ink(self.label, self.theme.solid_ink[Tone.DOUBT] if self._loud else self.theme.quiet)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
