"""What all tools of the Setup menu have in common: each a window beside the main one, never in its way.

Not modal, so that Halt stays in reach; its key works here too. Closing one only closes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QPushButton, QVBoxLayout, QWidget

from app.gui.notice import Notice, ink
from app.gui.ports import EngineView
from app.gui.theme import Theme, scaled, theme_of
from app.tasks import Tasks

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Tools:
    """What a tool works with. `show_thing` opens the story of an id in the main window.

    `everywhere` are actions whose keys work in every window.
    """

    engine: EngineView
    tasks: Tasks
    show_thing: Callable[[str], None]
    everywhere: tuple[QAction, ...] = ()


class ToolDialog(QDialog):
    """`left` comes when it was closed."""

    left = Signal()

    def __init__(self, title: str, tools: Tools, parent: QWidget) -> None:
        super().__init__(parent)
        self.tools = tools
        self._ended = False
        self.setWindowTitle(title)
        self.setModal(False)
        self.setSizeGripEnabled(True)
        self.addActions(list(tools.everywhere))
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(14, 12, 14, 12)
        self.column.setSpacing(10)
        self.notice = Notice(self)
        self.finished.connect(lambda _result: self.left.emit())

    def add_heading(self, text: str, more: str) -> None:
        heading = QLabel(text, self)
        heading.setFont(scaled(self.font(), 1.25, bold=True))
        self.column.addWidget(heading)
        below = quiet_label(more, self)
        self.column.addWidget(below)

    def open_beside(self, size: tuple[int, int]) -> None:
        """Shows it, no larger than the screen has room."""
        screen = self.screen().availableSize()
        self.resize(min(size[0], screen.width()), min(size[1], screen.height()))
        self.show()
        self.raise_()
        self.activateWindow()

    def button(self, text: str, work: Callable[[], object], name: str = "") -> QPushButton:
        """A button that Enter does not press by chance."""
        made = QPushButton(text, self)
        made.setAutoDefault(False)
        made.setDefault(False)
        if name:
            made.setAccessibleName(name)
        made.clicked.connect(lambda _checked=False: work())
        return made

    def run(self, name: str, work: Coroutine[Any, Any, None], *busy: QWidget) -> None:
        """Runs it beside the window; what is `busy` is off until it is over, and what goes wrong is said."""
        for widget in busy:
            widget.setEnabled(False)
        self.tools.tasks.start(f"window: {name}", self._run(name, work, busy))

    async def _run(self, name: str, work: Awaitable[None], busy: tuple[QWidget, ...]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, the person who pressed must see it
            log.warning("a tool of the window failed", tool=name, error=repr(error))
            if not self._ended:
                self.notice.say(str(error) or type(error).__name__, "error")
        finally:
            if not self._ended:
                for widget in busy:
                    widget.setEnabled(True)

    def copy(self, text: str, said: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.notice.say(said, "ok")

    @property
    def theme(self) -> Theme:
        return theme_of(self.palette())

    @property
    def is_over(self) -> bool:
        """Whether it is being thrown away: then nothing of it may be touched by what comes late."""
        return self._ended

    def end(self) -> None:
        """Off the screen for good."""
        self._ended = True
        self.hide()
        self.deleteLater()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and not self._ended:
            self.recolour()

    def recolour(self) -> None:
        """The palette changed: what has a colour of its own takes it anew."""
        for label in self.findChildren(QLabel, "quiet"):
            ink(label, self.theme.quiet)


def quiet_label(text: str, parent: QWidget) -> QLabel:
    """A line that explains; it wraps, can be copied, and stands back in colour."""
    label = QLabel(text, parent)
    label.setObjectName("quiet")
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    ink(label, theme_of(parent.palette()).quiet)
    return label
