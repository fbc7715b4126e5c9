"""The menus: every action of the window is in one, with its shortcut. Nothing is done here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from app.gui.actions import plain_action
from app.gui.table import LedgerTable

if TYPE_CHECKING:
    from app.gui.window import Window


@dataclass(frozen=True, slots=True)
class Menus:
    copy_address: QAction
    copy_message: QAction
    copy_cell: QAction
    copy_row: QAction
    copy_row_json: QAction
    copy_story: QAction
    filter: QAction
    export: QAction
    refresh: QAction
    story: QAction
    views: dict[str, QAction]
    quit: QAction


def build_menus(window: Window) -> Menus:
    """Makes the menu bar, and the buttons and context menus that share its actions."""
    tr = window.tr
    menus = Menus(
        copy_address=plain_action(tr("&Copy hook address"), "Ctrl+Shift+C", window.hook_bar.copy, window),
        copy_message=plain_action(
            tr("Copy alert &message for TradingView"), "Ctrl+Shift+M", window.copy_message, window
        ),
        copy_cell=plain_action(tr("&Copy cell"), "Ctrl+C", window.copy_cell, window),
        copy_row=plain_action(tr("Copy &row"), "Ctrl+Alt+C", window.copy_row, window),
        copy_row_json=plain_action(tr("Copy row as JSO&N"), "Ctrl+Alt+J", window.copy_row_json, window),
        copy_story=plain_action(tr("Copy story as &JSON"), "Ctrl+J", window.detail.copy_json, window),
        filter=plain_action(tr("&Filter…"), "Ctrl+F", window.show_filter, window),
        export=window.exporting.action,
        refresh=plain_action(tr("&Read again"), "F5", window.refresh_now, window),
        story=_story(window),
        views={
            name: plain_action(window.tabs.tabText(place), f"Ctrl+{place + 1}", _shows(window, name), window)
            for place, name in enumerate(window.views)
        },
        quit=plain_action(tr("&Quit"), "Ctrl+Q", lambda: window.quit("menu"), window),
    )
    menus.quit.setMenuRole(QAction.MenuRole.QuitRole)
    menus.story.setShortcut(QKeySequence("F4"))
    doings = window.doings
    contents: tuple[tuple[str, tuple[QAction | None, ...]], ...] = (
        (
            tr("&Signals"),
            (
                menus.copy_address,
                menus.copy_message,
                doings.test_signal,
                None,
                menus.export,
                None,
                menus.quit,
            ),
        ),
        (tr("&Edit"), (menus.copy_cell, menus.copy_row, menus.copy_row_json, menus.copy_story)),
        (tr("&View"), (*menus.views.values(), None, menus.filter, menus.story, menus.refresh)),
        (
            tr("&Trading"),
            (
                doings.halt,
                doings.exits_only,
                doings.resume,
                None,
                doings.reconcile,
                None,
                *_decisions(window),
            ),
        ),
    )
    for title, actions in contents:
        menu = window.menuBar().addMenu(title)
        for action in actions:
            if action is None:
                menu.addSeparator()
            else:
                menu.addAction(action)
        if menus.refresh in actions:
            _add_columns(window, menu)
    menus.copy_address.setIconText(tr("Copy address"))
    menus.copy_message.setIconText(tr("Copy message"))
    window.hook_bar.add_button(menus.copy_address)
    window.hook_bar.add_button(menus.copy_message)
    window.hook_bar.add_button(doings.test_signal)
    for view in window.views.values():
        view.table.set_menu([menus.copy_cell, menus.copy_row, menus.copy_row_json, menus.copy_story])
    return menus


def _add_columns(window: Window, menu: QMenu) -> None:
    """What the heads of the tables offer to the mouse, for the keyboard: made when it is opened."""
    for title, actions in (
        (window.tr("&Columns"), _column_actions),
        (window.tr("Sort b&y"), _sort_actions),
    ):
        below = menu.addMenu(title)
        below.aboutToShow.connect(partial(_fill, window, below, actions))


def _fill(window: Window, menu: QMenu, actions: Callable[[LedgerTable], list[QAction]]) -> None:
    menu.clear()
    for action in actions(window.current.table):
        action.setParent(menu)
        menu.addAction(action)


def _column_actions(table: LedgerTable) -> list[QAction]:
    return table.column_actions()


def _sort_actions(table: LedgerTable) -> list[QAction]:
    return table.sort_actions()


def _decisions(window: Window) -> Iterator[QAction | None]:
    """In groups: unresolved orders, signals and orders, positions, retention."""
    for name, action in window.decisions.actions.items():
        if name in ("replay", "close", "purge"):
            yield None
        yield action


def _shows(window: Window, name: str) -> Callable[[], None]:
    return lambda: window.show_view(name)


def _story(window: Window) -> QAction:
    action = QAction(window.tr("&Story pane"), window)
    action.setCheckable(True)
    action.setChecked(True)
    action.toggled.connect(window.show_story)
    return action
