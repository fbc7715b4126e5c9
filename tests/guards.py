"""Runs async tests and fixtures, and fails a test that leaves something behind or blocks the loop.

- `async def` tests and fixtures (function scope) run on one loop a test: plain asyncio, or the Qt loop where
  the test uses `qapp` or `qtbot` or is marked `qasync`. In an async test on the Qt loop never call
  `qtbot.wait*` (a nested loop inside a task hangs): turn the signal into a future.
- After the test and its fixtures: a task still on the loop, a thread that was not there before, a QTimer
  still active, a blocking call that code of app made on the loop (even if app swallowed the error), an error
  that only reached the loop's exception handler, a changed level of the log: each fails the test.
"""

import asyncio
import contextlib
import gc
import inspect
import logging
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, cast

import blockbuster.blockbuster as blockbuster_module
import pytest

# A thread that is just ending is no leak; one that needs longer was not joined.
THREAD_GRACE_SECONDS = 1.5
# A task that was cancelled needs a few turns to end.
LOOP_TURNS = 10


class LoopOfTest:
    """The loop of one test, made when the first coroutine of the test or of its fixtures needs it."""

    def __init__(self, on_qt: Callable[[], Any] | None, scanned: str | None) -> None:
        self._on_qt = on_qt
        self._scanned = scanned
        self._runner: asyncio.Runner | None = None
        self._guard = contextlib.ExitStack()
        self._blocking: list[str] = []
        self._unhandled: list[str] = []

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Runs one coroutine to its end; blocking calls of the scanned package raise while it runs."""
        runner = self._start()
        return runner.run(coroutine)

    def _start(self) -> asyncio.Runner:
        if self._runner is None:
            factory: Callable[[], asyncio.AbstractEventLoop] | None = None
            if self._on_qt is not None:
                application = self._on_qt()
                factory = lambda: _qt_loop(application)  # noqa: E731
            self._runner = asyncio.Runner(loop_factory=factory)
            self._runner.get_loop().set_exception_handler(self._note_unhandled)
            if self._scanned is not None:
                self._guard.enter_context(blocking_calls_noted(self._scanned, self._blocking))
        return self._runner

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._unhandled.append(f"{context.get('message')}" + (f": {error!r}" if error else ""))
        loop.default_exception_handler(context)

    def close(self) -> list[str]:
        """Ends the loop; what the test left on it or did to it, one line each."""
        left: list[str] = []
        runner = self._runner
        if runner is not None:
            try:
                left += [f"a task was left on the loop: {task!r}" for task in runner.run(_tasks_left())]
                # Cancels what is left and joins the loop's own executor.
                runner.close()
            finally:
                self._guard.close()
                self._runner = None
        left += [f"code of {self._scanned} blocked the loop: {call}" for call in self._blocking]
        left += [f"an error reached nobody but the loop: {error}" for error in self._unhandled]
        return left


def _qt_loop(application: Any) -> asyncio.AbstractEventLoop:
    import qasync

    loop: asyncio.AbstractEventLoop = qasync.QEventLoop(application)
    return loop


async def _tasks_left() -> list[asyncio.Task[Any]]:
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    return sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=lambda task: task.get_name())


@contextlib.contextmanager
def blocking_calls_noted(package: str, calls: list[str]) -> Iterator[None]:
    """While it holds, a blocking call made by code of the package on a running loop raises, and is noted.

    Noted besides raised, since a broad `except` of the package could swallow it. SQLite through apsw is
    watched as sqlite3 is.
    """

    class NotedBlockingError(blockbuster_module.BlockingError):
        def __init__(self, func: str) -> None:
            calls.append(func)
            super().__init__(func)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockbuster_module, "BlockingError", NotedBlockingError)
        guard = blockbuster_module.BlockBuster(package)
        guard.functions.update(_apsw_functions(package))
        guard.activate()
        try:
            yield
        finally:
            guard.deactivate()


def _apsw_functions(package: str) -> dict[str, blockbuster_module.BlockBusterFunction]:
    import apsw

    functions = {}
    for kind in (apsw.Connection, apsw.Cursor):
        for name in ("execute", "executemany"):
            function = blockbuster_module.BlockBusterFunction(kind, name, scanned_modules=package)
            function.full_name = f"apsw.{kind.__name__}.{name}"
            functions[function.full_name] = function
    return functions


# ----------------------------------------------------------------------------------------- threads and timers


def threads_left(before: set[threading.Thread]) -> list[str]:
    """The threads that are there now and were not before, after a short grace; one line each."""
    deadline = time.monotonic() + THREAD_GRACE_SECONDS
    left = []
    for thread in threading.enumerate():
        # A dummy stands for a foreign thread (Qt's pool) that once ran Python; Python never takes it away.
        if thread in before or isinstance(thread, threading._DummyThread):
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            kind = "daemon thread" if thread.daemon else "thread"
            left.append(f"a {kind} was left: {thread.name}")
    return left


class TimersOfTest:
    """Notes each QTimer that starts, so that those still active at the end can be named with their owner."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        from PySide6.QtCore import QTimer

        self._started: weakref.WeakSet[Any] = weakref.WeakSet()
        start = QTimer.start

        def noted_start(timer: Any, *arguments: Any) -> None:
            self._started.add(timer)
            start(timer, *arguments)

        patch.setattr(QTimer, "start", noted_start)

    def left(self) -> list[str]:
        """One line for each timer that still runs."""
        import shiboken6

        return [
            f"an active QTimer was left: interval {timer.interval()} ms, name {timer.objectName()!r}, "
            f"parent {timer.parent()!r}"
            for timer in list(self._started)
            if shiboken6.isValid(timer) and timer.isActive()
        ]


