"""The band that cannot be put away: orders of which nobody knows the fate. It goes when they are resolved."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app.gui.notice import Card, ink
from app.gui.theme import Tone, scaled


class Attention(Card):
    """Hidden while the count is zero."""

    asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._count = 0
        self.label = QLabel(self)
        self.label.setWordWrap(True)
        self.label.setFont(scaled(self.font(), 1.1, bold=True))
        self.button = QToolButton(self)
        self.button.setText(self.tr("Show orders"))
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.clicked.connect(self.asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 7, 12, 7)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.set_tone(Tone.DOUBT, loud=True)
        self._colour()
        self.hide()

    def show_count(self, count: int) -> None:
        if count == self._count:
            return
        self._count = count
        if count == 1:
            text = self.tr(
                "?  1 order needs you: nobody knows yet whether the broker has it. It is not sent again."
            )
        else:
            text = self.tr(
                "?  {number} orders need you: nobody knows yet whether the broker has them. "
                "They are not sent again."
            ).format(number=count)
        self.label.setText(text)
        self.setAccessibleName(text)
        self.setVisible(count > 0)

    def _colour(self) -> None:
        ink(self.label, self.theme.solid_ink[Tone.DOUBT])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()
