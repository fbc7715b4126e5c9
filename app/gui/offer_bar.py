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
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(6, 5, 6, 5)
        self._row.setSpacing(6)
        self._row.addStretch(1)
        for action in actions:
            self.add(action)
        self.note = QLabel(self)
        self.note.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._row.addWidget(self.note)

    def add(self, action: QAction) -> None:
        """One more button behind the others."""
        made = button(action, self)
        self.buttons.append(made)
        self._row.insertWidget(len(self.buttons) - 1, made)
