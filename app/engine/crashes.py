"""Nothing fails unseen: what nobody handled goes to the log with its story, and is kept for the window.

With and without a window: errors of slots, threads, tasks, finalisers and the loop. The hooks may be called
on any thread and in any state of the program, so nothing here waits, reads a file or raises. A crash of the
interpreter itself is written to a file of the home by faulthandler, and told at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from app.clock import Clock, SystemClock
from app.logs import redact
from app.tasks import hear_deaths

log = structlog.get_logger(__name__)

FILE_NAME = "crash.txt"
EARLIER_NAME = "crash.txt.1"
MOST_KINDS = 30
"""Different errors that are kept; of more only the number is."""
MOST_FRAMES = 40
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Crash:
    """One kind of error: `where` it came up, `what` it says, its `story` as text, when first, how often."""

    where: str
    what: str
    story: str
    first_at: int
    count: int = 1


class Crashes:
    """Safe on every thread. The listener is called on the thread of the error."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._kinds: dict[str, Crash] = {}
        self._others = 0
        self._listener: Callable[[], None] | None = None

    @property
    def kinds(self) -> list[Crash]:
        """Oldest first."""
        with self._lock:
            return list(self._kinds.values())

    @property
    def count(self) -> int:
        with self._lock:
            return self._others + sum(crash.count for crash in self._kinds.values())

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Calls it after each error, until None is given."""
        self._listener = listener

    def note(self, where: str, error: BaseException) -> bool:
        """Counts it; whether the log should have it too: its first time, and then rarely."""
        story = redact(story_of(error))
        return self.note_story(where, redact(_what(error)), story)

    def note_story(self, where: str, what: str, story: str) -> bool:
        with self._lock:
            kind = f"{where} {story}"
            known = self._kinds.get(kind)
            if known is not None:
                known = replace(known, count=known.count + 1)
            elif len(self._kinds) < MOST_KINDS:
                known = Crash(where, what, story, self._clock.now())
            else:
                self._others += 1
            if known is not None:
                self._kinds[kind] = known
            count = self._others if known is None else known.count
        if self._listener is not None:
            self._listener()
        return str(count).strip("0") == "1"


def story_of(error: BaseException) -> str:
    """The trace of an error and of what it came from, without reading any source: innermost call last."""
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(parts) < 5:
        seen.add(id(current))
        frames = [
            f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
            for frame, line in traceback.walk_tb(current.__traceback__)
        ]
        parts.append("\n".join([*frames[-MOST_FRAMES:], _what(current)]))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\nwhich came after:\n\n".join(parts)


def _what(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot even be said is one all the same
        text = "(it cannot be said)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# ------------------------------------------------------------------------------------------------- hooks

_current: Crashes | None = None


def current() -> Crashes | None:
    """What gathers the errors of this process now. The hooks are the process's own, so there is one."""
    return _current


@contextlib.contextmanager
def watching(home: Path | None = None, crashes: Crashes | None = None) -> Iterator[Crashes]:
    """While it holds, unhandled errors go to the log and into what it gives; then what was before comes back.

    `home`: where a crash of the interpreter is written to. An error that passes through is logged, and goes
    on. One inside another gathers into the same.
    """
    global _current
    before = (_current, sys.excepthook, threading.excepthook, sys.unraisablehook)
    crashes = _current = crashes or before[0] or Crashes()
    with contextlib.ExitStack() as undo:
        if before[0] is None:
            undo.callback(hear_deaths(_on_task_death))
        if home is not None:
            undo.enter_context(_interpreter_crashes_to(home, crashes))
        sys.excepthook, threading.excepthook, sys.unraisablehook = _on_error, _on_thread_error, _on_unraisable
        try:
            yield crashes
        except Exception as error:
            log.critical("the program ends by an error", error=repr(error), exc_info=error)
            raise
        finally:
            _current, sys.excepthook, threading.excepthook, sys.unraisablehook = before


def note(where: str, error: BaseException) -> bool:
    """As Crashes.note, with whatever gathers now; True where nothing does."""
    return True if _current is None else _current.note(where, error)


def on_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler."""
    error = context.get("exception")
    if not isinstance(error, BaseException):
        # Such as a task that was destroyed while it waited: a sign, not an error of a person's concern.
        log.error("error on the loop", what=context.get("message"))
    elif note("the loop", error):
        log.error("error on the loop", what=context.get("message"), error=repr(error), exc_info=error)


def _on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, Exception):
        sys.__excepthook__(kind, error, trace)
    elif note("the program", error):
        log.critical("unhandled error", error=repr(error), exc_info=(kind, error, trace))


def _on_thread_error(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    name = arguments.thread.name if arguments.thread else "?"
    if error is not None and note(f"thread {name}", error):
        log.critical("unhandled error in a thread", thread=name, error=repr(error), exc_info=error)


def _on_unraisable(arguments: sys.UnraisableHookArgs) -> None:
    # The object is on its way out: nothing of it may be kept, and the trace holds its frames.
    error, what = arguments.exc_value, type(arguments.object).__name__
    if error is not None and note("a finaliser", error):
        log.error("unhandled error in a finaliser", of=what, error=repr(error), exception=story_of(error))


def _on_task_death(name: str, error: BaseException) -> None:
    # The log has it from the room that owns tasks.
    note(f"task {name}", error)


# ------------------------------------------------------------------------------- crashes of the interpreter


@contextlib.contextmanager
def _interpreter_crashes_to(home: Path, crashes: Crashes) -> Iterator[None]:
    """Blocking. A file and not stderr, since a program without a console has none."""
    if faulthandler.is_enabled():
        # Somebody has chosen another place for it.
        yield
        return
    try:
        _tell_the_last(home, crashes)
        file = open(home / FILE_NAME, "ab", opener=_private)  # noqa: SIM115 - its with comes below
    except OSError as error:
        log.warning("crashes of the interpreter cannot be written down", error=str(error))
        yield
        return
    with file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()


def _tell_the_last(home: Path, crashes: Crashes) -> None:
    """What an earlier run wrote as it died is told once, and kept beside."""
    path = home / FILE_NAME
    try:
        with open(path, "rb") as file:
            said = file.read(_MOST_BYTES).decode("utf-8", errors="replace").strip()
    except FileNotFoundError:
        return
    if not said:
        return
    os.replace(path, home / EARLIER_NAME)
    what = f"an earlier run was ended by a crash: {said.splitlines()[0]}"
    crashes.note_story("an earlier run", what, redact(said))
    log.critical("an earlier run crashed", story=said)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
