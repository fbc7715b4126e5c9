"""The window's buttons, tabs and menus, by clicks and keys, on a real ledger and a stand-in engine."""

from __future__ import annotations

import uuid

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QToolButton

from app.engine.status import Fact
from app.gui.samples import ALERT_MESSAGE
from app.gui.status_strip import fact_word
from app.gui.theme import Tone
from app.gui.window import Window
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import TOKEN, StandIn

NOW = 1_772_465_400 * 1_000_000


def hook_button(window: Window, text: str) -> QToolButton:
    return next(each for each in window.hook_bar.findChildren(QToolButton) if each.text() == text)


def open_question(window: Window) -> QMessageBox | None:
    boxes = [box for box in window.findChildren(QMessageBox) if box.isVisible()]
    return boxes[0] if boxes else None


async def answer(window: Window, text: str) -> None:
    await until(lambda: open_question(window))
    box = open_question(window)
    assert box is not None
    click(next(each for each in box.buttons() if each.text() == text))


# ------------------------------------------------------------------------------------------ the kill switch


async def test_halt_is_one_click_and_says_what_is_already_on_the_way(window: Window, engine: StandIn) -> None:
    click(window.trading_bar.halt)
    await until(lambda: window.notice.text)
    name, arguments, actor, request_id = engine.commands[0]
    assert (name, arguments, actor) == ("halt", {"exits_only": False}, "window")
    assert str(uuid.UUID(request_id)) == request_id
    assert "halted" in window.notice.text
    assert "O7" in window.notice.text
    await until(lambda: "Halted" in window.trading_bar.word.text())
    assert not window.trading_bar.halt.isEnabled()
    assert window.trading_bar.resume.isEnabled()
    assert "Halted" in window.strip.cells["trading"].word.text()


async def test_h26_a_button_is_off_until_its_answer_and_a_second_press_does_nothing(
    window: Window, engine: StandIn
) -> None:
    engine.hold.clear()
    click(window.trading_bar.halt)
    await until(lambda: engine.commands)
    assert not window.trading_bar.halt.isEnabled()
    click(window.trading_bar.halt)
    window.doings.halt.trigger()
    # A status that comes in meanwhile does not switch it on again.
    window.doings.show_state("active")
    assert not window.trading_bar.halt.isEnabled()
    engine.hold.set()
    await until(lambda: window.notice.text)
    assert len(engine.commands) == 1


async def test_h26_two_presses_are_two_requests(window: Window, engine: StandIn) -> None:
    engine.refuse = "not now"
    for _ in range(2):
        click(window.trading_bar.halt)
        await until(lambda: not window.doings.halt.is_busy)
    assert engine.commands[0][3] != engine.commands[1][3]


async def test_a_refused_command_is_said_in_its_own_words(window: Window, engine: StandIn) -> None:
    engine.refuse = "halted until the next start, but the ledger cannot keep it (full): repeat it"
    click(window.trading_bar.halt)
    await until(lambda: window.notice.text)
    assert window.notice.text == engine.refuse
    assert window.notice.level == "error"
    await until(window.trading_bar.halt.isEnabled)
    click(window.notice.close_button)
    assert window.notice.text == ""


async def test_exits_only_tightens_at_once(window: Window, engine: StandIn) -> None:
    click(window.trading_bar.exits_only)
    await until(lambda: window.notice.text)
    assert engine.commands[0][:2] == ("halt", {"exits_only": True})
    assert engine.trading_state == "exits_only"


@pytest.mark.parametrize("agreed", [True, False])
async def test_exits_only_asks_where_it_lets_exits_out_of_a_halt(
    window: Window, engine: StandIn, agreed: bool
) -> None:
    engine.trading_state = "halted"
    engine.announce(frozenset({"status"}))
    await until(lambda: not window.trading_bar.halt.isEnabled())
    click(window.trading_bar.exits_only)
    await answer(window, "Exits only" if agreed else "Stay halted")
    await until(lambda: not window.doings.exits_only.is_busy)
    assert engine.trading_state == ("exits_only" if agreed else "halted")
    assert bool(engine.commands) is agreed


async def test_resume_asks_with_numbers_and_the_safe_button_is_the_default(
    window: Window, engine: StandIn
) -> None:
    engine.trading_state = "halted"
    engine.counts = {"waiting": 3}
    engine.announce(frozenset({"status"}))
    await until(window.trading_bar.resume.isEnabled)
    click(window.trading_bar.resume)
    await until(lambda: open_question(window))
    box = open_question(window)
    assert box is not None
    assert "3 orders wait" in box.informativeText()
    assert box.defaultButton().text() == "Stay as it is"
    assert not window.trading_bar.resume.isEnabled()
    # The loop runs on while the question is open.
    await engine.write(lambda tx: rows.add_signal(tx, NOW))
    await until(lambda: window.current.model.rowCount() == 1)
    press(box, Qt.Key.Key_Escape)
    await until(lambda: not window.doings.resume.is_busy)
    assert engine.commands == []
    click(window.trading_bar.resume)
    await answer(window, "Resume trading")
    await until(lambda: engine.trading_state == "active")
    await until(lambda: not window.trading_bar.resume.isEnabled())


