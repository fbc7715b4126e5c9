"""How the window lives on a desktop: the tray, what closing means, and what is shown on this screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QSystemTrayIcon

from app.engine import Engine
from app.gui.autostart import StartAtLogin, of_this_home
from app.gui.leaving import Leaving
from app.gui.memory import Memory
from app.gui.tray import Tray
from app.gui.window import Window
from app.ledger.needs import Need
from app.notify import Show
from app.tasks import Tasks


class Manners:
    """Of one window on a running engine. `stop` before the window is shut."""

    def __init__(
        self,
        window: Window,
        engine: Engine,
        is_there: Callable[[], bool] = QSystemTrayIcon.isSystemTrayAvailable,
    ) -> None:
        self._window = window
        self._engine = engine
        self._tasks = Tasks()
        stays = engine.settings.system.close == "tray"
        memory = Memory(engine.home, window)
        stopping = engine.stop_requested.is_set
        self.leaving = Leaving(window, engine.status, memory, stopping, stays=stays)
        self.tray = Tray(window, engine.status, self._pressing, self.leaving.quit, is_there=is_there)
        self.leaving.can_stay = self.tray.can_keep
        self.leaving.say = self.tray.say
        home: Path = engine.home
        self.login = StartAtLogin(lambda: of_this_home(home), self._tasks, window.notice, window)
        window.setup.menu.addAction(self.login.action)
        self.login.follow(window.setup.menu)
        self._show_here(self.tray.tell)

    def show(self, *, minimized: bool) -> None:
        """Opens the window, or at login only the icon; without a tray the window waits in the bar."""
        if not minimized:
            self._window.show()
        elif self.tray.is_shown:
            self._window.pause(True)
        else:
            self._window.showMinimized()

    async def stop(self) -> None:
        self._show_here(None)
        await self.leaving.stop()
        await self._tasks.stop()
        self.tray.end()

    def _pressing(self) -> list[Need]:
        manners = self._engine.manners
        return manners.notices.pressing if manners is not None else []

    def _show_here(self, show: Show | None) -> None:
        """`show`: what shows a message on this screen; None once the window goes."""
        manners = self._engine.manners
        if manners is not None:
            manners.notices.show_on_desktop(show)
            manners.show_window = self.tray.show_window if show is not None else None
