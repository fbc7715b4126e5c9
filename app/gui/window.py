"""The main window: puts the parts together, shows what the engine says, and asks the engine to act.

Closing it only asks for a stop; it stays and answers until the engine has stopped.
"""

from __future__ import annotations

import asyncio
from functools import partial

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QCloseEvent, QGuiApplication, QShowEvent
from PySide6.QtWidgets import QLabel, QMainWindow, QSplitter, QTabWidget

from app.gui.arrangement import lay_out, order_tabs
from app.gui.attention import Attention
from app.gui.columns import Line, translated
from app.gui.decisions import (
    Decisions,
    Offers,
    offers_of_delivery,
    offers_of_need,
    offers_of_order,
    offers_of_position,
)
from app.gui.detail import DetailPane
from app.gui.doings import Doings
from app.gui.exporting import Exporting
from app.gui.feed import Coalescer
from app.gui.formats import grouped
from app.gui.health import HealthTab
from app.gui.hook_bar import HookBar
from app.gui.memory import Memory
from app.gui.menus import build_menus
from app.gui.needs import NeedsTab
from app.gui.notice import Notice
from app.gui.ports import EngineView
from app.gui.remembering import remember, restore
from app.gui.samples import ALERT_MESSAGE
from app.gui.setup import Setup
from app.gui.status_strip import StatusStrip
from app.gui.tab import LedgerTab, Sources
from app.gui.trading_bar import TradingBar
from app.gui.views import make_views
from app.ledger.reader import Searches
from app.ledger.store import FILE_NAME
from app.tasks import Tasks

STATUS_MS = 1_000
"""What the engine says of itself (loop lag, clock) changes without a commit: it is read this often."""
_VIEWS = {"S": "signals", "O": "orders", "E": "activity", "R": "reconciliation"}
"""Where the thing with such an id is a row."""
NEEDS_EVERY = 10
"""Looks at the status for one at what needs a person, where nothing was committed."""


