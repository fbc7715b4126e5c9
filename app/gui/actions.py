"""Actions whose work takes a moment: a press starts it once, and the button is off until the answer is there.

A second press meanwhile does nothing, for on a slow day it would act twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence

from app.tasks import Tasks

log = structlog.get_logger(__name__)


class BusyAction(QAction):
    """`work` is started by each press; `failed` gets the one line of what went wrong.

    `settled` comes when it is over, well or not.
    """

    settled = Signal()

    def __init__(
        self,
        text: str,
        keys: str,
        work: Callable[[], Awaitable[None]],
        tasks: Tasks,
        failed: Callable[[str], None],
        parent: QObject,
    ) -> None:
        super().__init__(text, parent)
        set_keys(self, keys)
        self._work = work
        self._tasks = tasks
        self._failed = failed
        self._allowed = True
        self._busy = False
        self.triggered.connect(self._press)

    @property
    def is_busy(self) -> bool:
        return self._busy

    def allow(self, allowed: bool) -> None:
        """Whether it makes sense now; while busy it is off all the same."""
        self._allowed = allowed
        self._show()

    def _show(self) -> None:
        self.setEnabled(self._allowed and not self._busy)

    def _press(self) -> None:
        if self._busy or not self._allowed:
            return
        self._busy = True
        self._show()
        self._tasks.start(f"window: {self.text()}", self._run())

    async def _run(self) -> None:
        try:
            await self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the person who pressed must see it
            log.warning("an action of the window failed", action=self.text(), error=repr(error))
            self._failed(str(error) or type(error).__name__)
        finally:
            self._busy = False
            self._show()
            self.settled.emit()


def plain_action(text: str, keys: str, work: Callable[[], object], parent: QObject) -> QAction:
    """An action that is done at once."""
    action = QAction(text, parent)
    set_keys(action, keys)
    action.triggered.connect(lambda _checked=False: work())
    return action


def set_keys(action: QAction, keys: str) -> None:
    """The shortcut, named in the tooltip too."""
    words = action.text().replace("&", "").rstrip("….")
    action.setIconText(words)
    if keys:
        action.setShortcut(QKeySequence(keys))
        shown = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        action.setToolTip(f"{words} ({shown})")
