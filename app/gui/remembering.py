"""What a window keeps for the next day, and takes up again: size, columns, filters, the chosen tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.gui import signals
from app.gui.memory import Memory

if TYPE_CHECKING:
    from app.gui.window import Window

START_SIZE = (1280, 800)


def restore(window: Window, memory: Memory) -> None:
    window.resize(*START_SIZE)
    if state := memory.state("window/geometry"):
        window.restoreGeometry(state)
    if state := memory.state("window/splitter"):
        window.splitter.restoreState(state)
    else:
        window.splitter.setSizes([START_SIZE[0] * 65 // 100, START_SIZE[0] * 35 // 100])
    for name, view in window.views.items():
        if state := memory.state(f"columns/{name}"):
            view.table.restore_header(state)
        view.restore_filter(memory.text(f"filter/{name}"))
    chosen = window.views.get(memory.text("window/tab"))
    window.tabs.setCurrentWidget(chosen or window.views[signals.TABLE.name])
    window.show_story(memory.text("window/story") != "closed")


def remember(window: Window, memory: Memory, tab: str) -> None:
    """`tab` is the one that the person chose last; the window itself turns to what needs him."""
    memory.keep("window/geometry", window.saveGeometry())
    memory.keep("window/splitter", window.splitter.saveState())
    memory.keep("window/tab", tab)
    memory.keep("window/story", "open" if window.menus.story.isChecked() else "closed")
    for name, view in window.views.items():
        memory.keep(f"columns/{name}", view.table.header_state())
        memory.keep(f"filter/{name}", view.filter.written())
    memory.save()
