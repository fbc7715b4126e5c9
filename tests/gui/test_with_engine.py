"""The window on the real engine: a test signal becomes a filled paper order that can be seen."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QToolButton

from app.domain.alert import AlertRules, read_alert
from app.domain.signal import Action
from app.engine import Engine
from app.gui.samples import ALERT_MESSAGE
from app.gui.window import Window
from app.listener.body import read_body
from tests.gui.hands import click, until
from tests.gui.test_decisions import dialog_of, opened, write
from tests.gui.test_views import texts


async def test_a_test_signal_becomes_a_filled_order_in_the_window(qapp: QApplication, tmp_path: Path) -> None:
    engine = Engine(tmp_path, port=0)
    await engine.start()
    window = Window(engine)
    window.show()
    try:
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        send = next(
            each for each in window.hook_bar.findChildren(QToolButton) if each.text() == "Send test signal"
        )
        click(send)
        await until(lambda: "accepted as S1. Its order: filled." in window.notice.text)
        assert window.notice.level == "ok"
        window.show_view("orders")
        await until(lambda: window.current.model.rowCount() == 1)
        state = window.current.model.index(0, 7)
        await until(lambda: state.data() == "✓ Filled")
        window.current.table.choose(0)
        await until(lambda: window.detail.page and "filled: buy 1 at 10" in window.detail.text.toPlainText())
        click(window.trading_bar.halt)
        await until(lambda: "halted" in window.notice.text)
        click(send)
        await until(lambda: window.current.model.rowCount() == 2)
        await until(lambda: window.current.model.index(0, 7).data() == "✕ Denied")
        assert "TRADING_HALTED" in str(window.current.model.index(0, 10).data())
        await until(lambda: "claimed as S2, and its order was denied: TRADING_HALTED" in window.notice.text)
        assert window.notice.level == "warning"
        await engine.command("resume", {}, actor="command line", request_id="a resume from elsewhere")
        await until(window.trading_bar.halt.isEnabled)
        click(window.trading_bar.halt)
        await until(lambda: "Trading is halted" in window.notice.text)
        await engine.command("resume", {}, actor="command line", request_id="another one")
        await until(lambda: window.notice.text == "")
        window.show_view("reconciliation")
        await until(lambda: window.current.is_shown_as_table)
    finally:
        window.say_stopping()
        await engine.stop()
        await window.shut()


async def test_h26_close_and_a_refused_replay_by_buttons_on_the_real_engine(
    qapp: QApplication, tmp_path: Path
) -> None:
    engine = Engine(tmp_path, port=0)
    await engine.start()
    window = Window(engine)
    window.show()
    try:
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        window.doings.test_signal.trigger()
        window.show_view("orders")
        await until(lambda: window.current.model.rowCount() == 1)
        await until(lambda: window.current.model.index(0, 7).data() == "✓ Filled")
        window.current.table.choose(0)

        window.decisions.actions["close"].trigger()
        dialog = await opened(window)
        await until(lambda: "sell 1 " in dialog.plan.text())
        assert window.current.model.rowCount() == 1  # what is only tried leaves nothing
        write(dialog.why, "end of the test")
        click(dialog.yes)
        await until(lambda: window.current.model.rowCount() == 2)
        await until(lambda: window.current.model.index(0, 7).data() == "✓ Filled")
        await until(lambda: not window.decisions.actions["close"].is_busy)
        rows = await engine.reader.rows("SELECT net FROM books")
        assert [row["net"] for row in rows] == ["0"]

        click(window.trading_bar.halt)
        await until(window.trading_bar.resume.isEnabled)
        window.doings.test_signal.trigger()
        await until(lambda: window.current.model.rowCount() == 3)
        await until(lambda: window.current.model.index(0, 7).data() == "✕ Denied")
        window.current.table.choose(0)
        window.decisions.actions["replay"].trigger()
        dialog = await opened(window)
        write(dialog.why, "again")
        await until(lambda: "trading is halted: resume first" in dialog.plan.text())
        assert not dialog.yes.isEnabled()
        click(dialog.no)

        await until(lambda: dialog_of(window) is None)
        window.decisions.actions["purge"].trigger()
        dialog = await opened(window)
        write(dialog.fields["bodies_older_than"], "7")
        await until(lambda: "Bodies: 0 to delete, older than" in dialog.plan.text())
        click(dialog.no)
        await until(lambda: dialog_of(window) is None)
    finally:
        window.say_stopping()
        await engine.stop()
        await window.shut()


FIRED = {
    "{{ticker}}": "AAPL",
    "{{exchange}}": "NASDAQ",
    "{{interval}}": "15",
    "{{time}}": "2026-03-02T15:15:00Z",
    "{{timenow}}": "2026-03-02T15:30:00Z",
    "{{strategy.order.action}}": "buy",
    "{{strategy.order.contracts}}": "10",
    "{{strategy.order.price}}": "187.25",
    "{{strategy.order.id}}": "Long",
    "{{strategy.market_position}}": "long",
    "{{strategy.market_position_size}}": "10",
    "{{strategy.prev_market_position}}": "flat",
    "{{strategy.prev_market_position_size}}": "0",
}
"""What TradingView puts in for each placeholder of the message, for one entry."""


@pytest.mark.parametrize("live", [False, True])
def test_the_message_for_tradingview_is_one_that_the_door_understands(live: bool) -> None:
    message = ALERT_MESSAGE
    for name, value in FIRED.items():
        assert name in message
        message = message.replace(name, value)
    rules = AlertRules(reaches_live=live, needs_quantity=True, places_brackets=False)
    alert = read_alert(read_body(message.encode()), rules)
    signal = alert.signal
    assert (signal.symbol, signal.action, signal.quantity) == ("AAPL", Action.BUY, Decimal(10))
    assert signal.bar_time is not None
    assert signal.fired_at is not None
    assert signal.target == Decimal(10)
    assert alert.warnings == ()


DOUBT = """
[[accounts]]
name = "paper"
broker = "paper"
faults = ["reply_lost_after", "lookups_fail:3"]

