"""The Qt application: one that cannot be ended from outside, with our look. Made once, before the loop.

Ending the loop is the last thing `main` does; a quit that came from anywhere else would lose the clean stop.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QGuiApplication, QIcon, QSessionManager
from PySide6.QtWidgets import QApplication

from app.gui.theme import dark_palette, light_palette
from app.gui.translations import install
from app.settings import resource

ICON = "icon.svg"


class Application(QApplication):
    """Swallows `QEvent.Quit` (Cmd-Q, a session's end, `quit()`) and calls `wish` instead.

    Overrides `event`, which sees what is sent to the application alone; a filter would run for every event of
    every widget.
    """

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments)
        self.wish: Callable[[str], None] | None = None
        self.setApplicationName("Onefill")
        self.setDesktopFileName("onefill")
        self.setQuitOnLastWindowClosed(False)
        install(self)
        self.setStyle("Fusion")
        self.commitDataRequest.connect(self._session_ends)
        wear_colours(self)
        self.styleHints().colorSchemeChanged.connect(lambda _scheme: wear_colours(self))
        if icon := resource(ICON):
            self.setWindowIcon(QIcon(str(icon)))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Quit:
            event.ignore()
            self._ask("asked to quit")
            return True
        return super().event(event)

    def _session_ends(self, _manager: QSessionManager) -> None:
        self._ask("the session ends")

    def _ask(self, why: str) -> None:
        if self.wish is not None:
            self.wish(why)


def wear_colours(application: QGuiApplication) -> None:
    """Light or dark as the system says; light where it does not say."""
    is_dark = application.styleHints().colorScheme() is Qt.ColorScheme.Dark
    application.setPalette(dark_palette() if is_dark else light_palette())
