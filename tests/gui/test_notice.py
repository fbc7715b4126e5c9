"""A notice says what is so, moves nothing, and leaves the keyboard where it was."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication

from app.gui.window import Window
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.test_window import hook_button

NOW = 1_772_465_400 * 1_000_000


def place(window: Window) -> tuple[QPoint, QPoint, QPoint]:
    """Where the tabs, the rows and the kill switch stand in the window."""
    origin = QPoint(0, 0)
    return (
        window.tabs.tabBar().mapTo(window, origin),
        window.current.table.viewport().mapTo(window, origin),
        window.trading_bar.halt.mapTo(window, origin),
    )


async def test_what_was_said_of_a_state_goes_when_somebody_else_ends_it(
    window: Window, engine: StandIn
) -> None:
    click(window.trading_bar.halt)
    await until(lambda: "Halted" in window.trading_bar.word.text())
    assert "Trading is halted" in window.notice.text
    await engine.command("resume", {}, actor="command line", request_id="r1")
    await until(lambda: "Active" in window.trading_bar.word.text())
    assert window.notice.text == ""
    assert not window.notice.isVisible()


async def test_what_was_said_of_anything_else_stays(window: Window, engine: StandIn) -> None:
    click(hook_button(window, "Copy address"))
    said = window.notice.text
    assert said
    await engine.command("halt", {"exits_only": False}, actor="command line", request_id="r1")
    await until(lambda: "Halted" in window.trading_bar.word.text())
    assert window.notice.text == said


async def test_a_button_that_is_off_hands_its_focus_to_nobody_and_takes_it_back(
    window: Window, engine: StandIn
) -> None:
    window.activateWindow()
    send = hook_button(window, "Send test signal")
    engine.hold.clear()
    send.setFocus()
    press(send, Qt.Key.Key_Space)
    assert not send.isEnabled()
    assert window.focusWidget() is None
    press(QApplication.focusWidget() or window, Qt.Key.Key_Space)
    engine.hold.set()
    await until(lambda: "Test signal" in window.notice.text)
    await until(send.isEnabled)
    assert window.focusWidget() is send
    assert engine.trading_state == "active"
    assert engine.commands == []
    press(send, Qt.Key.Key_Space)
    await until(lambda: engine.samples == 2 and send.isEnabled())
    assert engine.commands == []


async def test_a_button_does_not_take_the_focus_from_where_the_person_went(
    window: Window, engine: StandIn
) -> None:
    window.activateWindow()
    send = hook_button(window, "Send test signal")
    engine.hold.clear()
    click(send)
    click(window.hook_bar.address)
    engine.hold.set()
    await until(send.isEnabled)
    assert window.focusWidget() is window.hook_bar.address


async def test_halt_by_key_leaves_no_other_button_under_the_space_bar(
    window: Window, engine: StandIn
) -> None:
    window.activateWindow()
    window.trading_bar.halt.setFocus()
    press(window.trading_bar.halt, Qt.Key.Key_Space)
    await until(lambda: "Halted" in window.trading_bar.word.text())
    await engine.command("resume", {}, actor="command line", request_id="r1")
    await until(window.trading_bar.halt.isEnabled)
    assert window.focusWidget() not in (window.trading_bar.halt, window.trading_bar.exits_only)
    assert len(engine.commands) == 2


async def test_a_notice_moves_nothing_however_long_it_is(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.add_signal(tx, NOW))
    await until(lambda: window.current.is_shown_as_table)
    before = place(window)
    click(hook_button(window, "Copy message"))
    await until(window.notice.isVisible)
    QApplication.sendPostedEvents()
    assert place(window) == before
    window.notice.say("The broker did not answer. " * 30, "error")
    QApplication.sendPostedEvents()
    assert place(window) == before
    label = window.notice.label
    assert label.height() >= label.heightForWidth(label.width())
    click(window.notice.close_button)
    QApplication.sendPostedEvents()
    assert place(window) == before


async def test_a_ledger_that_cannot_be_read_moves_no_row(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.add_signal(tx, NOW))
    await until(lambda: window.current.is_shown_as_table)
    before = place(window)
    window.current.feed.failed.emit("disk I/O error")
    await until(window.current.problem.isVisible)
    QApplication.sendPostedEvents()
    assert place(window) == before
