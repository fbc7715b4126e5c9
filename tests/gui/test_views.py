"""The tabs and the story pane: what is in them, by mouse and by keyboard."""

from __future__ import annotations

import json

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from app.gui.timeline import reply_in_short
from app.gui.window import Window
from tests.gui import rows
from tests.gui.day import trading_day
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn

NOW = 1_772_465_400 * 1_000_000
CONTROL = Qt.KeyboardModifier.ControlModifier


async def fill(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, NOW, quiet_rows=9))
    await until(lambda: window.current.is_shown_as_table)


LISTS = ("signals", "refused", "orders", "reconciliation", "activity", "fills", "positions", "health")


async def show(window: Window, place: int) -> None:
    """`place` among LISTS."""
    bar = window.tabs.tabBar()
    click(bar, bar.tabRect(window.tabs.indexOf(window.views[LISTS[place]])).center())
    await until(lambda: window.current.is_shown_as_table or window.current.is_empty)


def texts(window: Window, row: int) -> list[str]:
    model = window.current.model
    return [str(model.index(row, column).data()).strip() for column in range(model.columnCount())]


def row_center(window: Window, row: int) -> QPoint:
    table = window.current.table
    return table.visualRect(window.current.model.index(row, 1)).center()


@pytest.mark.parametrize("place", range(len(LISTS) - 1))
async def test_an_empty_view_says_what_to_do_next(window: Window, place: int) -> None:
    await show(window, place)
    if LISTS[place] == "activity":  # the making of the ledger is an event
        assert window.current.model.rowCount() == 1
        return
    assert window.current.is_empty
    assert len(window.current.empty.words.text()) > 40


@pytest.mark.parametrize(
    ("place", "first_row"),
    [
        (0, ["S15", "tradingview", "▲ buy", "10", "AAPL", "✓ Done"]),
        (1, ["D19", "tradingview", "≠ Conflict", "422", "S12", "intent_differs: quantity was 0.02, now 0.2"]),
        (2, ["O15", "paper", "▲ buy", "10", "AAPL", "market", "✓ Filled", "10", "187.25"]),
        (3, ["R4", "paper", "! Differences", "3", "38.0 ms", "Timer"]),
        (4, ["E71", "window", "trading state set", "trading", "halted → active"]),
    ],
)
async def test_each_view_shows_its_newest_row_first(
    window: Window, engine: StandIn, place: int, first_row: list[str]
) -> None:
    await fill(window, engine)
    await show(window, place)
    shown = texts(window, 0)
    assert shown[1 : 1 + len(first_row)] == first_row
    numbers = [window.current.model.line(row) for row in range(window.current.model.rowCount())]
    held = [line.number for line in numbers if line is not None]
    assert held == sorted(held, reverse=True)
    assert len(held) == window.current.model.rowCount()


