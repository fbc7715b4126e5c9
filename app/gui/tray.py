"""The icon in the tray: how it stands at a glance, the kill switch in reach, and messages on this screen.

Looks and passes on what is pressed; it asks no broker and decides nothing. Never takes the focus.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon

from app.engine import Status
from app.gui.doings import Doings
from app.gui.formats import one_line
from app.gui.status_strip import fact_word
from app.gui.tray_icon import TrayState, tray_icon
from app.gui.window import Window
from app.gui.words import TRADING, fact_name, look_up, tr
from app.ledger.needs import Need
from app.notify import Message
from app.notify.item import CRITICAL, WARNING

LOOK_MS = 1_000
AGAIN_MS = 3_000
TRIES = 60
"""At login the tray may come later than we do: it is waited for three minutes."""
SHOWN_MS = 10_000
_MOST_FACTS = 4


class Tray(QObject):
    """`pressing`: what needs a person now. `is_there`: whether this desktop has a tray at all."""

    def __init__(
        self,
        window: Window,
        status: Callable[[], Status],
        pressing: Callable[[], Sequence[Need]],
        quit_: Callable[[str], None],
        icon: QSystemTrayIcon | None = None,
        is_there: Callable[[], bool] = QSystemTrayIcon.isSystemTrayAvailable,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._status = status
        self._pressing = pressing
        self._is_there = is_there
        self._state: TrayState | None = None
        self._palette = 0
        self._tries = 0
        self.is_shown = False
        self.icon = icon or QSystemTrayIcon(self)
        self.menu = QMenu(window)
        self._build(window.doings, quit_)
        self.icon.setContextMenu(self.menu)
        self.icon.activated.connect(self._pressed)
        self.icon.messageClicked.connect(self.show_needs)
        self._timer = QTimer(self, interval=LOOK_MS)
        self._timer.timeout.connect(self.look)
        self._waiting = QTimer(self, interval=AGAIN_MS)
        self._waiting.timeout.connect(self._try)
        self._try()

    def _build(self, doings: Doings, quit_: Callable[[str], None]) -> None:
        self.open = self._action(self.tr("&Open Onefill"), self.show_window)
        self.needs = self._action(self.tr("What &needs you"), self.show_needs)
        self.menu.addSeparator()
        self.halt = self._action(self.tr("&Halt"), lambda: self._switch(doings.halt, asks=False))
        self.exits_only = self._action(
            self.tr("&Exits only"),
            lambda: self._switch(doings.exits_only, asks=self._status().trading_state == "halted"),
        )
        self.resume = self._action(self.tr("&Resume…"), lambda: self._switch(doings.resume, asks=True))
        self.menu.addSeparator()
        self.quit = self._action(self.tr("&Quit"), lambda: quit_("tray"))
        self._mirrors = (
            (self.halt, doings.halt),
            (self.exits_only, doings.exits_only),
            (self.resume, doings.resume),
        )
        for mine, theirs in self._mirrors:
            theirs.changed.connect(self._mirror)
            # What went wrong is said in the window, and it has to be seen.
            theirs.settled.connect(self._show_trouble)
            mine.setEnabled(theirs.isEnabled())

    def _action(self, text: str, work: Callable[[], object]) -> QAction:
        action = QAction(text, self)
        action.triggered.connect(lambda _checked=False: work())
        self.menu.addAction(action)
        return action

    def _mirror(self) -> None:
        for mine, theirs in self._mirrors:
            mine.setEnabled(theirs.isEnabled())

    # ------------------------------------------------------------------ there or not

    def _try(self) -> None:
        """Shows the icon as soon as there is a tray; gives up where none comes."""
        self._tries += 1
        if self._is_there():
            self._waiting.stop()
            self.is_shown = True
            self.look()
            self.icon.show()
            self._timer.start()
        elif self._tries >= TRIES:
            self._waiting.stop()
        elif not self._waiting.isActive():
            self._waiting.start()

    def can_keep(self) -> bool:
        """Whether a hidden window can be reached again: asked anew, for a tray may go."""
        return self.is_shown and self._is_there()

    def end(self) -> None:
        """Takes it away. Before the window goes."""
        self._timer.stop()
        self._waiting.stop()
        self.is_shown = False
        self.icon.hide()
        self.icon.setContextMenu(None)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ how it stands

    def look(self) -> None:
        """What the engine says now, in shape and words."""
        status, pressing = self._status(), self._pressing()
        state = tray_state(status, len(pressing))
        # Light may have turned to dark meanwhile.
        palette = self._window.palette().cacheKey()
        if (state, palette) != (self._state, self._palette):
            self._state, self._palette = state, palette
            self.icon.setIcon(tray_icon(state, self._window.palette()))
        text = tray_text(status, pressing)
        if text != self.icon.toolTip():
            self.icon.setToolTip(text)
        number = len(pressing)
        needs = self.tr("What &needs you ({number})").format(number=number)
        self.needs.setText(needs if number else self.tr("What &needs you"))
        self.menu_follows(status)

    def menu_follows(self, status: Status) -> None:
        """While the window is hidden it does not look by itself."""
        if not self._window.isVisible():
            self._window.doings.show_state(status.trading_state)

    @property
    def state(self) -> TrayState | None:
        return self._state

    # ------------------------------------------------------------------ what is pressed

    def show_window(self) -> None:
        self._window.showNormal() if self._window.isMinimized() else self._window.show()
        self._window.raise_()
        self._window.activateWindow()

    def show_needs(self) -> None:
        self.show_window()
        self._window.show_needs()

    def _pressed(self, how: QSystemTrayIcon.ActivationReason) -> None:
        reasons = QSystemTrayIcon.ActivationReason
        # On a Mac a click opens the menu, and a menu and a window at once are one too many.
        if how in (reasons.Trigger, reasons.DoubleClick) and sys.platform != "darwin":
            self.show_window()

    def _switch(self, action: QAction, *, asks: bool) -> None:
        """What asks before it does something asks in the window."""
        if asks:
            self.show_window()
        action.trigger()

    def _show_trouble(self) -> None:
        if self.is_shown:
            self.look()
        if self._window.notice.level == "error" and not self._window.isVisible():
            self.show_window()

    # ------------------------------------------------------------------ messages on this screen

    def say(self, title: str, text: str, rank: int = 0) -> bool:
        """False where this desktop shows no messages."""
        if not self.is_shown or not self.icon.supportsMessages():
            return False
        icons = QSystemTrayIcon.MessageIcon
        icon = icons.Critical if rank == CRITICAL else icons.Warning if rank == WARNING else icons.Information
        self.icon.showMessage(title, text, icon, SHOWN_MS)
        return True

    def tell(self, message: Message) -> bool:
        """A notice for this screen. Where it shows no messages, the window asks for attention instead."""
        if self.say(message.title, message.body, message.rank):
            return True
        if self._window.isVisible():
            QApplication.alert(self._window)
            return True
        return False


def tray_state(status: Status, pressing: int) -> TrayState:
    """What presses comes before how trading is set: that is said in words too."""
    if status.state == "stopping":
        return TrayState.STOPPING
    if pressing or status.level == "error":
        return TrayState.ATTENTION
    states = {"halted": TrayState.HALTED, "exits_only": TrayState.EXITS_ONLY}
    return states.get(status.trading_state, TrayState.OK)


def tray_text(status: Status, pressing: Sequence[Need]) -> str:
    """A line each: trading, what needs a person, what is not well."""
    if status.state == "stopping":
        return tr("Onefill is stopping")
    trading = tr(look_up(TRADING, status.trading_state).text)
    lines = [tr("Onefill. Trading: {state}").format(state=trading)]
    if pressing:
        lines.append(tr("Needs you: {number}").format(number=len(pressing)))
        lines.append(one_line(pressing[0].text)[:80])
    else:
        lines.append(tr("Nothing needs you"))
    ill = [fact for fact in status.facts if fact.level == "error"]
    lines += [f"{fact_name(fact.name)}: {tr(fact_word(fact).text)}" for fact in ill[:_MOST_FACTS]]
    return "\n".join(lines)
