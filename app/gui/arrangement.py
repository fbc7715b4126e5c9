"""Where the parts of the window stand, and the order in which Tab goes through them. Nothing is done here.

Nothing that appears by itself may move what a person is about to click.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.gui.notice import NoticePlace

if TYPE_CHECKING:
    from app.gui.window import Window


def lay_out(window: Window) -> None:
    """Makes the central widget."""
    bar = QWidget(window)
    row = QHBoxLayout(bar)
    row.setContentsMargins(12, 4, 12, 8)
    row.setSpacing(18)
    row.addWidget(window.hook_bar, 1)
    row.addWidget(window.trading_bar)
    middle = QWidget(window)
    column = QVBoxLayout(middle)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    for widget in (window.attention, window.strip, bar, NoticePlace(window.notice, middle)):
        column.addWidget(widget)
    column.addWidget(window.splitter, 1)
    window.splitter.setContentsMargins(8, 0, 0, 0)
    window.setCentralWidget(middle)
    window.notice.raise_()


def order_tabs(window: Window) -> None:
    """Tab goes as the eye does: top to bottom, left to right."""
    stops: list[QWidget] = [
        window.attention.button,
        window.hook_bar.source,
        window.hook_bar.address,
        *window.hook_bar.buttons,
        window.trading_bar.halt,
        window.trading_bar.exits_only,
        window.trading_bar.resume,
        window.notice.show_button,
        window.notice.close_button,
        window.tabs.tabBar(),
        *(stop for view in window.views.values() for stop in view.stops),
        window.detail.copy_button,
        window.detail.close_button,
        window.detail.text,
    ]
    # A small window may cut off plots; they must not keep it large.
    window.tabs.setMinimumSize(1, 1)
    # Else it is a second stop for its own bar, and Tab goes round in a circle.
    window.tabs.setFocusProxy(None)  # type: ignore[arg-type]
    window.tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    for one, other in pairwise(stops):
        QWidget.setTabOrder(one, other)
