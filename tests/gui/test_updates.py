"""Updates: gathered, at most ten a second, only for what is visible, and the reader's place holds still."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

import apsw
import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication

from app.gui.feed import INTERVAL_MS, Coalescer
from app.gui.pages import PAGE_ROWS
from app.gui.theme import Theme, Tone, dark_palette, light_palette, theme_of
from app.gui.window import Window
from app.ledger.transaction import Transaction
from tests.gui import rows
from tests.gui.day import trading_day
from tests.gui.hands import until
from tests.gui.kit import StandIn

T = TypeVar("T")
NOW = 1_772_465_400 * 1_000_000


class Counted:
    """How often a view was read and its model touched."""

    def __init__(self, window: Window) -> None:
        self.looks = 0
        self.inserts = 0
        self.due = 0
        view = window.current
        view.feed.refreshed.connect(self._look)
        view.model.rowsInserted.connect(self._insert)
        window.coalescer.due.connect(self._due)

    def _look(self) -> None:
        self.looks += 1

    def _insert(self) -> None:
        self.inserts += 1

    def _due(self) -> None:
        self.due += 1


def test_marks_are_gathered_until_the_timer_fires(qapp: QApplication) -> None:
    coalescer = Coalescer()
    assert coalescer.timer.interval() == INTERVAL_MS == 100
    got: list[frozenset[str]] = []
    coalescer.due.connect(got.append)
    for number in range(500):
        coalescer.mark(frozenset({"claims", f"t{number % 2}"}))
    assert got == []
    assert coalescer.timer.isActive()
    coalescer.timer.stop()
    coalescer.timer.timeout.emit()
    assert got == [frozenset({"claims", "t0", "t1"})]
    # Nothing marked: nothing runs.
    assert not coalescer.timer.isActive()
    coalescer.timer.timeout.emit()
    assert len(got) == 1


async def test_five_hundred_commits_are_one_look_a_tick(window: Window, engine: StandIn) -> None:
    counted = Counted(window)
    window.coalescer.timer.setInterval(10**6)  # the test fires it
    for number in range(500):
        await engine.write(lambda tx, number=number: rows.many_signals(tx, NOW + number * 10**6, 1))  # type: ignore[misc]
    assert counted.looks == counted.inserts == 0
    window.coalescer.timer.timeout.emit()
    await until(lambda: counted.looks)
    assert (counted.due, counted.looks, counted.inserts) == (1, 1, 1)
    assert window.current.model.rowCount() == 500
    window.coalescer.timer.stop()


async def test_a_view_that_nobody_sees_is_read_when_it_is_opened(window: Window, engine: StandIn) -> None:
    orders = window.views["orders"]
    looks: list[int] = []
    orders.feed.refreshed.connect(lambda: looks.append(1))
    await engine.write(lambda tx: trading_day(tx, NOW, quiet_rows=3))
    await until(window.current.model.rowCount)
    assert looks == []
    window.show_view("orders")
    await until(lambda: looks)
    assert orders.model.rowCount() == 9
    window.show_view("signals")
    window.show_view("orders")
    await asyncio.sleep(0.02)
    assert looks == [1]


async def test_minimised_it_reads_nothing_and_afterwards_all(window: Window, engine: StandIn) -> None:
    counted = Counted(window)
    window.pause(True)
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 5))
    assert not window.coalescer.timer.isActive()
    assert counted.looks == 0
    window.pause(False)
    await until(lambda: window.current.model.rowCount() == 5)


async def test_twenty_thousand_rows_open_without_being_loaded(engine: StandIn) -> None:
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 20_000))
    window = Window(engine)
    window.show()
    await until(lambda: window.current.is_shown_as_table)
    model = window.current.model
    assert model.rowCount() == 20_000
    assert model.pages_held <= 3
    table = window.current.table
    table.scrollToBottom()
    await until(lambda: model.line(19_999))
    line = model.line(19_999)
    assert line is not None
    assert line.id == "S1"
    table.verticalScrollBar().setValue(table.verticalScrollBar().maximum() // 2)
    await until(lambda: model.line(max(0, table.rowAt(5))))
    assert model.pages_held <= 8
    await window.shut()


async def test_the_chosen_row_and_the_place_hold_still(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 600))
    await until(lambda: window.current.model.rowCount() == 600)
    table, model = window.current.table, window.current.model
    table.verticalScrollBar().setValue(table.verticalHeader().defaultSectionSize() * 200 + 7)
    await until(lambda: model.line(table.rowAt(0) + 3))
    row = table.rowAt(0) + 3
    table.choose(row)
    chosen = table.current_line
    assert chosen is not None
    y = table.visualRect(model.index(row, 0)).y()
    await engine.write(lambda tx: rows.many_signals(tx, NOW + 10**9, 37))
    await until(lambda: model.rowCount() == 637)
    assert table.currentIndex().row() == row + 37
    assert table.current_line is not None
    assert table.current_line.id == chosen.id
    assert table.visualRect(model.index(row + 37, 0)).y() == y


async def test_at_the_top_new_rows_come_into_sight(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 300))
    await until(lambda: window.current.model.rowCount() == 300)
    await engine.write(lambda tx: rows.many_signals(tx, NOW + 10**9, 3))
    await until(lambda: window.current.model.rowCount() == 303)
    assert window.current.table.rowAt(0) == 0
    line = window.current.model.line(0)
    assert line is not None
    assert line.id == "S303"


async def test_rows_that_change_far_below_are_new_when_they_are_seen(window: Window, engine: StandIn) -> None:
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW))
    await engine.write(lambda tx: rows.many_signals(tx, NOW + 10**9, 4 * PAGE_ROWS))
    table, model = window.current.table, window.current.model
    await until(lambda: model.rowCount() == 4 * PAGE_ROWS + 1)
    table.scrollToBottom()
    await until(lambda: model.line(model.rowCount() - 1))
    table.scrollToTop()
    await engine.write(lambda tx: rows.fill(tx, claim, NOW + 8_000))
    looked: list[int] = []
    window.current.feed.refreshed.connect(lambda: looked.append(1))
    await until(lambda: looked)
    table.scrollToBottom()
    last = model.index(model.rowCount() - 1, 6)
    await until(lambda: last.data() == "✓ Done")


async def test_after_a_purge_the_same_row_is_chosen_again(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 40))
    await until(lambda: window.current.model.rowCount() == 40)
    table = window.current.table
    table.choose(3)
    assert table.current_line is not None
    assert table.current_line.id == "S37"

    def purge(tx: Transaction) -> None:
        tx.change("claims", "DELETE FROM claims WHERE id <= 10")

    await engine.write(purge)
    await until(lambda: window.current.model.rowCount() == 30)
    assert table.current_line is not None
    assert table.current_line.id == "S37"


def story_wears(window: Window, theme: Theme) -> bool:
    return window.detail.page is not None and theme.ink[Tone.GOOD].name() in window.detail.page.html


async def test_light_and_dark_can_change_while_it_runs(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, NOW, quiet_rows=3))
    await until(window.current.model.rowCount)
    window.current.table.choose(0)
    await until(lambda: window.detail.page)
    before = QApplication.palette()
    try:
        for palette in (dark_palette(), light_palette()):
            QApplication.setPalette(palette)
            theme = theme_of(palette)
            await until(partial(story_wears, window, theme))
            cell = window.strip.cells["ledger"]
            assert cell.word.palette().color(QPalette.ColorRole.WindowText) == theme.ink[Tone.GOOD]
            colour = window.current.model.index(0, 6).data(Qt.ItemDataRole.ForegroundRole)
            assert colour == theme.ink[Tone.GOOD]
    finally:
        QApplication.setPalette(before)


@pytest.mark.parametrize("error", [apsw.BusyError("database is locked"), KeyError("database is locked")])
async def test_a_story_that_cannot_be_read_is_said(
    window: Window, engine: StandIn, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def broken(work: object) -> object:
        raise error

    monkeypatch.setattr(engine.reader, "call", broken)
    window.show_thing("S1")
    await until(lambda: window.detail.page)
    assert "database is locked" in window.detail.text.toPlainText()
    monkeypatch.undo()
    window.refresh_now()
    await until(lambda: "not in the ledger" in window.detail.text.toPlainText())


async def test_a_ledger_that_cannot_be_read_is_said_and_read_again(
    window: Window, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.reader.call

    async def broken(work: object) -> object:
        raise apsw.BusyError("database is locked")

    monkeypatch.setattr(engine.reader, "call", broken)
    await engine.write(lambda tx: rows.many_signals(tx, NOW, 3))
    await until(lambda: window.current.problem.text)
    assert "database is locked" in window.current.problem.text
    assert window.current.problem.level == "error"
    monkeypatch.setattr(engine.reader, "call", real)
    retry = window.current.feed.findChild(QTimer)
    assert retry is not None
    assert retry.isActive()
    retry.stop()
    retry.timeout.emit()
    await until(lambda: window.current.model.rowCount() == 3)
    assert window.current.problem.text == ""
