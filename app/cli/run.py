"""Running the engine: with a window, or without one. No Qt is imported without a window.

The only place that may end the process by force, and only when a stop has gone over its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from app.cli.front import Failed, Front, front_options

if TYPE_CHECKING:
    from app.engine import Engine

SHOW_TIMEOUT = 5.0
"""Seconds for the running one to show its window."""
HARD_DEADLINE = 6.0
"""Seconds from the request to stop; the engine's own bound is 5."""
FORCED = 3
"""Exit code of a stop that had to be forced."""


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), help="Instead of the configured one; 0 takes any.")
@front_options
def serve(front: Front, port: int | None) -> None:
    """Run without a window. The first line on stdout says when the door is open, and where."""
    click.get_current_context().exit(run_without_window(front.home, port))


def run_without_window(home: Path, port: int | None = None) -> int:
    """Runs until a signal or a command stops it; the exit code."""
    with _log_of(home):
        return asyncio.run(_serve(home, port))


def run_window(home: Path, *, minimized: bool = False) -> int:
    """Opens the window; where there is no display, says so and goes on without one."""
    if not has_display(os.environ):
        click.echo("onefill: there is no display: going on without a window", err=True)
        return run_without_window(home)
    try:
        from app.gui.main import run
    except ImportError as error:
        # A library of the system that Qt needs is not there; bootstrap.py names the command that installs it.
        click.echo(f"onefill: the window cannot be opened ({error}): going on without", err=True)
        return run_without_window(home)
    if _is_there_already(home, minimized=minimized):
        click.echo("onefill: it runs already" + ("" if minimized else ", and its window is shown"), err=True)
        return 0
    with _log_of(home):
        return int(run(home, None, beside, minimized=minimized))


def _is_there_already(home: Path, *, minimized: bool) -> bool:
    """Who starts it again looks for the window, which may be hidden in the tray."""
    from app.control import NotRunning, Refused, ask

    try:
        ask(home, "status" if minimized else "show window", request_id=uuid.uuid4().hex, timeout=SHOW_TIMEOUT)
    except (NotRunning, Refused):
        # The start itself says what is wrong.
        return False
    return True


@contextlib.contextmanager
def _log_of(home: Path) -> Iterator[None]:
    from app.engine.crashes import watching
    from app.logs import start_logging
    from app.settings import ConfigError, create_home

    try:
        create_home(home)
    except ConfigError as error:
        raise Failed(str(error)) from error
    stop_logging = start_logging(home)
    try:
        with watching(home):
            yield
    finally:
        stop_logging()


@contextlib.asynccontextmanager
async def beside(engine: Engine) -> AsyncIterator[None]:
    """What runs beside a started engine on every front: the control channel, and the watch over its stop."""
    from app.control import Refused, serving
    from app.tasks import Tasks

    tasks = Tasks()
    tasks.start("stop watch", _watch_stop(engine))
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(serving(engine))
            except (Refused, OSError) as error:
                # Commands cannot reach this run; trading does not depend on them.
                click.echo(f"onefill: no control channel: {error}", err=True)
            yield
    finally:
        await tasks.stop()


async def _watch_stop(engine: Engine) -> None:
    await engine.stop_requested.wait()
    force_after(HARD_DEADLINE)


def force_after(seconds: float) -> None:
    """Ends the process if it is still there then. A thread, since no loop can be its own judge; a daemon, so
    that it keeps nobody."""

    def end() -> None:
        _over.wait(seconds)
        # Without a console there is no such descriptor, and the end must come all the same.
        with contextlib.suppress(OSError):
            os.write(2, b"onefill: the stop took too long and was forced; the next start asks the brokers\n")
        os._exit(FORCED)

    threading.Thread(target=end, name="hard deadline", daemon=True).start()


_over = threading.Event()
"""Never set: the deadline's thread ends with the process."""


async def _serve(home: Path, port: int | None) -> int:
    from app.engine import Engine, StartRefused
    from app.engine.crashes import on_loop_error

    engine = Engine(home, port=port)
    asyncio.get_running_loop().set_exception_handler(on_loop_error)
    restore = _stop_on_signals(engine)
    try:
        try:
            await engine.start()
        except StartRefused as error:
            click.echo(f"onefill: {error}", err=True)
            return 1
        try:
            async with beside(engine):
                _say_ready(engine)
                await engine.stop_requested.wait()
        finally:
            await engine.stop()
        _say(f"onefill stopped ({engine.stop_reason or 'done'})")
    finally:
        restore()
    return 1 if engine.fatal else 0


def _say_ready(engine: Engine) -> None:
    host = engine.settings.listener.host
    shown = f"[{host}]" if ":" in host else host
    _say(f"onefill ready http://{shown}:{engine.status().port} home={engine.home}")


def _say(line: str) -> None:
    """A line on stdout; whoever was to read it may be gone."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def _stop_on_signals(engine: Engine) -> Callable[[], None]:
    """Every signal that means 'end' only asks the engine to stop; returns what puts the handlers back."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as undo:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                loop.add_signal_handler(number, engine.request_stop, name)
                undo.callback(loop.remove_signal_handler, number)
            except NotImplementedError:
                ask = partial(loop.call_soon_threadsafe, engine.request_stop, name)
                undo.callback(signal.signal, number, signal.signal(number, lambda *_, ask=ask: ask()))
        return undo.pop_all().close


# ------------------------------------------------------------------------------------------------- display

_OFF_SCREEN = ("offscreen", "minimal", "vnc", "linuxfb", "eglfs")


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether a window can be shown. The display itself is asked: without one Qt aborts the process."""
    if environ.get("QT_QPA_PLATFORM", "").partition(":")[0] in _OFF_SCREEN:
        return True
    if sys.platform in ("win32", "darwin"):
        return True
    return _wayland_answers(environ) or _x11_answers(environ.get("DISPLAY", ""))


def _wayland_answers(environ: Mapping[str, str]) -> bool:
    name = environ.get("WAYLAND_DISPLAY", "")
    return bool(name) and _answers(os.path.join(environ.get("XDG_RUNTIME_DIR", ""), name))


def _x11_answers(display: str) -> bool:
    host, colon, number = display.rpartition(":")
    number = number.partition(".")[0]
    if not colon or not number.isdigit():
        return False
    if host in ("", "unix"):
        path = f"/tmp/.X11-unix/X{number}"  # noqa: S108 - where X11 has its sockets
        return _answers(path) or _answers("\0" + path)
    try:
        socket.create_connection((host, 6000 + int(number)), timeout=2).close()
    except OSError:
        return False
    return True


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        try:
            connection.connect(path)
        except (OSError, ValueError):
            return False
    return True