async def test_every_doing_has_a_shortcut_that_works(window: Window, engine: StandIn) -> None:
    window.activateWindow()
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    press(window, Qt.Key.Key_H, keys)
    await until(lambda: engine.trading_state == "halted")
    press(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    await until(lambda: "Test signal" in window.notice.text)
    assert engine.samples == 1
    press(window, Qt.Key.Key_N, keys)
    await until(lambda: engine.commands[-1][0] == "reconcile")
    await until(lambda: "agree" in window.notice.text)


# ----------------------------------------------------------------------------- the hook and the test signal


async def test_the_address_is_shown_without_its_token_and_copied_with_it(
    window: Window, engine: StandIn
) -> None:
    shown = window.hook_bar.address.text()
    assert shown.startswith("http://127.0.0.1:8787/hook/tradingview/")
    assert TOKEN not in shown
    click(hook_button(window, "Copy address"))
    assert QGuiApplication.clipboard().text() == engine.addresses[0].local
    assert "tradingview" in window.notice.text
    assert TOKEN not in window.notice.text


async def test_another_source_can_be_chosen_and_keeps_being_chosen(window: Window, engine: StandIn) -> None:
    press(window.hook_bar.source, Qt.Key.Key_Down)
    assert "/hook/test/" in window.hook_bar.address.text()
    engine.addresses = [*engine.addresses, engine.addresses[0]]
    engine.announce(frozenset({"status"}))
    await until(lambda: window.hook_bar.source.count() == 3)
    assert window.hook_bar.source.currentText() == "test"
    click(hook_button(window, "Copy address"))
    assert QGuiApplication.clipboard().text() == engine.addresses[1].local


async def test_one_source_needs_no_chooser_and_none_says_so(window: Window, engine: StandIn) -> None:
    assert window.hook_bar.source.isVisible()
    engine.addresses = engine.addresses[:1]
    engine.announce(frozenset({"status"}))
    await until(lambda: not window.hook_bar.source.isVisible())
    engine.addresses = []
    engine.announce(frozenset({"status"}))
    await until(lambda: window.hook_bar.address.text() == "")
    QGuiApplication.clipboard().setText("untouched")
    window.hook_bar.copy()
    assert QGuiApplication.clipboard().text() == "untouched"


async def test_the_alert_message_is_copied(window: Window) -> None:
    click(hook_button(window, "Copy message"))
    assert QGuiApplication.clipboard().text() == ALERT_MESSAGE
    assert "{{strategy.order.action}}" in ALERT_MESSAGE


async def test_a_test_signal_arrives_and_its_story_is_one_click_away(window: Window, engine: StandIn) -> None:
    assert window.current.is_empty
    click(hook_button(window, "Send test signal"))
    await until(lambda: window.current.is_shown_as_table)
    await until(lambda: "accepted as S1" in window.notice.text)
    click(window.notice.show_button)
    await until(lambda: window.detail.page)
    assert window.detail.title.text() == "S1  buy 1 SAMPLE"
    assert "Filled" in window.detail.word.text()


# ------------------------------------------------------------------------------------------------ the strip


async def test_each_fact_has_a_word_a_glyph_and_its_reason(window: Window, engine: StandIn) -> None:
    from app.engine import Fact

    engine.facts[0] = Fact("listener", "deaf", "error", "the port does not answer")
    engine.announce(frozenset({"status"}))
    await until(lambda: "Deaf" in window.strip.cells["listener"].word.text())
    cell = window.strip.cells["listener"]
    assert cell.word.text() == "✕ Deaf"
    assert cell.reason.text == "the port does not answer"
    assert cell.toolTip() == "<qt>Listener: Deaf. the port does not answer</qt>"
    assert cell.accessibleName() == "Listener: Deaf"
    assert cell.accessibleDescription() == "the port does not answer"
    assert set(window.strip.cells) == {fact.name for fact in engine.facts}
    assert window.strip.cells["account:paper"].name.text() == "Account paper"


async def test_accounts_that_come_and_go_change_the_strip(window: Window, engine: StandIn) -> None:
    from app.engine import Fact

    before = list(engine.facts)
    engine.facts = [*before, *(Fact(f"account:{name}", "ready", "ok", "") for name in "abcdef")]
    engine.announce(frozenset({"status"}))
    await until(lambda: "account:f" in window.strip.cells)
    assert all(cell.isVisible() for cell in window.strip.cells.values())
    lines = {cell.y() for cell in window.strip.cells.values()}
    await until(lambda: len({cell.y() for cell in window.strip.cells.values()}) > 1 or len(lines) > 1)
    engine.facts = before
    engine.announce(frozenset({"status"}))
    await until(lambda: "account:f" not in window.strip.cells)


def test_a_part_that_is_not_there_has_no_tick() -> None:
    """Without a tunnel nothing from outside gets in: a green tick would say that it does."""
    missing = fact_word(Fact("tunnel", "none", "ok", "no tunnel of Onefill's own"))
    assert (missing.glyph, missing.text, missing.tone) == ("–", "None", Tone.QUIET)
    up = fact_word(Fact("tunnel", "up", "ok", "heard through it"))
    assert (up.glyph, up.tone) == ("✓", Tone.GOOD)
