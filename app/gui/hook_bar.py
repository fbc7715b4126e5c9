"""Where senders post to: a source's address, its token blanked on the screen and whole when copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QSizePolicy, QToolButton, QWidget

from app.gui.buttons import button
from app.gui.formats import plain_tip, without_token

if TYPE_CHECKING:
    from app.engine import HookAddress


class HookBar(QWidget):
    """`copied` names the source whose address is now on the clipboard."""

    copied = Signal(str, bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._addresses: list[HookAddress] = []
        self.buttons: list[QToolButton] = []
        label = QLabel(self.tr("Hook address"), self)
        self.source = QComboBox(self)
        self.source.setAccessibleName(self.tr("Source"))
        self.source.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.address = QLineEdit(self)
        self.address.setReadOnly(True)
        self.address.setAccessibleName(self.tr("Hook address, its token blanked"))
        self.address.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.address.setMinimumWidth(self.fontMetrics().averageCharWidth() * 16)
        label.setBuddy(self.address)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(6)
        for widget in (label, self.source, self.address):
            self._row.addWidget(widget)
        self.source.currentIndexChanged.connect(self._show)

    def add_button(self, action: QAction) -> QToolButton:
        made = button(action, self)
        self._row.addWidget(made)
        self.buttons.append(made)
        return made

    @property
    def current(self) -> HookAddress | None:
        place = self.source.currentIndex()
        return self._addresses[place] if 0 <= place < len(self._addresses) else None

    def show_addresses(self, addresses: list[HookAddress]) -> None:
        """Keeps the chosen source where it is still there."""
        if addresses == self._addresses:
            return
        chosen = self.source.currentText()
        self._addresses = list(addresses)
        self.source.blockSignals(True)
        self.source.clear()
        self.source.addItems([each.source for each in addresses])
        self.source.setCurrentIndex(max(0, self.source.findText(chosen)) if addresses else -1)
        self.source.blockSignals(False)
        self.source.setVisible(len(addresses) > 1)
        self._show()

    def copy(self) -> None:
        """Puts the whole address, token included, on the clipboard: the public one where there is one."""
        current = self.current
        if current is not None:
            QGuiApplication.clipboard().setText(current.public or current.local)
            self.copied.emit(current.source, current.public is not None)

    def _show(self) -> None:
        current = self.current
        if current is None:
            self.address.setText("")
            self.address.setPlaceholderText(self.tr("No source is open"))
            return
        self.address.setText(without_token(current.public or current.local))
        self.address.setCursorPosition(0)
        reach = (
            self.tr("Reachable from the internet.")
            if current.public
            else self.tr("Reachable from this computer only: a tunnel has to lead to it.")
        )
        self.address.setToolTip(plain_tip(f"{current.source}: {reach}"))
