"""The Setup and Help menus: the tools with which a person sets Onefill up, each a window of its own.

One of each at a time. Nothing of what they do is here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction

from app.gui.actions import plain_action
from app.gui.builder_dialog import BuilderDialog
from app.gui.check_dialog import CheckDialog
from app.gui.guide_dialog import GuideDialog
from app.gui.helping import Helping
from app.gui.keylab_dialog import KeyLabDialog
from app.gui.memory import Memory
from app.gui.ports import EngineView
from app.gui.settings_dialog import SettingsDialog
from app.gui.tool_dialog import ToolDialog, Tools
from app.tasks import Tasks

if TYPE_CHECKING:
    from app.gui.window import Window

D = TypeVar("D", bound=ToolDialog)

GUIDE_SEEN = "guide/seen"


class Setup(QObject):
    """Made after the window's other menus. `stop` before the engine stops."""

    def __init__(self, window: Window, engine: EngineView, tasks: Tasks, memory: Memory) -> None:
        super().__init__(window)
        self._window = window
        self._memory = memory
        self._tools = Tools(engine, tasks, window.show_thing, (window.doings.halt, window.doings.exits_only))
        self._open: dict[type[ToolDialog], ToolDialog] = {}
        self._stopping = False
        tr = self.tr
        self.check = self._action(tr("&Check a message…"), "Ctrl+K", self.open_check)
        self.check_chosen = self._action(
            tr("Check the chosen row's message…"), "Ctrl+Alt+K", self.open_chosen
        )
        self.builder = self._action(tr("&Alert builder…"), "Ctrl+B", self.open_builder)
        self.keylab = self._action(tr("&Key lab…"), "Ctrl+Alt+L", self.open_keylab)
        self.settings = self._action(tr("&Settings…"), "Ctrl+,", self.open_settings)
        self.guide = self._action(tr("&First steps…"), "Ctrl+F1", self.open_guide)
        self.settings.setMenuRole(QAction.MenuRole.PreferencesRole)
        bar = window.menuBar()
        setup, helps = bar.addMenu(tr("Set&up")), bar.addMenu(tr("&Help"))
        setup.addActions([self.builder, self.check, self.check_chosen, self.keylab])
        setup.addSeparator()
        setup.addAction(self.settings)
        self.menu = setup
        self.helping = Helping(window, self._tools, self)
        helps.addActions([self.helping.help, self.guide])
        helps.addSeparator()
        helps.addActions([self.helping.checkup, self.helping.bundle, self.helping.errors])

    def _action(self, text: str, keys: str, work: Callable[[], object]) -> QAction:
        return plain_action(text, keys, work, self)

    @property
    def dialogs(self) -> tuple[ToolDialog, ...]:
        return tuple(self._open.values())

    def one(self, kind: type[D], make: Callable[[], D]) -> D:
        """The open one, or a new one."""
        known = self._open.get(kind)
        if isinstance(known, kind):
            return known
        made = make()
        self._open[kind] = made
        made.left.connect(partial(self._closed, made))
        return made

    def _closed(self, dialog: ToolDialog) -> None:
        if self._open.get(type(dialog)) is dialog:
            del self._open[type(dialog)]
            dialog.end()

    # ------------------------------------------------------------------ the tools

    def open_check(self, text: str = "", name: str = "", source: str = "") -> CheckDialog | None:
        if self._stopping:
            return None
        dialog = self.one(CheckDialog, lambda: CheckDialog(self._tools, self._window))
        dialog.open_with(text, name, source)
        return dialog

    def open_chosen(self) -> None:
        """The message of the row that is chosen: a delivery's, or the one that a signal came from."""
        line = self._window.current.table.current_line
        name = "" if line is None else line.id
        self.open_check(name=name if name[:1] in ("D", "S") else "")

    def open_builder(self) -> BuilderDialog | None:
        if self._stopping:
            return None
        dialog = self.one(BuilderDialog, lambda: BuilderDialog(self._tools, self.open_check, self._window))
        dialog.open_beside((1040, 680))
        return dialog

    def open_keylab(self) -> KeyLabDialog | None:
        if self._stopping:
            return None
        dialog = self.one(KeyLabDialog, lambda: KeyLabDialog(self._tools, self._window))
        dialog.start()
        return dialog

    def open_settings(self) -> SettingsDialog | None:
        if self._stopping:
            return None
        dialog = self.one(SettingsDialog, lambda: SettingsDialog(self._tools, self._window))
        dialog.start()
        return dialog

    def open_guide(self) -> GuideDialog | None:
        if self._stopping:
            return None
        dialog = self.one(GuideDialog, self._made_guide)
        dialog.start()
        return dialog

    def _made_guide(self) -> GuideDialog:
        window = self._window
        dialog = GuideDialog(
            self._tools, window.copy_message, window.hook_bar.copy, self.open_builder, window
        )
        dialog.left.connect(self._guide_seen)
        return dialog

    def _guide_seen(self) -> None:
        self._memory.keep(GUIDE_SEEN, "yes")

    def greet(self) -> None:
        """The guide, where nobody has seen it in this home."""
        if not self._memory.text(GUIDE_SEEN):
            self.open_guide()

    def stop(self) -> None:
        """Closes them all; nothing can be opened any more."""
        self._stopping = True
        self.helping.stop()
        for action in (self.check, self.check_chosen, self.builder, self.keylab, self.settings, self.guide):
            action.setEnabled(False)
        for dialog in self.dialogs:
            if isinstance(dialog, GuideDialog):
                self._guide_seen()
            self._closed(dialog)
