"""Closing only asks; the window answers until the engine has stopped, and leaves nothing behind.

That no task, timer or thread is left is checked after each test by tests/guards.py.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from app.gui.quitting import EXIT_HUNG, Deadline
from app.gui.window import Window
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn

NOW = 1_772_465_400 * 1_000_000


async def test_the_close_button_asks_for_a_stop_and_the_window_stays(window: Window, engine: StandIn) -> None:
    assert window.close() is False
    assert engine.stop_requested.is_set()
    assert engine.stop_reason == "window closed"
    assert window.isVisible()
    assert "Stopping" in window.windowTitle()
    assert "Stopping" in window.notice.text
    for button in (window.trading_bar.halt, window.trading_bar.exits_only, window.trading_bar.resume):
        assert not button.isEnabled()
    window.close()
    assert window.isVisible()


async def test_quit_from_the_menu_and_by_key(window: Window, engine: StandIn) -> None:
    window.activateWindow()
    press(window, Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)
    assert engine.stop_requested.is_set()


async def test_a_stopping_window_reads_nothing_more(window: Window, engine: StandIn) -> None:
    window.say_stopping()
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 5))
    assert engine.listeners == []
    window.current.refresh()
    window.detail.open("S1")
    await asyncio.sleep(0.02)
    assert window.current.model.rowCount() == 0
    assert window.detail.page is None


async def test_it_shuts_with_a_command_and_a_question_still_open(engine: StandIn) -> None:
    window = Window(engine)
    window.show()
    await until(lambda: window.current.is_empty)
    engine.trading_state = "halted"
    engine.announce(frozenset({"status"}))
    await until(window.trading_bar.resume.isEnabled)
    engine.hold.clear()
    window.doings.test_signal.trigger()
    click(window.trading_bar.resume)
    await until(lambda: window.findChildren(QMessageBox))
    await window.shut()
    assert not shiboken6.isValid(window)
    assert engine.samples == 0
    assert engine.commands == []


async def test_what_was_arranged_is_there_the_next_time(engine: StandIn) -> None:
    first = Window(engine)
    first.show()
    # The layout knows how small it can be only when it has seen its width.
    await until(lambda: first.minimumSize().height() <= 577)
    first.resize(1280, 577)
    first.show_view("orders")
    first.show_story(False)
    first.views["refused"].table.setColumnWidth(2, 333)
    await first.shut()
    assert (engine.home / "window.ini").exists()
    second = Window(engine)
    second.show()
    # The screen of the tests is too narrow for the width to come back.
    assert second.height() == 577
    assert second.current.definition.name == "orders"
    assert not second.detail.isVisible()
    assert second.views["refused"].table.columnWidth(2) == 333
    await second.shut()


@pytest.mark.parametrize("content", ["[window]\ngeometry=rubbish\ntab=none\n", "\x00\x01 not an ini"])
async def test_a_broken_memory_is_no_reason_not_to_open(engine: StandIn, content: str) -> None:
    await asyncio.to_thread(Path(engine.home / "window.ini").write_text, content)
    window = Window(engine)
    window.show()
    assert window.width() == 1280
    assert window.current.definition.name == "signals"
    await window.shut()


def test_a_stop_that_hangs_is_ended_by_force() -> None:
    killed: list[int] = []
    gone = threading.Event()

    def kill(code: int) -> None:
        killed.append(code)
        gone.set()

    deadline = Deadline(0.001, kill)
    deadline.start()
    deadline.start()
    assert gone.wait(5)
    deadline.end()
    assert killed == [EXIT_HUNG]


def test_a_stop_in_time_calls_the_deadline_off() -> None:
    killed: list[int] = []
    deadline = Deadline(3_600, killed.append)
    deadline.start()
    deadline.end()
    assert killed == []