class Window(QMainWindow):
    """One window on one running engine. `shut` must be awaited before it is thrown away."""

    def __init__(self, engine: EngineView) -> None:
        super().__init__()
        self._engine = engine
        self._tasks = Tasks()
        self._stopping = False
        self._ticks = 0
        self._opening = False
        self._memory = Memory(engine.home, self)
        self._tab = ""
        """Which one the person chose last."""
        self._searches = Searches(engine.home / FILE_NAME)
        self._sources = Sources(engine.reader, self._searches, engine.clock, self._tasks)
        self.coalescer = Coalescer(self)
        self._clock = QTimer(self, interval=STATUS_MS)
        self._build()
        self._dirty = set(self.views)
        self.menus = build_menus(self)
        self.setup = Setup(self, self._engine, self._tasks, self._memory)
        self._connect()
        order_tabs(self)
        restore(self, self._memory)
        self._tab = self.current.definition.name
        self._opening = True
        self._end_listening = engine.listen(self.coalescer.mark)
        self._show_status()
        self._clock.start()

    # ------------------------------------------------------------------ building

    def _build(self) -> None:
        self.setWindowTitle("Onefill")
        self.strip = StatusStrip(self)
        self.attention = Attention(self)
        self.notice = Notice(self)
        self.doings = Doings(self._engine, self._tasks, self.notice, self)
        self.exporting = Exporting(self._engine.home, self._tasks, self.notice, self)
        self.decisions = Decisions(self._engine, self._tasks, self.notice, self)
        self.hook_bar = HookBar(self)
        self.trading_bar = TradingBar(self.doings.halt, self.doings.exits_only, self.doings.resume, self)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName(self.tr("Views"))
        self.views = make_views(self._engine, self._sources, self)
        needs, health = self.views["needs"], self.views["health"]
        assert isinstance(needs, NeedsTab)
        assert isinstance(health, HealthTab)
        self.needs, self.health = needs, health
        actions = {**self.decisions.actions, "reconcile": self.doings.reconcile}
        for view in self.views.values():
            self.tabs.addTab(view, translated(view.definition.title))
            view.set_actions(actions)
        self.needs.bar.set_actions(actions)
        self.detail = DetailPane(self._engine.reader, self._engine.clock, self._tasks, self)
        self.splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.addWidget(self.tabs)
        self.splitter.addWidget(self.detail)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 2)
        lay_out(self)
        self.counts = QLabel(self)
        self.place = QLabel(self)
        self.statusBar().addWidget(self.counts)
        self.statusBar().addPermanentWidget(self.place)
        self.statusBar().setContentsMargins(8, 0, 8, 0)

    def _connect(self) -> None:
        for view in self.views.values():
            view.table.chosen.connect(partial(self._chosen, view))
            view.table.opened.connect(self._open_story)
            view.counted.connect(lambda _rows: self._offer())
        self.tabs.currentChanged.connect(lambda _place: self._turn_to_current())
        self.tabs.tabBarClicked.connect(self._tab_chosen)
        self.detail.closed.connect(lambda: self.show_story(False))
        self.hook_bar.copied.connect(self._say_copied)
        self.notice.asked.connect(self.show_thing)
        self.attention.asked.connect(self.show_needs)
        self.needs.changed.connect(self._show_needs)
        self.coalescer.due.connect(self._refresh)
        self._clock.timeout.connect(self._tick)

    # ------------------------------------------------------------------ what the person asks

    @property
    def current(self) -> LedgerTab:
        view = self.tabs.currentWidget()
        assert isinstance(view, LedgerTab)
        return view

    def show_view(self, name: str) -> None:
        self._tab = name
        self.tabs.setCurrentWidget(self.views[name])
        self.views[name].table.setFocus()

    def _tab_chosen(self, place: int) -> None:
        view = self.tabs.widget(place)
        if isinstance(view, LedgerTab):
            self._tab = view.definition.name

    def show_filter(self) -> None:
        """The cursor into the filter of the view, where it has one."""
        if self.current.filter_bar is not None:
            self.current.filter_bar.text.setFocus()
            self.current.filter_bar.text.selectAll()

    def show_needs(self) -> None:
        """The list of what needs a person, its worst row chosen."""
        chosen, opening = self._tab, self._opening
        self.show_view("needs")
        if opening:
            self._tab = chosen  # it was the window that turned there
        if self.needs.need is None and self.needs.model.rowCount():
            self.needs.table.choose(0)

    def show_story(self, shown: bool) -> None:
        self.detail.setVisible(shown)
        self.menus.story.setChecked(shown)
        if not shown:
            self.current.table.setFocus()

    def show_thing(self, name: str) -> None:
        """The story of what has this id, its row chosen in the view that it is in."""
        view = self.views.get(_VIEWS.get(name[:1], ""))
        if view is not None and name[1:].isdigit():
            self.show_view(view.definition.name)
            view.choose(int(name[1:]))
        self.detail.open(name)
        self.show_story(True)

    def _chosen(self, view: LedgerTab, line: Line) -> None:
        """The story is that of the tab which is shown; the others choose without a word."""
        if view is self.current:
            self.detail.open_line(line)
            self._offer()

    def _turn_to_current(self) -> None:
        self._opening = False
        self._look_at_current()
        table = self.current.table
        if table.currentIndex().isValid():
            table.tell_again()
        else:
            self.detail.clear()
        self._offer()

    def _open_story(self, line: Line) -> None:
        self.detail.open_line(line)
        self.show_story(True)
        self.detail.text.setFocus()

    def _offer(self) -> None:
        """What can be done about what is chosen, for menu, keys and buttons."""
        line = self.current.table.current_line
        offers: Offers = {}
        if self.current is self.needs:
            offers = offers_of_need(self.needs.need)
            self.needs.bar.show_offers(offers)
        elif line is not None and self.current.definition.name == "orders":
            offers = offers_of_order(line.row)
        elif line is not None and self.current.definition.name == "refused":
            offers = offers_of_delivery(line.row)
        elif line is not None and self.current.definition.name == "positions":
            offers = offers_of_position(line.row)
        self.decisions.offer(offers)

    def refresh_now(self) -> None:
        """Reads everything again, nothing taken from earlier."""
        self._dirty |= set(self.views)
        self._dirty.discard(self.current.definition.name)
        self.current.refresh(anew=True)
        self.detail.refresh(frozenset({"claims"}))
        self._show_status()

    def copy_message(self) -> None:
        """The message for TradingView's alert dialog, on the clipboard."""
        QGuiApplication.clipboard().setText(ALERT_MESSAGE)
        text = self.tr("The alert message is on the clipboard: paste it into the message field of the alert.")
        self.notice.say(text, "ok")

    def copy_cell(self) -> None:
        self.current.table.copy_cell()

    def copy_row(self) -> None:
        self.current.table.copy_row()

    def copy_row_json(self) -> None:
        self.current.table.copy_json()

    def _say_copied(self, source: str, is_public: bool) -> None:
        text = self.tr(
            "The address of {source} is on the clipboard, token included: treat it like a password."
        )
        if not is_public:
            text += " " + self.tr("Only this computer reaches it; from outside a tunnel has to lead to it.")
        self.notice.say(text.format(source=source), "ok")

    # ------------------------------------------------------------------ what the engine says

    def _refresh(self, topics: frozenset[str]) -> None:
        self._dirty |= {
            view.definition.name for view in self.views.values() if view.definition.topics & topics
        }
        self._look_at_needs()
        self._look_at_current()
        if self.detail.isVisible():
            self.detail.refresh(topics)
        self._show_status()

    def _look_at_current(self) -> None:
        view = self.current
        if view.definition.name in self._dirty and not self._stopping:
            self._dirty.discard(view.definition.name)
            view.refresh()

    def _look_at_needs(self) -> None:
        """Whichever tab is shown: what needs a person is counted in the title."""
        if "needs" in self._dirty and not self._stopping:
            self._dirty.discard("needs")
            self.needs.refresh()

    def _show_needs(self) -> None:
        needs = self.needs.needs
        self.attention.show_needs(needs)
        title = translated(self.needs.definition.title)
        pressing = any(need.severity != "info" for need in needs)
        mark = "! " if pressing else ""
        self.tabs.setTabText(0, f"{mark}{title} ({len(needs)})" if needs else title)
        self._show_title()
        # Only the first look after the start turns there: later it would take a person's tab away.
        if self._opening and pressing:
            self.show_needs()
        self._opening = False

    def _show_title(self) -> None:
        number = len(self.needs.needs)
        title = "Onefill"
        if number:
            title = self.tr("({number} need you) Onefill").format(number=number)
        if number == 1:
            title = self.tr("(1 needs you) Onefill")
        if self._stopping:
            title = self.tr("Stopping… Onefill")
        if title != self.windowTitle():
            self.setWindowTitle(title)

    def _tick(self) -> None:
        """Some things begin to need a person by time alone."""
        self._ticks += 1
        if self._ticks % NEEDS_EVERY == 0:
            self._dirty.add("needs")
            self._look_at_needs()
        self._show_status()

    def _show_status(self) -> None:
        status = self._engine.status()
        if self.health.note(status) and self.current is self.health and not self._stopping:
            self.health.refresh()
        self.strip.show_status(status)
        self.trading_bar.show_state(status.trading_state)
        self.doings.show_state(status.trading_state)
        self.hook_bar.show_addresses(self._engine.hook_addresses())
        names = (
            (self.tr("Signals"), "signals"),
            (self.tr("Duplicates"), "duplicates"),
            (self.tr("Refused"), "refused"),
            (self.tr("Open orders"), "open"),
            (self.tr("Waiting"), "waiting"),
        )
        self.counts.setText(
            "    ".join(f"{title} {grouped(status.counts.get(name, 0))}" for title, name in names)
        )
        lag = self.tr("Loop lag {now:.0f} ms (max {most:.0f})")
        self.place.setText(
            f"{lag.format(now=status.loop_lag_ms, most=status.loop_lag_max_ms)}    Onefill {status.version}"
        )
        self._show_title()

    # ------------------------------------------------------------------ coming, going

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._look_at_needs()
        self._look_at_current()
        self.current.table.setFocus()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.pause(self.isMinimized())

    def pause(self, paused: bool) -> None:
        """While nobody can see the window it does not read; what changed meanwhile is read afterwards."""
        self.coalescer.pause(paused or self._stopping)
        if paused or self._stopping:
            self._clock.stop()
        elif not self._clock.isActive():
            self._show_status()
            self._clock.start()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Closing is a wish to quit: the engine stops first, and the window goes when it has."""
        event.ignore()
        self.quit("window closed")

    def quit(self, why: str) -> None:
        self._engine.request_stop(why)
        self.say_stopping()

    def say_stopping(self) -> None:
        """No more reading and asking; the window stays and answers. May be called again."""
        if self._stopping:
            return
        self._stopping = True
        self._end_listening()
        self.coalescer.stop()
        self._clock.stop()
        self.doings.stop()
        self.decisions.stop()
        self.setup.stop()
        self.detail.stop()
        for view in self.views.values():
            view.stop()
        self._searches.close()
        self.notice.say(self.tr("Stopping… what has begun is finished first."), "warning")
        self._show_status()

    async def shut(self) -> None:
        """Ends what the window runs, takes it off the screen and returns when it is gone.

        Gone now and on this thread: left to the garbage collector it could be destroyed on another one.
        """
        self.say_stopping()
        remember(self, self._memory, self._tab)
        await self._tasks.stop()
        self.hide()
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.destroyed.connect(lambda: gone.set_result(None))
        self.deleteLater()
        await gone
