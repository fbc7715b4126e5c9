"""Closing goes to the tray with a word the first time; quitting says with numbers what it leaves open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from app.gui.leaving import Leaving, still_open
from app.gui.memory import Memory
from app.gui.window import Window
from tests.gui.hands import press, until
from tests.gui.kit import StandIn


class Desk:
    def __init__(self, window: Window, engine: StandIn, *, stays: bool = True) -> None:
        self.has_tray = True
        self.said: list[str] = []
        self.leaving = Leaving(
            window,
            engine.status,
            Memory(engine.home, window),
            engine.stop_requested.is_set,
            stays=stays,
            can_stay=lambda: self.has_tray,
            say=lambda title, text: self.said.append(f"{title}. {text}"),
        )


@pytest.fixture
async def desk(window: Window, engine: StandIn) -> AsyncIterator[Desk]:
    made = Desk(window, engine)
    yield made
    await made.leaving.stop()


def box_of(window: Window) -> QMessageBox:
    (box,) = window.findChildren(QMessageBox)
    return box


async def test_close_goes_to_the_tray_with_a_word_the_first_time_only(
    desk: Desk, window: Window, engine: StandIn
) -> None:
    engine.counts = {"open": 3}
    assert window.close() is False
    assert not window.isVisible()
    assert not engine.stop_requested.is_set()
    assert len(desk.said) == 1
    assert "alerts are taken" in desk.said[0]
    window.show()
    window.close()
    assert len(desk.said) == 1
    later = Desk(window, engine)
    window.show()
    window.close()
    assert later.said == [], "the next run remembers"


async def test_without_a_tray_close_means_quit(desk: Desk, window: Window, engine: StandIn) -> None:
    desk.has_tray = False
    window.close()
    assert engine.stop_reason == "window closed"
    assert window.isVisible()


async def test_close_means_quit_where_the_settings_say_so(window: Window, engine: StandIn) -> None:
    desk = Desk(window, engine, stays=False)
    window.close()
    assert engine.stop_reason == "window closed"
    await desk.leaving.stop()


async def test_a_hidden_window_reads_nothing_and_looks_again_when_it_is_shown(
    desk: Desk, window: Window, engine: StandIn
) -> None:
    window.close()
    assert not window._clock.isActive()
    engine.trading_state = "halted"
    window.show()
    assert window._clock.isActive()
    await until(lambda: "Halted" in window.trading_bar.word.text())


async def test_quit_with_something_open_says_so_with_numbers_and_does_not_by_default(
    desk: Desk, window: Window, engine: StandIn
) -> None:
    engine.counts = {"unresolved": 1, "open": 3, "waiting": 2}
    window.activateWindow()
    press(window, Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)
    await until(lambda: window.findChildren(QMessageBox))
    box = box_of(window)
    said = box.informativeText()
    assert "1 order whose fate nobody knows" in said
    assert "3 orders are open at the broker" in said
    assert "2 orders wait" in said
    assert "are lost" in said
    assert box.defaultButton().text() == box.escapeButton().text() == "Keep running"
    box.defaultButton().click()
    await until(lambda: not window.findChildren(QMessageBox))
    assert not engine.stop_requested.is_set()


async def test_quit_does_it_when_it_was_agreed_and_is_asked_once(
    desk: Desk, window: Window, engine: StandIn
) -> None:
    engine.counts = {"open": 1}
    desk.leaving.quit("menu")
    desk.leaving.quit("menu")
    await until(lambda: window.findChildren(QMessageBox))
    box = box_of(window)
    assert "1 order is open" in box.informativeText()
    next(button for button in box.buttons() if button.text() == "Quit").click()
    await until(engine.stop_requested.is_set)
    assert engine.stop_reason == "menu"
    desk.leaving.quit("menu")
    assert len(window.findChildren(QMessageBox)) <= 1, "a stopping one does not ask"


async def test_quit_from_the_tray_shows_the_window_for_its_question(
    desk: Desk, window: Window, engine: StandIn
) -> None:
    engine.counts = {"unresolved": 2}
    window.hide()
    desk.leaving.quit("tray")
    await until(lambda: window.findChildren(QMessageBox))
    assert window.isVisible()
    assert "2 orders whose fate nobody knows" in box_of(window).informativeText()


async def test_quit_with_nothing_open_asks_nothing(desk: Desk, window: Window, engine: StandIn) -> None:
    engine.counts = {"signals": 9, "open": 0, "waiting": 0, "unresolved": 0}
    desk.leaving.quit("tray")
    assert engine.stop_reason == "tray"
    assert window.findChildren(QMessageBox) == []


async def test_a_question_ends_with_the_window(window: Window, engine: StandIn) -> None:
    desk = Desk(window, engine)
    engine.counts = {"open": 1}
    desk.leaving.quit("menu")
    await until(lambda: window.findChildren(QMessageBox))
    await desk.leaving.stop()
    await until(lambda: not window.findChildren(QMessageBox))
    assert not engine.stop_requested.is_set()


def test_nothing_open_says_nothing(unstarted: StandIn) -> None:
    assert still_open(unstarted.status()) == []
