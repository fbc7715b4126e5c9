"""The menus: every action of the window is in one, with its shortcut. Nothing is done here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence

from app.gui.actions import plain_action

if TYPE_CHECKING:
    from app.gui.window import Window


@dataclass(frozen=True, slots=True)
class Menus:
    copy_address: QAction
    copy_message: QAction
    copy_cell: QAction
    copy_row: QAction
    copy_story: QAction
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
        copy_story=plain_action(tr("Copy story as &JSON"), "Ctrl+J", window.detail.copy_json, window),
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
        (tr("&Signals"), (menus.copy_address, menus.copy_message, doings.test_signal, None, menus.quit)),
        (tr("&Edit"), (menus.copy_cell, menus.copy_row, menus.copy_story)),
        (tr("&View"), (*menus.views.values(), None, menus.story, menus.refresh)),
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
    menus.copy_address.setIconText(tr("Copy address"))
    menus.copy_message.setIconText(tr("Copy message"))
    window.hook_bar.add_button(menus.copy_address)
    window.hook_bar.add_button(menus.copy_message)
    window.hook_bar.add_button(doings.test_signal)
    for view in window.views.values():
        view.table.set_menu([menus.copy_cell, menus.copy_row, menus.copy_story])
    return menus


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
