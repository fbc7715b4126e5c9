"""What is shown of an error that nobody handled: once, beside the window, and a count that stays in its bar.

It takes no focus, moves nothing and hides no state, and it says first whether signals are being taken.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QToolButton, QWidget

from app.engine.crashes import Crash, Crashes
from app.engine.support import versions
from app.gui.crash_words import signals_now
from app.gui.formats import local_time, plain_tip
from app.gui.notice import ink
from app.gui.theme import fixed_font, scaled
from app.gui.tool_dialog import ToolDialog, Tools
from app.gui.words import LEVELS
from app.ledger.queries import rfc3339

REFRESH_MS = 1_000
MARGIN = 24
"""Pixels from the lower right corner of the window, which is where the story is."""


class CrashNotice(ToolDialog):
    """One window for all kinds of errors; new ones are added to it while it is open."""

    def __init__(self, tools: Tools, crashes: Crashes, save: Callable[[], object], parent: QWidget) -> None:
        super().__init__("", tools, parent)
        self._window = parent
        self.setWindowTitle(self.tr("An error in Onefill"))
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self._crashes = crashes
        self.state = QLabel(self)
        self.state.setFont(scaled(self.font(), 1.1, bold=True))
        self.what = QLabel(self)
        for label in (self.state, self.what):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.column.addWidget(label)
        self.story = QPlainTextEdit(self)
        self.story.setReadOnly(True)
        self.story.setFont(fixed_font(self.font()))
        self.story.setAccessibleName(self.tr("What is known of the error"))
        self.column.addWidget(self.story, 1)
        self.column.addWidget(self.notice)
        self.save = self.button(self.tr("Save support &bundle…"), save)
        self.copy_all = self.button(self.tr("C&opy"), self._copy)
        self.leave = self.button(self.tr("Clo&se"), self.reject)
        below = QHBoxLayout()
        for each in (self.save, self.copy_all):
            below.addWidget(each)
        below.addStretch(1)
        below.addWidget(self.leave)
        self.column.addLayout(below)
        self._clock = QTimer(self, interval=REFRESH_MS)
        self._clock.timeout.connect(self.refresh)

    def show_beside(self) -> None:
        """In the lower right corner of the window; whoever types goes on typing."""
        self.refresh()
        parent = self._window
        width, height = min(560, parent.width()), min(340, parent.height())
        self.resize(width, height)
        corner = parent.mapToGlobal(parent.rect().bottomRight())
        self.move(corner.x() - width - MARGIN, corner.y() - height - 2 * MARGIN)
        self.show()
        self._clock.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    def refresh(self) -> None:
        level, text = signals_now(self.tools.engine.status())
        word = LEVELS[level]
        shown = f"{word.glyph} {text}"
        if shown != self.state.text():
            self.state.setText(shown)
            self.state.setAccessibleName(text)
        ink(self.state, self.theme.ink[word.tone])
        kinds = self._crashes.kinds
        self.what.setText(self._headline(kinds, self._crashes.count))
        story = "\n\n\n".join(map(self._told, reversed(kinds)))
        if story != self.story.toPlainText():
            self.story.setPlainText(story)

    def _headline(self, kinds: list[Crash], count: int) -> str:
        if not kinds:
            return ""
        text = self.tr("A part of Onefill failed in a way that nobody foresaw: {what}").format(
            what=kinds[-1].what
        )
        if count > 1:
            text += " " + self.tr("({count} times in all, {kinds} different)").format(
                count=count, kinds=len(kinds)
            )
        return text + "\n" + self.tr("What is claimed and sent stays as the ledger has it.")

    def _told(self, crash: Crash) -> str:
        often = self.tr("once") if crash.count == 1 else self.tr("{n} times").format(n=crash.count)
        at = local_time(rfc3339(crash.first_at))
        return f"{at}  {crash.where}  ({often})\n{crash.story}"

    def as_text(self) -> str:
        """For whoever helps: versions, the state, every story."""
        head = "\n".join(f"{name}: {value}" for name, value in versions().items())
        return f"{head}\n{self.state.text()}\n{self.what.text()}\n\n{self.story.toPlainText()}\n"

    def _copy(self) -> None:
        self.copy(self.as_text(), self.tr("The error is on the clipboard."))


class CrashMark(QToolButton):
    """How many errors there were, in the bar at the bottom; nothing while there was none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAutoRaise(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setText(LEVELS["error"].glyph)
        self.setAccessibleName(self.tr("Errors in Onefill that nobody handled"))
        self.hide()

    def show_count(self, count: int) -> None:
        if not count:
            return
        text = self.tr("1 error") if count == 1 else self.tr("{n} errors").format(n=count)
        self.setText(f"{LEVELS['error'].glyph} {text}")
        tip = self.tr("{errors} in Onefill that nobody handled: show").format(errors=text)
        self.setToolTip(plain_tip(tip))
        self.setAccessibleName(tip)
        self.show()


class CrashWatch(QObject):
    """Brings errors of all threads to the window's own. `first` comes once, with the first of them."""

    first = Signal()
    changed = Signal()
    _heard = Signal()

    def __init__(self, crashes: Crashes, parent: QObject) -> None:
        super().__init__(parent)
        self._crashes = crashes
        self._shown = False
        # Queued: the hook may run in any state of the program, and must return at once.
        self._heard.connect(self._tell, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        """Also tells what was there before the window."""
        self._crashes.listen(self._heard.emit)
        if self._crashes.count:
            self._heard.emit()

    def stop(self) -> None:
        self._crashes.listen(None)

    def _tell(self) -> None:
        self.changed.emit()
        if not self._shown:
            self._shown = True
            self.first.emit()