# ----------------------------------------------------------------------------------------------------- pytest


def _uses_qt(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return "qapp" in names or "qtbot" in names or item.get_closest_marker("qasync") is not None


@contextlib.contextmanager
def _qt_garbage_stays_here() -> Iterator[None]:
    """Qt objects in cycles die on this thread, at the end: the collector would run on whichever allocates,
    and a timer destroyed on a ledger's thread is a Qt warning at best (app/gui/garbage.py)."""
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.enable()


@pytest.fixture(autouse=True)
def loop_of_test(request: pytest.FixtureRequest) -> Iterator[LoopOfTest]:
    """The loop of this test: set up before all other fixtures, torn down after them."""
    item = request.node
    on_qt = _uses_qt(item)
    before = set(threading.enumerate())
    level = logging.getLogger().level
    scanned = None if item.get_closest_marker("blocking_allowed") else "app"
    loop = LoopOfTest((lambda: request.getfixturevalue("qapp")) if on_qt else None, scanned)
    with (
        pytest.MonkeyPatch.context() as patch,
        _qt_garbage_stays_here() if on_qt else contextlib.nullcontext(),
    ):
        timers = TimersOfTest(patch) if on_qt else None
        yield loop
        left = loop.close()
        left += timers.left() if timers else []
        left += threads_left(before)
    if (now := logging.getLogger().level) != level:
        # Every later test would log more, and write it on its loop.
        logging.getLogger().setLevel(level)
        left.append(f"the log's level was left at {logging.getLevelName(now)}")
    if left:
        pytest.fail("\n".join(left), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test on the loop of the test."""
    loop = cast(LoopOfTest, pyfuncitem.funcargs["loop_of_test"])
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        generated = getattr(pyfuncitem.obj, "hypothesis", None)
        if generated is not None and inspect.iscoroutinefunction(generated.inner_test):
            # Each example is a run of its own on the one loop of the test.
            inner = generated.inner_test
            generated.inner_test = lambda *args, **kwargs: loop.run(inner(*args, **kwargs))
        return None
    names = pyfuncitem._fixtureinfo.argnames
    loop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Lets a fixture be `async def`, with `return` or with `yield`; it runs on the loop of its test."""
    function = fixturedef.func
    if inspect.isasyncgenfunction(function):
        loop: LoopOfTest = request.getfixturevalue("loop_of_test")
        object.__setattr__(fixturedef, "func", _generator_fixture(function, loop))
    elif inspect.iscoroutinefunction(function):
        loop = request.getfixturevalue("loop_of_test")
        object.__setattr__(fixturedef, "func", lambda **arguments: loop.run(function(**arguments)))
    try:
        return (yield)
    finally:
        object.__setattr__(fixturedef, "func", function)


def _generator_fixture(
    function: Callable[..., AsyncIterator[Any]], loop: LoopOfTest
) -> Callable[..., Iterator[Any]]:
    def fixture(**arguments: Any) -> Iterator[Any]:
        values = function(**arguments)

        async def step() -> Any:
            return await anext(values)

        yield loop.run(step())
        try:
            loop.run(step())
        except StopAsyncIteration:
            return
        pytest.fail("an async fixture yielded twice", pytrace=False)

    return fixture
