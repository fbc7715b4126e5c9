"""The buttons of actions: one size, and a keyboard focus that never slides on to another button.

Qt hands the focus of a button that is switched off to the next one, which here may be Halt.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QToolButton, QWidget

from app.gui.actions import BusyAction


class ActionButton(QToolButton):
    """Switched off with the focus on it, it gives it to nobody, and takes it back when its work is done."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._had_focus = False

    def focusNextPrevChild(self, next: bool) -> bool:
        if self.isEnabled():
            return super().focusNextPrevChild(next)
        self._had_focus = True
        return False

    def take_focus_back(self) -> None:
        """Unless the person has gone elsewhere meanwhile."""
        had_focus, self._had_focus = self._had_focus, False
        if had_focus and self.isEnabled() and self.window().focusWidget() is None:
            self.setFocus()


def button(action: QAction, parent: QWidget) -> ActionButton:
    """A button for an action: its text, shortcut and whether it can be pressed are the action's."""
    made = ActionButton(parent)
    dress(made, action)
    return made


def dress(made: ActionButton, action: QAction) -> None:
    """Gives a button its action, and the same size and focus as all others."""
    made.setDefaultAction(action)
    if isinstance(action, BusyAction):
        action.settled.connect(made.take_focus_back)
    made.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
    made.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    metrics = made.fontMetrics()
    height = round(metrics.height() * 1.75)
    made.setMinimumHeight(height)
    made.setMinimumWidth(metrics.horizontalAdvance(action.iconText()) + round(height * 0.75))
    # Where the button has less room for words than the menu.
    made.setAccessibleName(action.text().replace("&", "").rstrip("…"))