[reconciliation]
resolve_deadline = "1s"
"""


@pytest.mark.blocking_allowed("the test writes a config")
async def test_h28_an_order_that_nobody_knows_is_resolved_by_buttons_on_the_real_engine(
    qapp: QApplication, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(DOUBT)
    engine = Engine(tmp_path, port=0)
    await engine.start()
    window = Window(engine)
    window.show()
    try:
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        window.doings.test_signal.trigger()
        await until(lambda: window.needs.needs and window.needs.needs[0].kind == "needs_operator")
        assert window.attention.is_loud
        click(window.attention.button)
        await until(lambda: window.needs.need)
        await until(lambda: window.detail.page and "EVIDENCE ON O1" in window.detail.text.toPlainText())
        assert "Suggested" in window.detail.text.toPlainText()

        # It was filled: the engine takes nobody's word for the contrary, and none at all without an answer.
        click(window.needs.bar.buttons["not_placed"])
        dialog = await opened(window)
        write(dialog.why, "I do not see it")
        await until(dialog.yes.isEnabled)
        click(dialog.yes)
        await until(lambda: dialog.refusal.text)
        words = ("the broker has O1: ", "the broker of paper cannot be asked now")
        assert dialog.refusal.text.startswith(words)
        click(dialog.no)
        await until(lambda: dialog_of(window) is None)
        rows = await engine.reader.rows("SELECT state FROM orders")
        assert rows == [{"state": "NEEDS_OPERATOR"}]

        await until(window.decisions.actions["look_again"].isEnabled)
        click(window.needs.bar.buttons["look_again"])
        dialog = await opened(window)
        write(dialog.why, "ask once more")
        await until(dialog.yes.isEnabled)
        click(dialog.yes)
        await until(lambda: not window.needs.needs)
        await until(lambda: not window.attention.is_loud)
        rows = await engine.reader.rows("SELECT state, ord_status FROM orders")
        assert [(row["state"], row["ord_status"]) for row in rows] == [("DONE", "Filled")]
    finally:
        window.say_stopping()
        await engine.stop()
        await window.shut()


async def test_h26_a_close_is_refused_where_what_was_seen_has_changed(
    qapp: QApplication, tmp_path: Path
) -> None:
    engine = Engine(tmp_path, port=0)
    await engine.start()
    window = Window(engine)
    window.show()
    try:
        await until(lambda: "Ready" in window.strip.cells["account:paper"].word.text())
        window.doings.test_signal.trigger()
        window.show_view("positions")
        await until(lambda: window.current.is_shown_as_table)
        window.current.table.choose(0)
        assert window.current.offers is not None
        click(window.current.offers.buttons[0])
        dialog = await opened(window)
        await until(lambda: "sell 1 " in dialog.plan.text())
        write(dialog.why, "end of the day")
        window.doings.test_signal.trigger()
        await until(lambda: texts(window, 0)[2] == "2")
        click(dialog.yes)
        await until(lambda: "what there is to close has changed: it is 2 " in dialog.refusal.text)
        rows = await engine.reader.rows("SELECT count(*) AS n FROM orders")
        assert rows[0]["n"] == 2  # nothing was sent
        click(dialog.no)
    finally:
        window.say_stopping()
        await engine.stop()
        await window.shut()
