"""A window on a real engine whose secrets stay in its own home, and how a person handles the setup tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QTextBrowser,
    QWidget,
)

from app.engine import Engine
from app.gui.window import Window
from app.secrets import Secrets
from tests.gui.hands import press, until

W = TypeVar("W")


@dataclass(frozen=True)
class Desk:
    engine: Engine
    window: Window


@contextlib.asynccontextmanager
async def real(home: Path) -> AsyncIterator[Desk]:
    engine = Engine(home, port=0, secrets=lambda: Secrets(home, {}, keyring=None))
    await engine.start()
    window = Window(engine)
    window.show()
    try:
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        yield Desk(engine, window)
    finally:
        window.say_stopping()
        await engine.stop()
        await window.shut()


def there(found: W | None) -> W:
    assert found is not None
    return found


def write(field: QLineEdit | QPlainTextEdit, text: str) -> None:
    """In the place of what stands there, by keys."""
    field.setFocus()
    press(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    press(field, Qt.Key.Key_Delete)
    QTest.keyClicks(field, text)


def choose(combo: QComboBox, text: str) -> None:
    """By the arrow keys, as a person would go through it."""
    combo.setFocus()
    press(combo, Qt.Key.Key_Home)
    for _ in range(combo.count()):
        if text in combo.currentText():
            return
        press(combo, Qt.Key.Key_Down)
    assert text in combo.currentText(), [combo.itemText(place) for place in range(combo.count())]


def nameless(dialog: QWidget) -> list[str]:
    """Controls that a screen reader could not name."""
    kinds = (QAbstractButton, QComboBox, QLineEdit, QPlainTextEdit, QTextBrowser, QAbstractItemView)
    found: list[str] = []
    for kind in kinds:
        for widget in dialog.findChildren(kind):
            inner = isinstance(widget, QHeaderView) or isinstance(widget.parent(), QComboBox)
            if inner or widget.objectName().startswith(("qt_", "Scroll")) or not widget.isVisible():
                continue
            interface = QAccessible.queryAccessibleInterface(widget)
            if not interface.text(QAccessible.Text.Name).strip():
                found.append(repr(widget))
    return found


def tab_stops(dialog: QWidget, first: QWidget) -> list[QWidget]:
    """Where Tab goes from one control on, until it is back."""
    seen: list[QWidget] = []
    first.setFocus()
    for _ in range(80):
        current = QApplication.focusWidget()
        if current is None or current in seen or not dialog.isAncestorOf(current):
            break
        seen.append(current)
        press(current, Qt.Key.Key_Tab)
    return seen
