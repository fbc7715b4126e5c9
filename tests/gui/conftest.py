"""A window on a stand-in engine, shown, settled, and shut at the end."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.gui.window import Window
from tests.gui.hands import until
from tests.gui.kit import StandIn


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """After the test pytest-qt lets events run without a loop: no window may start a task then."""
    try:
        yield
    finally:
        for window in _open:
            window.say_stopping()


@pytest.fixture
async def window(engine: StandIn) -> AsyncIterator[Window]:
    made = Window(engine)
    made.show()
    await until(lambda: made.current.is_empty or made.current.is_shown_as_table)
    # pytest-qt lets events run after the fixtures, without a loop: nothing may be due then.
    await until(lambda: not made.coalescer.timer.isActive())
    _open.append(made)
    yield made
    _open.remove(made)
    await made.shut()
