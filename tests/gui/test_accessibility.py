"""What can be reached has a name, what can be done has a key, and Tab goes everywhere."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDateTimeEdit,
    QLineEdit,
    QMenu,
    QTextBrowser,
    QWidget,
)

from app.gui.charts import Charts
from app.gui.plot import Plot
from app.gui.table import LedgerTable
from app.gui.window import Window
from tests.gui.day import trading_day
from tests.gui.hands import press, until
from tests.gui.kit import StandIn

REACHABLE = (QAbstractButton, QComboBox, QLineEdit, QDateTimeEdit, LedgerTable, QTextBrowser, Plot)


def reachable(window: Window) -> list[QWidget]:
    found: list[QWidget] = []
    for kind in REACHABLE:
        found += window.findChildren(kind)
    return [each for each in found if each.objectName() != "qt_spinbox_lineedit"]


async def test_every_control_has_a_name(window: Window) -> None:
    nameless = []
    for widget in reachable(window):
        if widget.objectName().startswith(("qt_", "Scroll")):
            continue  # parts of Qt's own widgets
        interface = QAccessible.queryAccessibleInterface(widget)
        if not interface.text(QAccessible.Text.Name).strip():
            nameless.append(repr(widget))
    assert nameless == []


async def test_every_action_is_in_a_menu_and_has_a_key_of_its_own(window: Window) -> None:
    menus = [action.menu() for action in window.menuBar().actions()]
    actions = [
        action
        for menu in menus
        if isinstance(menu, QMenu)
        for action in menu.actions()
        if not action.isSeparator() and action.menu() is None
    ]
    assert len(actions) == 47
    keys = [action.shortcut().toString() for action in actions]
    assert all(keys)
    assert len(set(keys)) == len(keys)
    doings = window.doings
    for action in (doings.halt, doings.exits_only, doings.resume, doings.test_signal, doings.reconcile):
        assert action in actions


async def test_tab_goes_through_all_controls_and_comes_back(window: Window) -> None:
    window.activateWindow()
    first = window.hook_bar.source
    first.setFocus()
    seen: list[QWidget] = []
    for _ in range(60):
        current = QApplication.focusWidget()
        if current is None or current in seen:
            break
        seen.append(current)
        press(current, Qt.Key.Key_Tab)
    wanted = [
        window.hook_bar.source,
        window.hook_bar.address,
        window.trading_bar.halt,
        window.trading_bar.exits_only,
        window.tabs.tabBar(),
        window.detail.close_button,
    ]
    assert [each for each in wanted if each not in seen] == []
    places = [seen.index(each) for each in wanted]
    assert places == sorted(places)
    # Halt is never what Enter or Space hits by chance: the focus starts in the table.
    assert not window.trading_bar.halt.hasFocus()


async def test_tab_reaches_every_control_of_every_view(window: Window, engine: StandIn) -> None:
    """Round and round: what can be pressed now is a stop, whichever tab is shown."""
    await engine.write(lambda tx: trading_day(tx, engine.clock.now(), quiet_rows=9))
    window.activateWindow()
    for name, view in window.views.items():
        window.show_view(name)
        await until(lambda v=view: v.model.rowCount() and v.is_shown_as_table)  # type: ignore[misc]
        view.table.choose(0)
        await until(lambda: window.detail.page)
        seen: list[QWidget] = []
        for _ in range(120):
            current = QApplication.focusWidget()
            assert current is not None
            if current in seen:
                break
            seen.append(current)
            press(current, Qt.Key.Key_Tab)
        wanted = [
            each
            for each in (*window.trading_bar.findChildren(QAbstractButton), *view.stops)
            if each.isVisible() and each.isEnabled()
        ]
        assert [each for each in wanted if each not in seen] == [], name
        places = [seen.index(each) for each in view.stops if each.isVisible() and each.isEnabled()]
        turned = places[places.index(min(places)) :] + places[: places.index(min(places))]
        assert turned == sorted(places), name


async def test_every_plot_and_list_has_words_for_who_cannot_see(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: trading_day(tx, engine.clock.now(), quiet_rows=9))
    for name in ("positions", "health"):
        window.show_view(name)
        charts = window.current.charts
        assert isinstance(charts, Charts)
        await until(lambda c=charts: all(plot.accessibleDescription() for plot in c.plots))  # type: ignore[misc]
        for plot in charts.plots:
            interface = QAccessible.queryAccessibleInterface(plot)
            assert interface.text(QAccessible.Text.Name)
            assert len(interface.text(QAccessible.Text.Description)) > 20
    for view in window.views.values():
        assert view.table.accessibleName()


async def test_the_focus_starts_in_the_view_and_not_on_a_button(window: Window) -> None:
    focused = QApplication.focusWidget()
    assert focused is None or not isinstance(focused, QAbstractButton)
