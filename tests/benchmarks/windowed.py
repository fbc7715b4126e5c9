"""The receivers that need Qt: a door on the window's loop, and the whole program with its window."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

os.environ["QT_API"] = "pyside6"
import PySide6.QtWidgets  # noqa: F401
import qasync
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication

from app.engine import Engine
from app.gui.main import run as run_program
from app.gui.window import Window
from app.tasks import Tasks
from tests.benchmarks.server import Console, Onefill, of_engine


def run_on_qt(work: Coroutine[Any, Any, None]) -> None:
    application = QApplication([])
    with asyncio.Runner(loop_factory=lambda: _loop(application)) as runner:
        runner.run(work)


def _loop(application: QCoreApplication) -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = qasync.QEventLoop(application)
    return loop


def run_window(home: Path) -> None:
    """The program as `onefill` starts it; commands are answered as long as stdin is open."""
    code = run_program(home, 0, _console)
    if code:
        raise SystemExit(code)


@contextlib.asynccontextmanager
async def _console(engine: Engine) -> AsyncIterator[None]:
    tasks = Tasks(lambda name, error: os._exit(4))
    tasks.start("console", _serve(engine))
    try:
        yield
    finally:
        await tasks.stop()


async def _serve(engine: Engine) -> None:
    while not (windows := [w for w in QApplication.topLevelWidgets() if isinstance(w, Window)]):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await Console(Watched(of_engine(engine), windows[0])).serve()
    engine.request_stop("measured")


class Watched(QObject):
    """A window whose Signals view is shown; counts how often it was read anew and painted."""

    def __init__(self, inner: Onefill, window: Window) -> None:
        super().__init__(window)
        self._inner = inner
        self.port, self.path, self.writer, self.syncs = inner.port, inner.path, inner.writer, inner.syncs
        self._refreshed = 0
        self._painted = 0
        window.show_view("signals")
        view = window.views["signals"]
        self._rows = view.model.rowCount
        view.feed.refreshed.connect(self._note_refresh)
        view.table.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Paint:
            self._painted += 1
        return False

    def _note_refresh(self) -> None:
        self._refreshed += 1

    def reset(self) -> None:
        self._inner.reset()
        self._refreshed = self._painted = 0

    def facts(self) -> dict[str, float]:
        more = {"refreshed": self._refreshed, "painted": self._painted, "rows": self._rows()}
        return {**self._inner.facts(), **more}
