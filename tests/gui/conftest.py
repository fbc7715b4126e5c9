"""A window on a stand-in engine, shown, settled, and shut at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.gui.window import Window
from tests.gui.kit import StandIn


@pytest.fixture
async def engine(qapp: QApplication, tmp_path: Path) -> AsyncIterator[StandIn]:
    stand_in = StandIn(tmp_path)
    await stand_in.start()
    yield stand_in
    await stand_in.close()


@pytest.fixture
async def window(engine: StandIn) -> AsyncIterator[Window]:
    made = Window(engine)
    made.show()
    await until(lambda: made.current.is_empty or made.current.is_shown_as_table)
    yield made
    await made.shut()


async def until(holds: Callable[[], object]) -> None:
    """Lets the loop run until it holds. The test's own timeout ends one that never does."""
    while not holds():  # noqa: ASYNC110 - what is awaited is a state of many widgets, not one event
        await asyncio.sleep(0.005)
