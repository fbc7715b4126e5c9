"""Start at login, as an entry of the menu that shows how it is and changes it.

How each system has it is `app/engine/autostart.py`'s; files and registry are touched on a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.engine.autostart import Autostart, AutostartFailed, State, autostart, command
from app.gui.notice import Notice
from app.tasks import Tasks


def of_this_home(home: Path) -> Autostart:
    """Blocking."""
    return autostart(command(home, os.environ))


class StartAtLogin(QObject):
    """`make` is called on a thread."""

    def __init__(
        self, make: Callable[[], Autostart], tasks: Tasks, notice: Notice, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._make = make
        self._tasks = tasks
        self._notice = notice
        self._busy = False
        self.action = QAction(self.tr("Start at &login, in the tray"), self)
        self.action.setCheckable(True)
        self.action.triggered.connect(self._wished)

    def follow(self, menu: QMenu) -> None:
        """The tick is looked up when the menu opens: the system's own settings may have changed it."""
        menu.aboutToShow.connect(self.look)

    def look(self) -> None:
        if not self._busy:
            self._start("looks at login", self._looked())

    def _wished(self, on: bool) -> None:
        if not self._busy:
            self._start("changes the login", self._changed(on))

    def _start(self, name: str, work: object) -> None:
        self._busy = True
        self._tasks.start(name, work)  # type: ignore[arg-type]

    async def _looked(self) -> None:
        try:
            self._show(await asyncio.to_thread(lambda: self._make().status()))
        except AutostartFailed as error:
            self.action.setToolTip(str(error))
        finally:
            self._busy = False

    async def _changed(self, on: bool) -> None:
        try:
            state = await asyncio.to_thread(lambda: self._make().on() if on else self._make().off())
        except AutostartFailed as error:
            self.action.setChecked(not on)
            self._notice.say(str(error), "error")
        else:
            self._show(state)
            well = (state.word == "on") == on
            said = self.tr("Onefill starts at login, hidden in the tray.")
            gone = self.tr("Onefill does not start at login any more.")
            self._notice.say((said if on else gone) if well else state.said, "ok" if well else "warning")
        finally:
            self._busy = False

    def _show(self, state: State) -> None:
        self.action.setChecked(state.word == "on")
        self.action.setToolTip(state.said)
