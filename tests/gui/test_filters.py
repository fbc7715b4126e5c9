"""Filter, chips, time, order and columns of a view: by keys and clicks, and remembered the next day."""

from __future__ import annotations

import asyncio
from array import array

import apsw
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QToolButton

from app.gui import feed
from app.gui.filter_bar import FilterBar
from app.gui.filters import DAY, HOUR, Filter, midnight, read_filter
from app.gui.remembering import remember
from app.gui.window import Window
from app.ledger.listing import Search, matching
from app.ledger.reader import SearchEnded
from tests.gui import rows
from tests.gui.day import trading_day
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn

NOW = 1_772_465_400 * 1_000_000
CONTROL = Qt.KeyboardModifier.ControlModifier


async def filled(window: Window, engine: StandIn, view: str = "orders") -> FilterBar:
    await engine.write(lambda tx: trading_day(tx, NOW, quiet_rows=9))
    window.show_view(view)
    await until(lambda: window.current.is_shown_as_table)
    bar = window.current.filter_bar
    assert bar is not None
    return bar


def column(window: Window, name: str) -> list[str]:
    """The texts of a column, as shown from top to bottom."""
    names = [each.name for each in window.current.definition.columns]
    model = window.current.model
    return [str(model.index(row, names.index(name)).data()).strip() for row in range(model.rowCount())]


def head(window: Window, name: str) -> None:
    """A click on the title of this column."""
    names = [each.name for each in window.current.definition.columns]
    titles = window.current.table.horizontalHeader()
    x = titles.sectionViewportPosition(names.index(name)) + 12
    QTest.mouseClick(
        titles.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, QPoint(x, 8)
    )


async def test_typed_words_narrow_the_rows_and_escape_clears_them(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine)
    everything = window.current.model.rowCount()
    press(window.current.table, Qt.Key.Key_F, CONTROL)
    assert bar.text.hasFocus()
    QTest.keyClicks(bar.text, "symbol:btc")
    await until(lambda: set(column(window, "symbol")) == {"BTCUSDT"})
    assert 0 < window.current.model.rowCount() < everything
    assert bar.status.text() == f"{window.current.model.rowCount()} found"
    press(bar.text, Qt.Key.Key_Down)
    assert window.current.table.hasFocus()
    press(window.current.table, Qt.Key.Key_F, CONTROL)
    press(bar.text, Qt.Key.Key_Escape)
    await until(lambda: window.current.model.rowCount() == everything)
    assert bar.text.text() == ""
    assert bar.status.text() == f"{everything} rows"


async def test_chips_are_clicked_on_and_off_and_say_so_by_more_than_colour(
    window: Window, engine: StandIn
) -> None:
    bar = await filled(window, engine)
    everything = window.current.model.rowCount()
    await until(lambda: bar.chips["filled"].text().endswith(" 11"))
    click(bar.chips["denied"])
    await until(lambda: column(window, "state") == ["✕ Denied"])
    assert bar.chips["denied"].text().endswith("✕")
    assert bar.chips["denied"].accessibleName() == "Only ✕ Not placed 1: on"
    click(bar.chips["unresolved"])
    await until(lambda: sorted(column(window, "state")) == ["? Ambiguous", "✕ Denied"])
    click(bar.chips["denied"])
    click(bar.chips["unresolved"])
    await until(lambda: window.current.model.rowCount() == everything)
    assert bar.chips["denied"].accessibleName().endswith(": off")


async def test_a_filter_that_finds_nothing_says_so_and_is_cleared_by_a_button(
    window: Window, engine: StandIn
) -> None:
    bar = await filled(window, engine)
    QTest.keyClicks(bar.text, "nobody")
    await until(window.current.nothing.isVisible)
    assert bar.status.text() == "0 found"
    click(next(iter(window.current.nothing.findChildren(QToolButton))))
    await until(lambda: window.current.is_shown_as_table)


async def test_rows_that_come_in_join_what_was_found(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine, "signals")
    QTest.keyClicks(bar.text, "msft")
    await until(lambda: set(column(window, "symbol")) == {"MSFT"})
    before = window.current.model.rowCount()
    await engine.write(lambda tx: rows.add_signal(tx, NOW + 1, symbol="MSFT", quantity="77"))
    await engine.write(lambda tx: rows.add_signal(tx, NOW + 2, symbol="AAPL", quantity="78"))
    await until(lambda: window.current.model.rowCount() == before + 1)
    assert column(window, "quantity")[0] == "77"


async def test_an_order_that_no_longer_fits_leaves_the_list(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine)
    claim = await engine.write(lambda tx: rows.add_signal(tx, NOW + 1, symbol="MSFT", quantity="7"))
    await engine.write(lambda tx: rows.work(tx, claim, NOW + 2))
    click(bar.chips["open"])
    await until(lambda: f"O{claim}" in column(window, "id"))
    await engine.write(
        lambda tx: tx.change("orders", "UPDATE orders SET state = 'DONE' WHERE claim_id = ?", (claim,))
    )
    await until(lambda: f"O{claim}" not in column(window, "id"))


async def test_a_click_on_a_title_sorts_and_the_third_brings_newest_first_back(
    window: Window, engine: StandIn
) -> None:
    await filled(window, engine)
    newest_first = column(window, "id")
    head(window, "quantity")
    numbers = [float(text) for text in column(window, "quantity") if text]
    await until(lambda: [float(t) for t in column(window, "quantity") if t] == sorted(numbers)[::-1])
    titles = window.current.table.horizontalHeader()
    assert titles.isSortIndicatorShown()
    assert titles.sortIndicatorOrder() is Qt.SortOrder.DescendingOrder
    head(window, "quantity")
    await until(lambda: [float(t) for t in column(window, "quantity") if t] == sorted(numbers))
    head(window, "quantity")
    await until(lambda: column(window, "id") == newest_first)
    assert not titles.isSortIndicatorShown()


