"""Where senders post to: a source's address, its token blanked on the screen and whole when copied.

Says loudly when alerts still post to another address than the one that is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.gui.buttons import button
from app.gui.formats import plain_tip, visible, without_token
from app.gui.notice import Card, ink
from app.gui.theme import Tone, scaled

if TYPE_CHECKING:
    from app.engine import HookAddress


class AddressAlarm(Card):
    """Hidden while the alerts post to the address that is shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = QLabel(self)
        self.label.setWordWrap(True)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setFont(scaled(self.font(), 1.1, bold=True))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 7, 12, 7)
        layout.addWidget(self.label, 1)
        self.set_tone(Tone.BAD, loud=True)
        self._colour()
        self.hide()

    def show_taken(self, taken: str | None) -> None:
        """`taken`: where the alerts still post to; None where that is right."""
        self.setVisible(taken is not None)
        if taken is None:
            return
        text = self.tr(
            "!  Alerts still post to {address}, and that is not this program any more. Copy the hook address "
            "and put it into every alert."
        ).format(address=visible(taken))
        if text != self.label.text():
            self.label.setText(text)
            self.setAccessibleName(text)

    def _colour(self) -> None:
        ink(self.label, self.theme.solid_ink[Tone.BAD])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._colour()


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
        self.alarm = AddressAlarm(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.alarm)
        self._row = QHBoxLayout()
        self._row.setSpacing(6)
        column.addLayout(self._row)
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
        self.alarm.show_taken(next((each.taken for each in addresses if each.taken is not None), None))
        self.source.blockSignals(True)
        self.source.clear()
        self.source.addItems([each.source for each in addresses])
        self.source.setCurrentIndex(max(0, self.source.findText(chosen)) if addresses else -1)
        self.source.blockSignals(False)
        self.source.setVisible(len(addresses) > 1)
        self._show()

    def keep_copies(self, note: Callable[[], None]) -> None:
        """Calls `note` whenever a person took a public address, to put it into alerts."""
        self.copied.connect(lambda _source, is_public: note() if is_public else None)

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
