"""Nothing moves when something needs a person, a link chooses its row, the window's own turn is none."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget

from app.clock import SECOND
from app.engine.status import Fact
from app.gui.window import Window
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.test_needs import two_needs


def places(window: Window) -> dict[str, QPoint]:
    def of(widget: QWidget) -> QPoint:
        return widget.mapTo(window, QPoint(0, 0))

    return {
        "halt": of(window.trading_bar.halt),
        "tabs": of(window.tabs),
        "strip": of(window.strip),
        "table": of(window.current.table.viewport()),
        "filter": of(window.views["signals"].filter_bar or window),
        "story": of(window.detail),
    }


async def test_the_band_gets_loud_and_quiet_without_moving_anything(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.add_signal(tx, engine.clock.now(), symbol="AAPL"))
    await until(lambda: window.current.is_shown_as_table)
    before = places(window)
    assert "Nothing needs you" in window.attention.label.text
    assert not window.attention.is_loud
    await two_needs(engine)
    await until(lambda: window.attention.is_loud)
    await until(window.attention.button.isVisible)
    assert places(window) == before
    height = window.attention.height()
    await engine.write(
        lambda tx: tx.change("orders", "UPDATE orders SET state = 'WORKING' WHERE state = 'NEEDS_OPERATOR'")
    )
    await engine.write(
        lambda tx: tx.change("orders", "UPDATE orders SET state = 'DONE' WHERE state = 'WORKING'")
    )
    await until(lambda: len(window.needs.needs) == 1)
    assert (places(window), window.attention.height()) == (before, height)


async def test_parts_that_get_worse_move_nothing(window: Window, engine: StandIn) -> None:
    before = places(window)
    long = "the port does not answer, and it is being opened again: attempt 2 of as many as it takes, " * 3
    engine.facts = [Fact(each.name, "failing", "error", long) for each in engine.facts]
    engine.announce(frozenset({"status"}))
    await until(lambda: "Failing" in window.strip.cells["ledger"].word.text())
    assert places(window) == before
    assert long.strip() in window.strip.cells["ledger"].accessibleDescription()


async def test_a_long_sentence_is_cut_and_whole_in_its_tooltip(window: Window, engine: StandIn) -> None:
    await two_needs(engine)
    await until(lambda: window.attention.is_loud)
    window.resize(700, 600)
    whole = window.attention.label.text
    assert window.attention.label.shown_lines() != [whole]
    assert "O2" in window.attention.label.toolTip()
    assert window.attention.accessibleName() == whole


async def test_the_link_of_the_test_signal_chooses_its_row(window: Window, engine: StandIn) -> None:
    for place in range(300):
        at = engine.clock.now() - (400 - place) * SECOND
        await engine.write(lambda tx, a=at: rows.add_signal(tx, a, with_order=False))  # type: ignore[misc]
    window.show_view("orders")
    press(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    await until(window.notice.show_button.isVisible)
    click(window.notice.show_button)
    await until(lambda: window.current.definition.name == "signals")
    await until(lambda: (line := window.current.table.current_line) is not None and line.id == "S301")
    assert window.current.table.selectionModel().hasSelection()
    await until(lambda: window.detail.page and window.detail.page.id == "S301")


async def test_a_row_that_is_far_away_or_filtered_out_is_found(window: Window, engine: StandIn) -> None:
    start = engine.clock.now() - 9_000 * SECOND
    await engine.write(lambda tx: rows.many_signals(tx, start, 3_000))
    await until(lambda: window.current.model.rowCount() == 3_000)
    bar = window.current.filter_bar
    assert bar is not None
    bar.text.setFocus()
    bar.text.setText("nothing like this")
    press(bar.text, Qt.Key.Key_Return)
    await until(lambda: window.current.model.rowCount() == 0)
    window.show_thing("S17")
    await until(lambda: (line := window.current.table.current_line) is not None and line.id == "S17")
    assert bar.text.text() == ""
    row = window.current.table.currentIndex().row()
    assert row == 3_000 - 17
    assert window.current.table.visualRect(window.current.model.index(row, 0)).top() >= 0


async def test_a_turn_to_needs_you_is_not_remembered_as_a_choice(qapp: QApplication, engine: StandIn) -> None:
    first = Window(engine)
    first.show()
    await until(lambda: first.current.is_empty)
    first.show_view("orders")
    await first.shut()
    await two_needs(engine)
    second = Window(engine)
    second.show()
    await until(lambda: second.current is second.needs)
    await second.shut()
    await engine.write(lambda tx: tx.change("orders", "UPDATE orders SET settled_at = 1"))
    third = Window(engine)
    third.show()
    try:
        assert third._tab == "orders"
    finally:
        await third.shut()


async def test_a_tab_that_was_clicked_is_remembered(qapp: QApplication, engine: StandIn) -> None:
    first = Window(engine)
    first.show()
    bar = first.tabs.tabBar()
    click(bar, bar.tabRect(first.tabs.indexOf(first.views["activity"])).center())
    await until(lambda: first.current.definition.name == "activity")
    await first.shut()
    second = Window(engine)
    second.show()
    try:
        assert second.current.definition.name == "activity"
    finally:
        await second.shut()
