"""A person's decisions by clicks: what is said before, what is sent, and that nothing is done by chance."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit

from app.clock import SECOND
from app.gui.decision_dialog import DecisionDialog
from app.gui.window import Window
from app.ledger.transaction import Transaction
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn

EXIT = {
    "order": "O9",
    "account": "paper",
    "symbol": "AAPL",
    "source": "tradingview",
    "strategy": "breakout",
    "side": "sell",
    "book": "10",
    "waits_for": ["O7"],
}
CLOSED: dict[str, Any] = {
    "account": "paper",
    "symbol": "AAPL",
    "orders": [EXIT],
    "already": [],
    "not_ours": [{"symbol": "AAPL", "quantity": "3", "as_of": "2026-03-02T15:30:00.000000Z"}],
}
RESOLVED = {"order": "O1", "was": "NEEDS_OPERATOR", "state": "NOT_PLACED", "filled_quantity": "0"}


def dialog_of(window: Window) -> DecisionDialog | None:
    return next((each for each in window.findChildren(DecisionDialog) if each.isVisible()), None)


async def opened(window: Window) -> DecisionDialog:
    await until(lambda: dialog_of(window))
    dialog = dialog_of(window)
    assert dialog is not None
    return dialog


def write(widget: QLineEdit | QComboBox, text: str) -> None:
    QTest.keyClicks(widget, text)


async def reason_given(window: Window, why: str = "seen at the broker") -> DecisionDialog:
    dialog = await opened(window)
    write(dialog.why, why)
    await until(dialog.yes.isEnabled)
    return dialog


async def choose_worst(window: Window) -> None:
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    await until(lambda: window.needs.need)


async def lost(window: Window, engine: StandIn) -> None:
    at = engine.clock.now()
    await engine.write(lambda tx: rows.lose_for_good(tx, rows.add_signal(tx, at), at + SECOND))
    await choose_worst(window)


async def test_an_unresolved_order_offers_its_three_answers_and_nothing_else(
    window: Window, engine: StandIn
) -> None:
    await lost(window, engine)
    shown = [name for name, each in window.needs.bar.buttons.items() if each.isVisible()]
    assert shown == ["look_again", "placed", "not_placed"]
    assert not window.decisions.actions["replay"].isEnabled()
    window.show_view("signals")
    assert not window.decisions.actions["look_again"].isEnabled()


async def test_h28_not_placed_sends_what_was_seen_and_why_under_the_dialogs_own_request_id(
    window: Window, engine: StandIn
) -> None:
    engine.answers["resolve"] = RESOLVED
    await lost(window, engine)
    click(window.needs.bar.buttons["not_placed"])
    dialog = await opened(window)
    request_id = dialog.request_id
    await until(lambda: "Looks at the broker: 1 absent, 1 failed." in dialog.plan.text())
    assert "buy 10 AAPL in paper" in dialog.plan.text()
    assert not dialog.yes.isEnabled()
    write(dialog.why, "no")
    assert not dialog.yes.isEnabled()
    write(dialog.why, "t in their list")
    click(dialog.yes)
    await until(lambda: window.notice.text)
    assert window.notice.text == "O1 is NOT_PLACED now, it was NEEDS_OPERATOR."
    name, arguments, actor, sent_id = engine.commands[0]
    assert (name, actor, sent_id) == ("resolve", "window", str(uuid.UUID(request_id)))
    assert arguments == {
        "order": "O1",
        "answer": "not_placed",
        "seen": "NEEDS_OPERATOR",
        "why": "not in their list",
    }
    await until(lambda: dialog_of(window) is None)


async def test_it_is_order_x_takes_the_brokers_id(window: Window, engine: StandIn) -> None:
    engine.answers["resolve"] = {**RESOLVED, "state": "DONE", "filled_quantity": "10"}
    await lost(window, engine)
    click(window.needs.bar.buttons["placed"])
    dialog = await opened(window)
    write(dialog.why, "found it by hand")
    assert not dialog.yes.isEnabled()
    write(dialog.fields["broker_order_id"], "P-77")
    await until(dialog.yes.isEnabled)
    click(dialog.yes)
    await until(lambda: window.notice.text)
    assert engine.commands[0][1]["broker_order_id"] == "P-77"
    assert "10 filled" in window.notice.text


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape])
async def test_no_key_hit_by_chance_decides(window: Window, engine: StandIn, key: Qt.Key) -> None:
    engine.answers["resolve"] = RESOLVED
    await lost(window, engine)
    click(window.needs.bar.buttons["not_placed"])
    dialog = await reason_given(window)
    assert not dialog.yes.isDefault()
    press(dialog.why, key)
    if key is not Qt.Key.Key_Escape:
        assert dialog.isVisible()
        click(dialog.no)
    await until(lambda: dialog_of(window) is None)
    await until(lambda: not window.decisions.actions["not_placed"].is_busy)
    assert engine.commands == []


async def test_h26_the_button_is_off_until_the_answer_and_escape_does_not_hide_it(
    window: Window, engine: StandIn
) -> None:
    engine.answers["resolve"] = RESOLVED
    await lost(window, engine)
    click(window.needs.bar.buttons["look_again"])
    dialog = await reason_given(window)
    engine.hold.clear()
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert not dialog.yes.isEnabled()
    assert not dialog.no.isEnabled()
    click(dialog.yes)
    press(dialog, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    engine.hold.set()
    await until(lambda: window.notice.text)
    assert len(engine.commands) == 1


async def test_h26_a_refusal_is_shown_as_it_is_and_a_repeat_is_the_same_request(
    window: Window, engine: StandIn
) -> None:
    engine.answers["resolve"] = RESOLVED
    engine.refuse_to_do = "the broker has O1: buy 10 <b>AAPL</b>"
    await lost(window, engine)
    click(window.needs.bar.buttons["not_placed"])
    dialog = await reason_given(window)
    for _ in range(2):
        click(dialog.yes)
        await until(dialog.yes.isEnabled)
    assert dialog.refusal.text == engine.refuse_to_do
    assert engine.commands[0] == engine.commands[1]
    click(dialog.no)
    await until(window.needs.bar.buttons["not_placed"].isEnabled)
    click(window.needs.bar.buttons["not_placed"])
    again = await opened(window)
    assert again.request_id != engine.commands[0][3]
    click(again.no)


async def test_close_says_with_numbers_what_it_will_do_before_it_does(
    window: Window, engine: StandIn
) -> None:
    engine.answers["close"] = CLOSED
    window.decisions.actions["close"].trigger()
    dialog = await opened(window)
    assert engine.tries == []
    assert dialog.fields["account"].currentText() == "paper"  # type: ignore[union-attr]
    write(dialog.fields["symbol"], "AAPL")
    await until(lambda: "sell 10 AAPL in paper" in dialog.plan.text())
    assert "once O7 is over" in dialog.plan.text()
    assert "Not ours, not touched: 3 AAPL" in dialog.plan.text()
    assert engine.commands == []
    write(dialog.why, "news")
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert engine.commands[0][:2] == (
        "close",
        {"account": "paper", "symbol": "AAPL", "why": "news", "seen": {"AAPL tradingview breakout": "10"}},
    )
    assert engine.tries[0][3] != engine.commands[0][3] == dialog.request_id
    await until(lambda: "sell 10 AAPL" in window.notice.text)


async def test_what_was_said_holds_only_for_the_fields_it_was_said_of(
    window: Window, engine: StandIn
) -> None:
    engine.answers["close"] = CLOSED
    window.decisions.actions["close"].trigger()
    dialog = await opened(window)
    write(dialog.fields["symbol"], "AAPL")
    await reason_given(window)
    write(dialog.fields["symbol"], "X")
    assert not dialog.yes.isEnabled()
    await until(dialog.yes.isEnabled)
    assert engine.tries[-1][1]["symbol"] == "AAPLX"
    click(dialog.no)


async def test_what_cannot_be_done_is_said_at_once_and_cannot_be_pressed(
    window: Window, engine: StandIn
) -> None:
    engine.answers["flatten"] = CLOSED
    engine.refuse = "there is no account 'paper'"
    window.decisions.actions["flatten"].trigger()
    dialog = await opened(window)
    write(dialog.why, "going on holiday")
    await until(lambda: "there is no account 'paper'" in dialog.plan.text())
    assert not dialog.yes.isEnabled()
    click(dialog.no)


async def test_a_book_is_set_on_what_was_seen(window: Window, engine: StandIn) -> None:
    engine.answers["book"] = {
        "account": "paper",
        "symbol": "BTCUSDT",
        "source": "tradingview",
        "strategy": "breakout",
        "was": "0.01",
        "quantity": "0.045",
        "difference": "0.035",
    }
    at = engine.clock.now()

    def drift(tx: Transaction) -> None:
        rows.fill(tx, rows.add_signal(tx, at, symbol="BTCUSDT", quantity="0.01"), at + 1)
        finding = ("warning", "drift", "BTCUSDT", "ours 0.01, the broker's 0.045")
        held = [{"symbol": "BTCUSDT", "expected": "0.01", "broker": "0.045"}]
        rows.add_reconciliation(tx, at + SECOND, "FINDINGS", [finding], positions=held)

    await engine.write(drift)
    await choose_worst(window)
    assert window.needs.bar.buttons["reconcile"].isVisible()
    click(window.needs.bar.buttons["book"])
    dialog = await reason_given(window)
    assert "0.045 instead of 0.01 (0.035)" in dialog.plan.text()
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert engine.commands[0][1] == {
        "account": "paper",
        "symbol": "BTCUSDT",
        "source": "tradingview",
        "strategy": "breakout",
        "quantity": "0.045",
        "seen": "0.01",
        "why": "seen at the broker",
    }


async def test_purge_shows_its_counts_first(window: Window, engine: StandIn) -> None:
    engine.answers["purge"] = {
        "bodies": 12045,
        "bodies_before": "2026-02-01T00:00:00.000000Z",
        "bodies_kept": 3,
        "keys": 0,
        "keys_before": None,
        "keys_kept": 0,
        "warning": "signals that are on their way now will be refused",
    }
    window.decisions.actions["purge"].trigger()
    dialog = await opened(window)
    await until(lambda: "Bodies: 12,045 to delete" in dialog.plan.text())
    assert "Beware: signals that are on their way" in dialog.plan.text()
    write(dialog.fields["bodies_older_than"], "1o")
    await until(lambda: "a whole number of days" in dialog.plan.text())
    press(dialog.fields["bodies_older_than"], Qt.Key.Key_Backspace)
    write(dialog.fields["bodies_older_than"], "0")
    await reason_given(window, "disk")
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert engine.commands[0][1] == {"bodies_older_than": 10 * 86_400 * 1_000_000, "why": "disk"}
    await until(lambda: "12,045 deleted" in window.notice.text)


ADMITTED: dict[str, Any] = {
    "delivery": "D2",
    "signal": "S2",
    "collapsed": False,
    "outcome": {"orders": [{"symbol": "AAPL", "account": "paper"}]},
}


@pytest.mark.parametrize(
    ("button", "answer", "told", "sent"),
    [
        ("admit", ADMITTED, "D2 becomes the signal S2 with 1 order: AAPL in paper.", {"delivery": "D2"}),
        ("dismiss", {"dismissed": ["D2"]}, "Put away: D2.", {"ids": ["D2"]}),
    ],
)
async def test_a_conflict_is_admitted_or_put_away(
    window: Window, engine: StandIn, button: str, answer: dict[str, Any], told: str, sent: dict[str, Any]
) -> None:
    engine.answers[button] = answer
    at = engine.clock.now()
    await engine.write(lambda tx: rows.add_conflict(tx, rows.add_signal(tx, at), at + SECOND))
    await choose_worst(window)
    shown = [name for name, each in window.needs.bar.buttons.items() if each.isVisible()]
    assert shown == ["admit", "dismiss"]
    click(window.needs.bar.buttons[button])
    dialog = await reason_given(window)
    assert dialog.plan.text() == told
    click(dialog.yes)
    await until(lambda: window.notice.text == told)
    assert engine.commands[0][:2] == (button, {**sent, "why": "seen at the broker"})


async def test_h25_replay_sends_the_state_that_was_seen_and_says_what_is_left_out(
    window: Window, engine: StandIn
) -> None:
    again = {"order": "O1", "as": "O3", "symbol": "AAPL", "account": "paper", "same_id": False}
    engine.answers["replay"] = {
        "replayed": [{**again, "was": "DENIED", "reason": "TRADING_HALTED"}],
        "left_out": [{"order": "O2", "why": "it is DONE"}],
    }
    at = engine.clock.now()
    await engine.write(lambda tx: rows.deny(tx, rows.add_signal(tx, at), at + 1, "TRADING_HALTED"))
    window.show_view("orders")
    await until(lambda: window.current.is_shown_as_table)
    window.current.table.choose(0)
    window.decisions.actions["replay"].trigger()
    dialog = await reason_given(window)
    assert "O1 (AAPL in paper) goes out again as O3; it was DENIED (TRADING_HALTED)." in dialog.plan.text()
    assert "Left out: O2, it is DONE." in dialog.plan.text()
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert engine.commands[0][1] == {"order": "O1", "seen": "DENIED", "why": "seen at the broker"}


async def test_an_order_chosen_among_the_orders_can_be_cancelled_by_key(
    window: Window, engine: StandIn
) -> None:
    engine.answers["cancel"] = {"order": "O1", "was": "WORKING", "asked_the_broker": True}
    at = engine.clock.now()
    await engine.write(lambda tx: rows.work(tx, rows.add_signal(tx, at), at + 1))
    window.show_view("orders")
    await until(lambda: window.current.is_shown_as_table)
    window.current.table.choose(0)
    assert window.decisions.actions["cancel"].isEnabled()
    window.activateWindow()
    press(window, Qt.Key.Key_X, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    dialog = await reason_given(window)
    assert "may still fill" in dialog.plan.text()
    click(dialog.yes)
    await until(lambda: engine.commands)
    assert engine.commands[0][1] == {"order": "O1", "seen": "WORKING", "why": "seen at the broker"}


async def test_a_window_that_stops_takes_its_dialog_with_it(window: Window, engine: StandIn) -> None:
    await lost(window, engine)
    click(window.needs.bar.buttons["not_placed"])
    await opened(window)
    window.say_stopping()
    await until(lambda: dialog_of(window) is None)
    assert not any(action.isEnabled() for action in window.decisions.actions.values())


async def test_h13_an_account_is_acknowledged_by_typing_its_number(window: Window, engine: StandIn) -> None:
    """The number stands in the sentence and in no field: money is not let loose by pressing alone."""
    engine.answers["acknowledge"] = {"account": "paper", "identity": "123456789", "was": None, "live": True}
    await engine.write(
        lambda tx: tx.change(
            "accounts",
            "UPDATE accounts SET identity = NULL, answering = '123456789', answering_live = 1, "
            "answering_since = ? WHERE name = 'paper'",
            (engine.clock.now(),),
        )
    )
    await choose_worst(window)
    shown = [name for name, each in window.needs.bar.buttons.items() if each.isVisible()]
    assert shown == ["acknowledge"]
    click(window.needs.bar.buttons["acknowledge"])
    dialog = await opened(window)
    write(dialog.why, "my own account")
    field = dialog.fields["identity"]
    assert isinstance(field, QLineEdit)
    assert field.text() == ""
    assert not dialog.yes.isEnabled()
    assert "123456789" in dialog.question.heading
    write(field, "123456789")
    await until(dialog.yes.isEnabled)
    assert "trades money" in dialog.plan.text()
    click(dialog.yes)
    await until(lambda: window.notice.text)
    name, arguments, actor, _ = engine.commands[0]
    assert (name, actor) == ("acknowledge", "window")
    assert arguments == {"account": "paper", "identity": "123456789", "why": "my own account"}


async def test_a_difference_is_called_none_of_ours(window: Window, engine: StandIn) -> None:
    engine.answers["acknowledge"] = {
        "account": "paper",
        "symbol": "AAPL",
        "difference": "3",
        "external": "3",
    }
    window.decisions.offer({"acknowledge": {"account": "paper", "drift": "AAPL"}})
    window.decisions.actions["acknowledge"].trigger()
    dialog = await reason_given(window)
    assert "3 AAPL" in dialog.plan.text()
    click(dialog.yes)
    await until(lambda: window.notice.text)
    assert engine.commands[0][1] == {"account": "paper", "drift": "AAPL", "why": "seen at the broker"}
