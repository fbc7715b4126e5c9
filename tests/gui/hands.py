"""What a person does: click, press keys, and wait until something is to be seen. No nested loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

NONE = Qt.KeyboardModifier.NoModifier


def click(widget: QWidget, place: QPoint | None = None) -> None:
    """The left button, in the middle of the widget unless told where."""
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton, NONE, place or widget.rect().center())


def press(widget: QWidget, key: Qt.Key, keys: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(widget, key, keys)


async def until(holds: Callable[[], object]) -> None:
    """Lets the loop run until it holds. What does not come for half a minute will not come."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what is awaited is a state of many widgets, not one event
            await asyncio.sleep(0.005)
