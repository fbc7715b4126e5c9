"""Questions to a person, without a nested loop: a dialog is opened, and its answer is a future.

`open()` only, never the waiting kind: one of those inside a coroutine kills the background tasks for good.
"""

from __future__ import annotations

import asyncio

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QMessageBox, QWidget


async def ask(parent: QWidget, title: str, text: str, more: str, yes: str, no: str) -> bool:
    """True if the person pressed `yes`. The other button is the default one, and what Escape means."""
    box = QMessageBox(parent)
    box.setWindowTitle(title)
    box.setIcon(QMessageBox.Icon.Question)
    box.setText(text)
    box.setInformativeText(more)
    agree = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    refuse = box.addButton(no, QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(refuse)
    box.setEscapeButton(refuse)
    pressed = await _answer(box)
    return pressed is agree


async def tell(parent: QWidget | None, title: str, text: str, more: str) -> None:
    """Shows one message and returns when it was put away."""
    box = QMessageBox(parent)
    box.setWindowTitle(title)
    box.setIcon(QMessageBox.Icon.Critical)
    box.setText(text)
    box.setInformativeText(more)
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    await _answer(box)


async def _answer(box: QMessageBox) -> QAbstractButton | None:
    closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)

    def close(_result: int) -> None:
        if not closed.done():
            closed.set_result(None)

    box.finished.connect(close)
    box.open()
    try:
        await closed
        return box.clickedButton()
    finally:
        box.hide()
        box.deleteLater()
