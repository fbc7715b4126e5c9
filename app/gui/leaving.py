"""What closing and quitting mean: into the tray, or out, and not without saying what is still open.

A person is asked; a signal, the session's end and the engine itself are not: they stop in order at once.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject

from app.engine import Status
from app.gui.dialogs import ask
from app.gui.memory import Memory
from app.gui.window import Window
from app.gui.words import tr
from app.tasks import Tasks

WORD_SAID = "tray/word"


class Leaving(QObject):
    """`stays`: closing means the tray, where there is one (`can_stay`). `say` shows a word there.

    Stands between the window and its own answer to its close button, which is a stop.
    """

    def __init__(
        self,
        window: Window,
        status: Callable[[], Status],
        memory: Memory,
        is_stopping: Callable[[], bool],
        *,
        stays: bool,
        can_stay: Callable[[], bool] = lambda: False,
        say: Callable[[str, str], object] = lambda _title, _text: None,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._status = status
        self._memory = memory
        self._is_stopping = is_stopping
        self._stays = stays
        self.can_stay = can_stay
        self.say = say
        self._tasks = Tasks()
        self._asking = False
        window.installEventFilter(self)
        window.menus.quit.triggered.disconnect()
        window.menus.quit.triggered.connect(lambda _checked=False: self.quit("menu"))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        match event.type():
            case QEvent.Type.Close:
                event.ignore()
                self.close()
                return True
            case QEvent.Type.Show:
                self._window.pause(self._window.isMinimized())
            case QEvent.Type.Hide:
                # Nobody can see it: it does not read.
                self._window.pause(True)
        return super().eventFilter(watched, event)

    def close(self) -> None:
        """The window's close button."""
        if not (self._stays and self.can_stay()):
            self.quit("window closed")
            return
        self._window.hide()
        if not self._memory.text(WORD_SAID):
            self._memory.keep(WORD_SAID, "said")
            self._memory.save()
            self.say(
                self.tr("Onefill goes on"),
                self.tr(
                    "It is at work here in the tray, and alerts are taken. To end it: Quit, in its menu."
                ),
            )

    def quit(self, why: str) -> None:
        """Somebody wants it to end: at once where nothing is open, else after a question."""
        lines = still_open(self._status())
        if not lines or self._is_stopping():
            self._window.quit(why)
        elif not self._asking:
            self._asking = True
            self._tasks.start("asks before it quits", self._ask(why, lines))

    async def _ask(self, why: str, lines: list[str]) -> None:
        window = self._window
        try:
            if not window.isVisible():
                window.show()
            window.raise_()
            agreed = await ask(
                window,
                self.tr("Quit Onefill"),
                self.tr("Quit while something is open?"),
                "\n\n".join([*lines, self.tr("Alerts that come while Onefill is not running are lost.")]),
                self.tr("Quit"),
                self.tr("Keep running"),
            )
        finally:
            self._asking = False
        if agreed:
            window.quit(why)

    async def stop(self) -> None:
        """Before the window is shut: nothing is asked any more."""
        await self._tasks.stop()


def still_open(status: Status) -> list[str]:
    """What a stop leaves behind, with numbers; empty where there is nothing."""
    said = (
        (
            "unresolved",
            tr("1 order whose fate nobody knows: nobody asks the broker about it until the next start."),
            tr(
                "{number} orders whose fate nobody knows: nobody asks the broker about them until the next "
                "start."
            ),
        ),
        (
            "open",
            tr("1 order is open at the broker: it stays there, and may fill while nobody looks."),
            tr("{number} orders are open at the broker: they stay there, and may fill while nobody looks."),
        ),
        (
            "waiting",
            tr("1 order waits and is not sent: an entry will be too old at the next start."),
            tr("{number} orders wait and are not sent: entries will be too old at the next start."),
        ),
    )
    lines = []
    for name, one, many in said:
        number = status.counts.get(name, 0)
        if number:
            lines.append(one if number == 1 else many.format(number=number))
    return lines
