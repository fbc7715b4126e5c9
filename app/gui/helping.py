"""The Help menu beside the first steps: help on what is shown, the setup check, the support bundle, errors.

Each is a window of its own, made by its own module; here is only when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QStyle

from app.engine.crashes import Crashes, current
from app.engine.support import SupportFailed
from app.gui.actions import BusyAction, plain_action
from app.gui.checkup_dialog import CheckupDialog
from app.gui.crash_notice import CrashMark, CrashNotice, CrashWatch
from app.gui.help_dialog import FIRST, HelpDialog
from app.gui.help_text import OF_VIEW, REASONS, code_of
from app.gui.support_bundle import save_bundle
from app.gui.tool_dialog import Tools

if TYPE_CHECKING:
    from app.gui.setup import Setup
    from app.gui.window import Window

_FRAME = QStyle.PixelMetric.PM_DefaultFrameWidth


class Helping(QObject):
    """Made by Setup, which owns the dialogs. `stop` before the engine stops."""

    def __init__(self, window: Window, tools: Tools, setup: Setup, crashes: Crashes | None = None) -> None:
        super().__init__(setup)
        self._window = window
        self._tools = tools
        self._setup = setup
        self.crashes = crashes or current() or Crashes()
        self._stopping = False
        tr = self.tr
        self.help = plain_action(tr("&Help on what is shown"), "F1", self.open_here, self)
        self.checkup = plain_action(tr("Setup &check…"), "Ctrl+Alt+H", self.open_checkup, self)
        self.bundle = BusyAction(
            tr("Save support &bundle…"), "Ctrl+Alt+B", self._save, tools.tasks, self._failed, self
        )
        self.errors = plain_action(tr("&Errors…"), "Ctrl+Alt+E", self.open_errors, self)
        self.errors.setEnabled(False)
        self.mark = CrashMark(window)
        self.mark.clicked.connect(self.open_errors)
        bar = window.statusBar()
        bar.addPermanentWidget(self.mark)
        # Room for it from the start: what comes by itself moves nothing.
        bar.setMinimumHeight(self.mark.sizeHint().height() + bar.style().pixelMetric(_FRAME) * 2 + 4)
        self.watch = CrashWatch(self.crashes, self)
        self.watch.changed.connect(self._count)
        self.watch.first.connect(self._first)
        for view in window.views.values():
            page = OF_VIEW.get(view.definition.name, FIRST)
            button = view.empty.add_button(tr("Help on this"))
            button.clicked.connect(lambda _checked=False, page=page: self.open_help(page))
        if window.health.offers is not None:
            window.health.offers.add(self.checkup)
        self.watch.start()

    @property
    def menu_actions(self) -> tuple[QAction, ...]:
        return self.help, self.checkup, self.bundle, self.errors

    # ------------------------------------------------------------------ help and check

    def open_here(self) -> HelpDialog | None:
        """On the reason of the chosen row where it has one, else on the view."""
        view = self._window.current
        line = view.table.current_line
        code = "" if line is None else code_of(str(line.row.get("reason") or ""))
        if code:
            return self.open_help(REASONS, code)
        return self.open_help(OF_VIEW.get(view.definition.name, FIRST))

    def open_help(self, page: str, words: str = "") -> HelpDialog | None:
        if self._stopping:
            return None
        dialog = self._setup.one(HelpDialog, lambda: HelpDialog(self._tools, self._window))
        dialog.start()
        dialog.open_at(page, words)
        return dialog

    def open_checkup(self) -> CheckupDialog | None:
        if self._stopping:
            return None
        dialog = self._setup.one(CheckupDialog, lambda: CheckupDialog(self._tools, self._window))
        dialog.open_and_start()
        return dialog

    # ------------------------------------------------------------------ the support bundle

    async def _save(self) -> None:
        try:
            made = await save_bundle(self._tools.engine, self._window)
        except SupportFailed as error:
            self._failed(str(error))
            return
        if made is not None and not self._stopping:
            text = self.tr(
                "Wrote {file}: {names}. Secrets are blanked and no alert's text is in it; look through it "
                "before you hand it on."
            )
            self._say(text.format(file=str(made.path), names=", ".join(made.files)), "ok")

    def _failed(self, why: str) -> None:
        self._say(why, "error")

    def _say(self, text: str, level: str) -> None:
        """In the main window, and in the one of the error where that is open."""
        self._window.notice.say(text, level)
        for dialog in self._setup.dialogs:
            if isinstance(dialog, CrashNotice):
                dialog.notice.say(text, level)

    # ------------------------------------------------------------------ errors

    def _count(self) -> None:
        self.mark.show_count(self.crashes.count)
        self.errors.setEnabled(not self._stopping)
        for dialog in self._setup.dialogs:
            if isinstance(dialog, CrashNotice):
                dialog.refresh()

    def _first(self) -> None:
        """By itself only this once; later ones count up."""
        if not self._stopping and self._window.isVisible():
            self._notice().show_beside()

    def open_errors(self) -> CrashNotice | None:
        if self._stopping or not self.crashes.count:
            return None
        notice = self._notice()
        notice.show_beside()
        notice.raise_()
        notice.activateWindow()
        return notice

    def _notice(self) -> CrashNotice:
        return self._setup.one(
            CrashNotice, lambda: CrashNotice(self._tools, self.crashes, self.bundle.trigger, self._window)
        )

    def stop(self) -> None:
        self._stopping = True
        self.watch.stop()
        for action in (self.help, self.checkup, self.errors):
            action.setEnabled(False)
        self.bundle.allow(False)
