"""A line of buttons below a view: what can be done about the chosen row. What cannot be done now is off.

The line is always there, so that no row moves when one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.gui.buttons import button


class OfferBar(QWidget):
    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons: list[QWidget] = []
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 5, 6, 5)
        row.setSpacing(6)
        for action in actions:
            made = button(action, self)
            self.buttons.append(made)
            row.addWidget(made)
        row.addStretch(1)
        self.note = QLabel(self)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row.addWidget(self.note)
