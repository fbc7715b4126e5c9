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
