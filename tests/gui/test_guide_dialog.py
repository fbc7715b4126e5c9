"""The first steps: shown once, done from what happens, skipped with a key, and found again under Help."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.gui.guide_dialog import GuideDialog
from app.gui.memory import Memory
from app.gui.samples import ALERT_MESSAGE
from app.gui.setup import GUIDE_SEEN
from app.gui.window import Window
from tests.gui.hands import click, press, until
from tests.gui.kit import TOKEN, StandIn
from tests.gui.setup_kit import nameless


def guide_of(window: Window) -> GuideDialog:
    (dialog,) = window.setup.dialogs
    assert isinstance(dialog, GuideDialog)
    return dialog


async def test_it_greets_once_and_comes_back_only_when_asked(window: Window, engine: StandIn) -> None:
    window.setup.greet()
    guide = guide_of(window)
    assert guide.isVisible()
    assert not guide.isModal()
    click(guide.skip)
    assert window.setup.dialogs == ()
    window.setup.greet()
    assert window.setup.dialogs == ()
    press(window, Qt.Key.Key_F1, Qt.KeyboardModifier.ControlModifier)
    assert guide_of(window).isVisible()
    press(guide_of(window), Qt.Key.Key_Escape)
    assert Memory(engine.home, window).text(GUIDE_SEEN) == "yes"


async def test_its_steps_are_done_by_doing_them(window: Window, engine: StandIn) -> None:
    window.setup.greet()
    guide = guide_of(window)
    assert TOKEN not in guide.address.text()
    click(guide.copy_address)
    assert QGuiApplication.clipboard().text().endswith(TOKEN)
    assert [mark.text() for mark in guide.marks] == ["✓", "2", "3", "4"]
    click(guide.copy_message)
    assert QGuiApplication.clipboard().text() == ALERT_MESSAGE
    click(guide.send)
    await until(lambda: "accepted as S1. Its order: filled." in guide.arrived.text())
    assert engine.samples == 1
    assert [mark.text() for mark in guide.marks] == ["✓"] * 4
    assert guide.marks[3].accessibleName() == "Step 4: done"
    click(guide.show_story)
    await until(lambda: window.detail.title.text().startswith("S1"))


async def test_two_presses_send_one_signal(window: Window, engine: StandIn) -> None:
    window.setup.greet()
    guide = guide_of(window)
    engine.hold.clear()
    click(guide.send)
    click(guide.send)
    engine.hold.set()
    await until(guide.send.isEnabled)
    assert engine.samples == 1


async def test_a_test_signal_that_nobody_takes_is_said_and_no_step_is_done(
    window: Window, engine: StandIn
) -> None:
    window.setup.greet()
    guide = guide_of(window)
    engine.refuse = "no account without money that a test could reach"
    click(guide.send)
    await until(lambda: "no account without money" in guide.notice.text)
    assert [mark.text() for mark in guide.marks] == ["1", "2", "3", "4"]


async def test_controls_have_names_and_no_button_is_hit_by_enter(window: Window, engine: StandIn) -> None:
    window.setup.greet()
    guide = guide_of(window)
    assert nameless(guide) == []
    press(guide, Qt.Key.Key_Return)
    assert guide.isVisible()
    assert engine.samples == 0
