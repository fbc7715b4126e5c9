"""A window on a stand-in engine, shown, settled, and shut at the end."""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytestqt.plugin
from PySide6.QtWidgets import QApplication

from app.gui.window import Window
from tests.gui.hands import until
from tests.gui.kit import StandIn

_process_events = pytestqt.plugin._process_events


def _events_unless_a_window_is_there() -> None:
    """Between a test's phases pytest-qt lets events run while the test's loop stands still: a window that is
    painted then would start a task on no loop."""
    if not any(isinstance(each, Window) for each in QApplication.topLevelWidgets()):
        _process_events()  # type: ignore[no-untyped-call]


pytestqt.plugin._process_events = _events_unless_a_window_is_there


@pytest.fixture(autouse=True)
def garbage_on_the_main_thread() -> Iterator[None]:
    """The loop of the test before is collected here, not on a ledger's thread: as in main.py."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def unstarted(qapp: QApplication, tmp_path: Path) -> StandIn:
    """Made off the loop, since opening a ledger blocks."""
    return StandIn(tmp_path)


@pytest.fixture
async def engine(unstarted: StandIn) -> AsyncIterator[StandIn]:
    await unstarted.start()
    yield unstarted
    await unstarted.close()


_open: list[Window] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A window stops while the loop of its test still runs: qasync and pytest-qt let events run after it, and
    a window that is due to read then would start a task on no loop."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def stopping_at_the_end(**arguments: object) -> None:
            try:
                await test(**arguments)
            finally:
                for window in _open:
                    window.say_stopping()

        pyfuncitem.obj = stopping_at_the_end
    return (yield)


@pytest.fixture
async def window(engine: StandIn) -> AsyncIterator[Window]:
    made = Window(engine)
    made.show()
    await until(lambda: made.current.is_empty or made.current.is_shown_as_table)
    _open.append(made)
    yield made
    _open.remove(made)
    await made.shut()