async def test_numbers_stand_at_the_right(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    for view in window.views.values():
        model = view.model
        for place, column in enumerate(view.definition.columns):
            alignment = model.headerData(place, Qt.Orientation.Horizontal, Qt.ItemDataRole.TextAlignmentRole)
            assert bool(alignment & Qt.AlignmentFlag.AlignRight) is column.right


async def test_a_click_shows_the_whole_story(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    click(window.current.table.viewport(), row_center(window, 3))
    await until(lambda: window.detail.page and window.detail.page.id == "S12")
    text = window.detail.text.toPlainText()
    for words in (
        "received",
        "answered 3.4 ms",
        "sent 7.0 ms",
        "Received from tradingview (D16)",
        "Claimed as S12, on disk",
        "O12: about to be sent, and on disk",
        "O12 filled: buy 0.01 at 61250.5",
        "Received again from tradingview (D17)",
        "tv-7f38",
        "The sender put it into the message.",
        "MESSAGE AS STORED, SECRETS BLANKED",
        '"secret": "***"',
    ):
        assert words in text, words
    assert text.index("Claimed as S12") < text.index("O12: about to be sent") < text.index("O12 filled")


async def test_the_arrow_keys_move_and_enter_opens_the_story(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    table = window.current.table
    click(table.viewport(), row_center(window, 0))
    click(window.detail.close_button)
    assert not window.detail.isVisible()
    press(table, Qt.Key.Key_Down)
    assert not window.detail.isVisible()
    press(table, Qt.Key.Key_Return)
    assert window.detail.isVisible()
    await until(lambda: window.detail.page and window.detail.page.id == "S14")
    assert "WAITING_FOR_UNRESOLVED" in window.detail.text.toPlainText()


@pytest.mark.parametrize(
    ("view", "row", "words"),
    [
        ("refused", 0, ["Conflict", "The same key asks for something else", "fields", "quantity"]),
        ("refused", 3, ["It could not be read as an order", "missing_field", "BUY AAPL now!!"]),
        ("orders", 2, ["Ambiguous", "connection reset", "Looked for O13 at the broker", "look failed"]),
        ("orders", 5, ["Denied", "NOTIONAL_EXCEEDS_MAX_PER_ORDER notional=212510 max=5000"]),
        ("reconciliation", 0, ["Critical", "position drift", "ours 0.035, the broker's 0.045"]),
        ("activity", 0, ["window", "trading state set", '"from": "halted"']),
    ],
)
async def test_every_kind_of_row_has_its_story(
    window: Window, engine: StandIn, view: str, row: int, words: list[str]
) -> None:
    await fill(window, engine)
    window.show_view(view)
    await until(lambda: window.current.is_shown_as_table)
    window.current.table.choose(row)
    line = window.current.model.line(row)
    assert line is not None
    await until(lambda: window.detail.page and window.detail.page.id == line.id)
    text = f"{window.detail.word.text()} {window.detail.text.toPlainText()}"
    for each in words:
        assert each in text, each


async def test_what_a_sender_wrote_is_text_and_nothing_else(window: Window, engine: StandIn) -> None:
    evil = '<img src="file:///etc/passwd"><b>FILLED</b>'
    await engine.write(lambda tx: rows.add_signal(tx, NOW, symbol="A<i>B", key=f"{evil}\u202egnp"))
    await until(lambda: window.current.is_shown_as_table)
    window.current.table.choose(0)
    await until(lambda: window.detail.page)
    text = window.detail.text.toPlainText()
    assert evil in text
    assert "\\u202egnp" in text
    assert "A<i>B" in text
    assert window.detail.title.text() == "S1  buy 10 A<i>B"
    assert window.detail.title.textFormat() is Qt.TextFormat.PlainText
    tip = window.current.model.index(0, 7).data(Qt.ItemDataRole.ToolTipRole)
    assert "&lt;img src=" in tip
    assert "<img" not in tip


async def test_the_story_follows_what_happens(window: Window, engine: StandIn) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW))
    await until(lambda: window.current.is_shown_as_table)
    window.current.table.choose(0)
    await until(lambda: window.detail.page)
    assert "Waiting" in window.detail.word.text()
    await engine.write(lambda tx: rows.fill(tx, claim, NOW + 8_000))
    await until(lambda: "Filled" in window.detail.word.text())


async def test_tabs_by_keys_and_the_story_pane_off_and_on(window: Window, engine: StandIn) -> None:
    window.activateWindow()
    for place, name in enumerate(window.views):
        press(window, getattr(Qt.Key, f"Key_{place + 1}"), CONTROL)
        assert window.current.definition.name == name
    press(window, Qt.Key.Key_F4)
    assert not window.detail.isVisible()
    press(window, Qt.Key.Key_F4)
    assert window.detail.isVisible()


async def test_cell_row_and_story_can_be_copied(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    window.activateWindow()
    table = window.current.table
    click(table.viewport(), row_center(window, 3))
    press(table, Qt.Key.Key_C, CONTROL)
    assert QGuiApplication.clipboard().text() == "S12"
    press(table, Qt.Key.Key_C, CONTROL | Qt.KeyboardModifier.AltModifier)
    copied = QGuiApplication.clipboard().text().split("\t")
    assert copied[1:7] == ["S12", "tradingview", "▲ buy", "0.02", "BTCUSDT", "✓ Done"]
    await until(lambda: window.detail.page and window.detail.page.id == "S12")
    click(window.detail.copy_button)
    assert json.loads(QGuiApplication.clipboard().text())["signal"]["key"] == "tv-7f38"


@pytest.mark.qt_log_ignore("This plugin does not support grabbing the keyboard")
async def test_the_context_menu_is_no_nested_loop(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    window.current.table.choose(0)
    window.current.table.customContextMenuRequested.emit(row_center(window, 0))
    menu = next(each for each in window.current.table.findChildren(QMenu) if each.isVisible())
    words = [action.text() for action in menu.actions()]
    assert words == ["&Copy cell", "Copy &row", "Copy row as JSO&N", "Copy story as &JSON"]
    menu.close()


@pytest.mark.parametrize(
    ("reply", "short"),
    [
        (
            'Placed {"order":{"broker_order_id":"b-1","quantity":"2","status":"New","average_price":null}}',
            "Placed, status New, broker order id b-1",
        ),
        ('{"status": "New"}', "status New"),
        ('Refused {"code":"403","detail":"not allowed"}', "Refused, code 403, detail not allowed"),
        ("connection reset", "connection reset"),
        ("Unknown {half of", "Unknown {half of"),
        ('Odd {"a":1}', "Odd"),
        ('{"a":1}', '{"a":1}'),
        ("", ""),
    ],
)
def test_a_reply_is_told_in_short(reply: str, short: str) -> None:
    assert reply_in_short(reply) == short


async def test_a_row_that_is_gone_says_so(window: Window) -> None:
    window.show_thing("S999")
    await until(lambda: window.detail.page)
    assert "not in the ledger" in window.detail.text.toPlainText()
