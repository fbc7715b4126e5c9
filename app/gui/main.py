"""The start of the window: application, loop, engine, window, and one way out.

The engine is stopped before the loop ends, whatever asked for it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

# qasync takes the first Qt binding that it finds: name ours, and have it imported already.
os.environ["QT_API"] = "pyside6"
import PySide6.QtWidgets  # noqa: F401
import qasync
import structlog
from PySide6.QtCore import QCoreApplication

from app.engine import Engine, StartRefused
from app.gui.application import Application
from app.gui.crashes import errors_to_the_log, on_loop_error
from app.gui.dialogs import tell
from app.gui.garbage import MainThreadGarbage
from app.gui.manners import Manners
from app.gui.quitting import Deadline, signals_ask
from app.gui.window import Window
from app.tasks import Tasks

log = structlog.get_logger(__name__)

Beside = Callable[[Engine], AbstractAsyncContextManager[None]]
"""What runs as long as the engine does and is no business of the window: the control channel."""

EXIT_DONE = 0
EXIT_REFUSED = 1


def run(home: Path, port: int | None, beside: Beside, *, minimized: bool = False) -> int:
    """Opens the window on this home and returns the exit code when all has stopped.

    0: asked to stop and stopped. 1: the start was refused (the reason is on stderr and was shown), or the
    engine gave up by itself.
    """
    application = Application(sys.argv[:1])
    with (
        MainThreadGarbage(application),
        errors_to_the_log(),
        asyncio.Runner(loop_factory=_make_loop) as runner,
    ):
        return runner.run(_run(application, lambda: Engine(home, port=port), beside, minimized=minimized))


def _make_loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = qasync.QEventLoop(QCoreApplication.instance())
    loop.set_exception_handler(on_loop_error)
    return loop


async def _run(
    application: Application, make_engine: Callable[[], Engine], beside: Beside, *, minimized: bool = False
) -> int:
    engine = make_engine()
    deadline = Deadline()

    def wish(why: str) -> None:
        engine.request_stop(why)
        deadline.start()

    application.wish = wish
    try:
        with signals_ask(asyncio.get_running_loop(), wish):
            return await _start(engine, beside, deadline, minimized=minimized)
    finally:
        application.wish = None
        deadline.end()


async def _start(engine: Engine, beside: Beside, deadline: Deadline, *, minimized: bool) -> int:
    try:
        await engine.start()
    except StartRefused as refused:
        await _say_refused(engine, str(refused))
        return EXIT_REFUSED
    window: Window | None = None
    manners: Manners | None = None
    try:
        async with beside(engine):
            window = Window(engine)
            window.hook_bar.keep_copies(engine.note_copied)
            manners = Manners(window, engine)
            manners.show(minimized=minimized)
            if not minimized:
                window.setup.greet()
            await engine.stop_requested.wait()
            deadline.start()
            window.say_stopping()
    finally:
        try:
            # The window is still there and says so.
            await engine.stop()
        finally:
            if manners is not None:
                await manners.stop()
            if window is not None:
                await window.shut()
    return EXIT_DONE if engine.fatal is None else EXIT_REFUSED


async def _say_refused(engine: Engine, why: str) -> None:
    """On stderr for who started it from a terminal, and in a window for who did not."""
    if sys.stderr is not None:
        print(f"onefill: {why}", file=sys.stderr, flush=True)  # noqa: T201
    log.info("start refused", why=why)
    title = QCoreApplication.translate("Main", "Onefill does not start.")
    tasks = Tasks()
    said = tasks.start("refusal", tell(None, "Onefill", title, why))
    asked_to_stop = tasks.start("asked to stop", engine.stop_requested.wait())
    await asyncio.wait({said, asked_to_stop}, return_when=asyncio.FIRST_COMPLETED)
    await tasks.stop()
