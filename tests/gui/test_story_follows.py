"""The story is that of the tab which is shown, and the window opens where a person is needed."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.clock import SECOND
from app.gui.window import Window
from tests.gui import rows
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.test_needs import two_needs
from tests.gui.test_views import fill, row_center, show


def story(window: Window) -> str | None:
    return window.detail.page.id if window.detail.page else None


async def test_the_story_follows_the_tab_that_is_shown(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    click(window.current.table.viewport(), row_center(window, 3))
    await until(lambda: story(window) == "S12")
    await show(window, 2)
    assert story(window) is None  # nothing is chosen there
    assert window.detail.title.text() == ""
    click(window.current.table.viewport(), row_center(window, 4))
    await until(lambda: story(window) == "O11")
    await show(window, 0)
    await until(lambda: story(window) == "S12")
    await show(window, 2)
    await until(lambda: story(window) == "O11")


async def test_a_click_on_the_chosen_row_brings_its_story_back(window: Window, engine: StandIn) -> None:
    await fill(window, engine)
    click(window.current.table.viewport(), row_center(window, 3))
    await until(lambda: story(window) == "S12")
    window.detail.open("S9")
    await until(lambda: story(window) == "S9")
    click(window.current.table.viewport(), row_center(window, 3))
    await until(lambda: story(window) == "S12")
    window.detail.open("S9")
    await until(lambda: story(window) == "S9")
    press(window.current.table, Qt.Key.Key_Return)
    await until(lambda: story(window) == "S12")


async def test_what_changes_in_another_tab_leaves_the_story(window: Window, engine: StandIn) -> None:
    await two_needs(engine)
    await until(lambda: window.attention.is_loud)
    click(window.attention.button)
    await until(lambda: story(window) == "O2")
    window.show_view("signals")
    await until(lambda: window.current.is_shown_as_table)
    click(window.current.table.viewport(), row_center(window, 1))
    await until(lambda: story(window) == "S1")
    at = engine.clock.now()
    await engine.write(lambda tx: rows.lose_for_good(tx, rows.add_signal(tx, at + 9 * SECOND), at))
    await until(lambda: window.needs.model.rowCount() == 3)
    await engine.reader.rows("SELECT 1")
    assert story(window) == "S1"


async def opened(engine: StandIn) -> Window:
    window = Window(engine)
    window.show()
    await until(lambda: window.needs.is_empty or window.needs.is_shown_as_table)
    return window


async def test_it_opens_on_needs_you_when_something_needs_a_person(
    qapp: QApplication, engine: StandIn
) -> None:
    await two_needs(engine)
    window = await opened(engine)
    try:
        assert window.current is window.needs
        assert window.needs.need is not None
        assert window.needs.need.subject == "O2"
        await until(lambda: story(window) == "O2")
        window.show_view("orders")
        at = engine.clock.now()
        await engine.write(lambda tx: rows.lose_for_good(tx, rows.add_signal(tx, at + 9 * SECOND), at))
        await until(lambda: window.needs.model.rowCount() == 3)
        assert window.current.definition.name == "orders"  # later it takes nobody's tab away
    finally:
        await window.shut()


async def test_it_opens_on_the_tab_used_last_when_nothing_does(qapp: QApplication, engine: StandIn) -> None:
    window = await opened(engine)
    window.show_view("orders")
    await window.shut()
    window = await opened(engine)
    try:
        assert window.current.definition.name == "orders"
    finally:
        await window.shut()