async def test_sorting_and_columns_are_in_the_menu_for_the_keyboard(window: Window, engine: StandIn) -> None:
    await filled(window, engine)
    menus = {menu.title(): menu for menu in window.menuBar().findChildren(QMenu)}
    menus["Sort b&y"].aboutToShow.emit()
    menus["&Columns"].aboutToShow.emit()
    next(each for each in menus["Sort b&y"].actions() if each.text() == "Symbol").trigger()
    await until(lambda: column(window, "symbol") == sorted(column(window, "symbol"), reverse=True))
    hide = next(each for each in menus["&Columns"].actions() if each.text() == "Average")
    assert hide.isChecked()
    hide.trigger()
    names = [each.name for each in window.current.definition.columns]
    assert window.current.table.isColumnHidden(names.index("average"))


async def test_the_last_column_stays(window: Window, engine: StandIn) -> None:
    await filled(window, engine)
    table = window.current.table
    for _ in range(20):
        action = next((a for a in table.column_actions() if a.isChecked() and a.isEnabled()), None)
        if action is not None:
            action.trigger()
    shown = [place for place in range(table.model().columnCount()) if not table.isColumnHidden(place)]
    assert len(shown) == 1


async def test_a_time_is_chosen(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine)
    everything = window.current.model.rowCount()
    bar.span.setFocus()
    press(bar.span, Qt.Key.Key_End)  # from ... to ...
    assert bar.since.isVisible()
    bar.since.setDateTime(bar.since.dateTime().fromMSecsSinceEpoch(NOW // 1_000 - 800_000))
    bar.until.setDateTime(bar.until.dateTime().fromMSecsSinceEpoch(NOW // 1_000))
    await until(lambda: 0 < window.current.model.rowCount() < everything)
    assert bar.clear_button.isEnabled()
    click(bar.clear_button)
    await until(lambda: window.current.model.rowCount() == everything)
    assert not bar.since.isVisible()


async def test_all_of_it_is_there_the_next_day(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine)
    QTest.keyClicks(bar.text, "btc")
    click(bar.chips["filled"])
    head(window, "symbol")
    head(window, "quantity")
    table = window.current.table
    table.column_actions()[2].trigger()
    await until(lambda: set(column(window, "symbol")) == {"BTCUSDT"})
    found = column(window, "id")
    remember(window, window._memory, "orders")
    second = Window(engine)
    second.show()
    try:
        await until(lambda: second.current is second.needs)  # where something needs a person
        second.show_view("orders")
        await until(lambda: second.current.is_shown_as_table)
        await until(lambda: column(second, "id") == found)
        again = second.current.filter_bar
        assert again is not None
        assert again.text.text() == "btc"
        assert again.chips["filled"].isChecked()
        assert second.current.filter.sort == "quantity"
        assert second.current.table.horizontalHeader().isSortIndicatorShown()
        assert second.current.table.isColumnHidden(2)
    finally:
        await second.shut()


async def test_a_long_search_says_so_and_gives_way_to_the_next(window: Window, engine: StandIn) -> None:
    bar = await filled(window, engine)
    ended = 0
    call = window._searches.call

    async def slow(work: object) -> object:
        nonlocal ended
        if bar.text.text() == "slow":
            while bar.text.text() == "slow":  # noqa: ASYNC110 - ended from outside, as a search is
                await asyncio.sleep(0.005)
            ended += 1
            raise SearchEnded
        return await call(work)  # type: ignore[arg-type]

    window._searches.call = slow  # type: ignore[method-assign,assignment]
    QTest.keyClicks(bar.text, "slow")
    await until(lambda: bar.status.text() == "Searching…")
    bar.text.clear()
    QTest.keyClicks(bar.text, "btc")
    await until(lambda: set(column(window, "symbol")) == {"BTCUSDT"})
    assert ended >= 1  # the chips are counted on the same thread
    window._searches.call = call  # type: ignore[method-assign]


async def test_a_search_that_fails_is_said_and_tried_again(
    window: Window, engine: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = await filled(window, engine)
    failures = [apsw.IOError("disk I/O error")]

    def failing(connection: apsw.Connection, view: str, search: Search) -> array[int]:
        if failures:
            raise failures.pop()
        return matching(connection, view, search)

    monkeypatch.setattr(feed, "matching", failing)
    QTest.keyClicks(bar.text, "btc")
    await until(lambda: "disk I/O error" in window.current.problem.text)
    await until(lambda: set(column(window, "symbol")) == {"BTCUSDT"})
    assert window.current.problem.text == ""


def test_ranges_become_times_when_they_are_looked_for() -> None:
    assert Filter(span="hour").search(NOW).since == NOW - HOUR
    assert Filter(span="week").search(NOW).since == NOW - 7 * DAY
    today = Filter(span="today").search(NOW).since
    assert today is not None
    assert today == midnight(NOW)
    assert 0 <= NOW - today < DAY
    between = Filter(span="between", since=5, until=9).search(NOW)
    assert (between.since, between.until) == (5, 9)
    assert Filter().search(NOW).is_plain
    assert not Filter(sort="id").search(NOW).is_plain


def test_a_filter_of_another_version_leaves_out_what_is_unknown() -> None:
    kept = Filter(text="x", chips=["open", "gone"], span="era", sort="digest").written()
    assert read_filter(kept, {"id"}, {"open"}) == Filter(text="x", chips=["open"])
    assert read_filter("{nonsense", {"id"}, {"open"}) == Filter()
