"""Fills, positions and health: what they show of the ledger and of the engine, and what can be done there."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QFileDialog, QLineEdit, QPushButton

from app.clock import SECOND
from app.engine.status import Fact
from app.gui.decision_dialog import DecisionDialog
from app.gui.fills import slippage, slippage_text
from app.gui.window import Window
from app.ledger.positions import positions, section_failed
from app.ledger.transaction import Transaction
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.test_views import row_center, texts

NOW = 1_772_465_400 * SECOND
CONTROL = Qt.KeyboardModifier.ControlModifier
ALT = Qt.KeyboardModifier.AltModifier


def bought(tx: Transaction, symbol: str, quantity: str, at: int) -> None:
    rows.fill(tx, rows.add_signal(tx, at, symbol=symbol, quantity=quantity), at)


async def two_positions(engine: StandIn) -> None:
    """AAPL as the broker has it, MSFT not; and then BTCUSDT bought after the broker was asked."""
    for place, symbol in enumerate(("AAPL", "MSFT")):
        await engine.write(partial(bought, symbol=symbol, quantity="10", at=NOW + place * SECOND))
    held = [
        {"symbol": "AAPL", "expected": "10", "broker": "10"},
        {"symbol": "MSFT", "expected": "10", "broker": "7"},
        {"symbol": "TSLA", "expected": "0", "broker": "3"},
    ]
    await engine.write(lambda tx: rows.add_reconciliation(tx, NOW + 9 * SECOND, "FINDINGS", positions=held))
    await engine.write(partial(bought, symbol="BTCUSDT", quantity="2", at=NOW + 20 * SECOND))


async def shown(window: Window, view: str) -> None:
    window.show_view(view)
    await until(lambda: window.current.is_shown_as_table)


async def test_positions_stand_side_by_side_worst_first(window: Window, engine: StandIn) -> None:
    await two_positions(engine)
    await shown(window, "positions")
    assert [texts(window, row)[:6] for row in range(4)] == [
        ["paper", "MSFT", "10", "7", "-3", "! Differs"],
        ["paper", "TSLA", "0", "3", "3", "! Differs"],
        ["paper", "BTCUSDT", "2", "0", "", "… Compare again"],
        ["paper", "AAPL", "10", "10", "0", "✓ Agrees"],
    ]
    assert texts(window, 0)[7] == "10 tradingview breakout"


async def test_a_position_tells_whose_it_is_and_closes_by_its_button(window: Window, engine: StandIn) -> None:
    await two_positions(engine)
    await shown(window, "positions")
    click(window.current.table.viewport(), row_center(window, 0))
    await until(lambda: window.detail.page and window.detail.page.title == "MSFT in paper")
    text = window.detail.text.toPlainText()
    for words in ("we expect 10", "broker says 7", "difference -3", "10 tradingview breakout", "at 412.1"):
        assert words in " ".join(text.split()), words
    engine.answers["close"] = {
        "account": "paper",
        "symbol": "MSFT",
        "already": [],
        "not_ours": [],
        "orders": [
            {
                "order": "O9",
                "account": "paper",
                "symbol": "MSFT",
                "source": "tradingview",
                "strategy": "breakout",
                "side": "sell",
                "book": "10",
                "waits_for": [],
            }
        ],
    }
    assert window.current.offers is not None
    click(window.current.offers.buttons[0])
    await until(lambda: window.findChildren(DecisionDialog))
    (dialog,) = window.findChildren(DecisionDialog)
    await until(lambda: "sell 10 MSFT in paper" in dialog.plan.text())
    assert not dialog.yes.isDefault()
    assert not dialog.yes.autoDefault()
    press(dialog.why, Qt.Key.Key_Return)
    assert engine.commands == []  # Enter does nothing
    QTest.keyClicks(dialog.why, "end of day")
    click(dialog.yes)
    await until(lambda: engine.commands)
    name, arguments, actor, _request = engine.commands[0]
    assert (name, actor) == ("close", "window")
    assert arguments["account"] == "paper"
    assert arguments["symbol"] == "MSFT"


async def test_what_the_broker_did_not_tell_is_not_known_and_never_flat(engine: StandIn) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW, symbol="AAPL", quantity="10"))
    await engine.write(lambda tx: rows.fill(tx, claim, NOW))
    (row,) = await engine.reader.call(positions)
    assert (row["expected"], row["broker"], row["state"]) == ("10", None, "unknown")
    await engine.write(lambda tx: rows.add_reconciliation(tx, NOW + SECOND))
    failed = {"sections": {"positions": {"ok": False, "reason": "timed out"}}, "positions": []}
    await engine.write(
        lambda tx: tx.change(
            "reconciliations",
            "INSERT INTO reconciliations (account, cause, started_at, ended_at, result, report) "
            "VALUES ('paper', 'timer', ?, ?, 'PARTIAL', ?)",
            (NOW + 2 * SECOND, NOW + 3 * SECOND, json.dumps(failed)),
        )
    )
    (row,) = await engine.reader.call(positions)
    assert (row["broker"], row["state"], row["run"]) == ("10", "agrees", "R1")


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({}, None),
        ({"sections": {"positions": "ok"}}, None),
        ({"sections": {"positions": {"ok": True}}}, None),
        ({"sections": {"positions": {"status": "failed", "reason": "401"}}}, "401"),
        ({"sections": {"positions": "failed: 503"}}, "failed: 503"),
    ],
)
def test_a_section_that_failed_says_why(report: dict[str, object], why: str | None) -> None:
    assert section_failed(report, "positions") == why


@pytest.mark.parametrize(
    ("side", "price", "reference", "said"),
    [
        ("buy", "101", "100", "1 worse (100 bp)"),
        ("buy", "99.5", "100", "0.5 better (50 bp)"),
        ("sell", "99.5", "100", "0.5 worse (50 bp)"),
        ("sell", "100", "100", "none"),
        ("buy", "61251.5", "61250.5", "1 worse (0.2 bp)"),
    ],
)
def test_slippage_is_said_as_worse_or_better(side: str, price: str, reference: str, said: str) -> None:
    found = slippage(side, price, reference)
    assert found is not None
    assert slippage_text(*found) == said


@pytest.mark.parametrize("reference", [None, "", "0", "abc"])
def test_without_a_price_in_the_signal_there_is_no_slippage(reference: str | None) -> None:
    assert slippage("buy", "10", reference) is None


async def test_fills_show_their_distance_from_the_signal(window: Window, engine: StandIn) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW, symbol="AAPL", quantity="10"))
    await engine.write(lambda tx: rows.fill(tx, claim, NOW, parts=2))
    await shown(window, "fills")
    assert texts(window, 0)[1:9] == ["O1", "paper", "▲ buy", "5", "AAPL", "188.25", "1 worse (53.4 bp)", "0"]
    assert texts(window, 1)[7] == "none"
    press(window.current.table, Qt.Key.Key_Home)
    window.current.table.choose(0)
    await until(lambda: window.detail.page and window.detail.page.id == "O1")


async def test_health_lists_every_part_worst_first_and_since_when(window: Window, engine: StandIn) -> None:
    await engine.write(
        lambda tx: tx.change(
            "unauthenticated",
            "INSERT INTO unauthenticated (hour, reason, count) VALUES (?, 'bad_secret', 3)",
            (engine.clock.now() // 3_600_000_000 * 3_600_000_000,),
        )
    )
    await shown(window, "health")
    assert [texts(window, row)[0] for row in range(7)] == [
        "Listener",
        "Ledger",
        "Account paper",
        "Clock",
        "Trading",
        "Loop lag",
        "Turned away, 24 hours",
    ]
    assert texts(window, 6)[1:] == ["· 3", "", "3 with a wrong secret"]
    began = texts(window, 3)[2]
    engine.clock.advance(90 * SECOND)
    engine.facts[3] = Fact("clock", "stepped", "warning", "the clock went forward by 3 min at once")
    engine.announce(frozenset({"status"}))
    await until(lambda: texts(window, 0)[:2] == ["Clock", "▲ Stepped"])
    assert texts(window, 0)[2] != began
    assert texts(window, 1)[2] == began
    click(window.current.table.viewport(), row_center(window, 0))
    assert window.detail.title.text() == "Clock"
    assert "went forward by 3 min" in window.detail.text.toPlainText()


async def test_a_row_is_copied_as_json(window: Window, engine: StandIn) -> None:
    await two_positions(engine)
    await shown(window, "orders")
    window.current.table.choose(0)
    press(window.current.table, Qt.Key.Key_J, CONTROL | ALT)
    row = json.loads(QGuiApplication.clipboard().text())
    assert (row["id"], row["symbol"], row["filled_quantity"]) == ("O3", "BTCUSDT", "2")
    assert row["created_at"].endswith("Z")
    assert "number" not in row


def file_dialog(window: Window) -> QFileDialog | None:
    return next((each for each in window.findChildren(QFileDialog) if each.isVisible()), None)


@pytest.mark.parametrize("name", ["shown.csv", "shown.jsonl"])
async def test_what_is_shown_is_exported(window: Window, engine: StandIn, tmp_path: Path, name: str) -> None:
    await two_positions(engine)
    await shown(window, "orders")
    assert window.current.filter_bar is not None
    QTest.keyClicks(window.current.filter_bar.text, "symbol:aapl")
    await until(lambda: window.current.model.rowCount() == 1)
    press(window.current.table, Qt.Key.Key_E, CONTROL)
    await until(lambda: file_dialog(window))
    dialog = file_dialog(window)
    assert dialog is not None
    edit = next(iter(dialog.findChildren(QLineEdit, "fileNameEdit")))
    edit.setText(str(tmp_path / name))
    save = next(each for each in dialog.findChildren(QPushButton) if "Save" in each.text())
    click(save)
    await until(lambda: window.notice.text.startswith("1 rows written to"))
    text = (tmp_path / name).read_text(encoding="utf-8-sig")
    if name.endswith(".csv"):
        head, row = text.splitlines()
        assert head.startswith("id,signal,account")
        assert row.startswith("O1,S1,paper")
    else:
        assert json.loads(text)["symbol"] == "AAPL"


async def test_an_export_that_was_left_writes_nothing(window: Window, engine: StandIn) -> None:
    window.exporting.action.trigger()
    await until(lambda: file_dialog(window))
    dialog = file_dialog(window)
    assert isinstance(dialog, QDialog)
    press(dialog, Qt.Key.Key_Escape)
    await until(lambda: not window.exporting.action.is_busy)
    assert window.notice.text == ""


def test_slippage_keeps_every_digit() -> None:
    found = slippage("buy", "0.000000012", "0.000000010")
    assert found == (Decimal("0.000000002"), Decimal("2000.0"))
