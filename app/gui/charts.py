"""The plots of the window: how much came in, how fast it was answered, what the account made.

Numbers are read on the searches' thread and drawn when they are here; while nobody sees a plot, none is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal

import apsw
import structlog
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.clock import SECOND
from app.gui.notice import ink
from app.gui.pictures import activity_picture, latency_picture, money_pictures
from app.gui.plot import Picture, Plot
from app.gui.tab import Below, Sources
from app.gui.theme import theme_of
from app.ledger.reader import SearchEnded, read
from app.ledger.series import Activity, Money, MoneyOfAccount, latencies

log = structlog.get_logger(__name__)

LEAST_MS = 2_000
"""Between two readings."""
SHARE = 10
"""So many times as long as a reading took, the next one waits."""
SPANS = {"hour": 3_600, "day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400, "year": 365 * 86_400}
PLACES = 60


class Charts(Below):
    """One or more plots with one time to choose, and the value under the pointer in words."""

    def __init__(self, sources: Sources, names: tuple[str, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sources = sources
        self._running = False
        self._due = False
        self._stopped = False
        self._timer = QTimer(self, singleShot=True, interval=LEAST_MS)
        self._timer.timeout.connect(self._again)
        self.span = QComboBox(self)
        self.span.setAccessibleName(self.tr("Time that is drawn"))
        for name, words in (
            ("hour", self.tr("Last hour")),
            ("day", self.tr("Last 24 hours")),
            ("week", self.tr("Last 7 days")),
            ("month", self.tr("Last 30 days")),
            ("year", self.tr("Last year")),
        ):
            self.span.addItem(words, name)
        self.span.setCurrentIndex(1)
        self.choice = QComboBox(self)
        self.choice.setAccessibleName(self.tr("Account that is drawn"))
        self.choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.choice.hide()
        self.words = QLabel(self)
        self.words.setAccessibleName(self.tr("Values in words"))
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.words.setWordWrap(True)
        self.plots = [Plot(name, self) for name in names]
        head, body = QHBoxLayout(), QHBoxLayout()
        head.addWidget(self.span)
        head.addWidget(self.choice)
        head.addWidget(self.words, 1)
        for plot in self.plots:
            body.addWidget(plot, 1)
            plot.read.connect(self._read)
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 6, 6, 6)
        column.setSpacing(6)
        column.addLayout(head)
        column.addLayout(body, 1)
        self.words.setMinimumHeight(self.fontMetrics().lineSpacing() * 2)
        self.span.currentIndexChanged.connect(lambda _place: self.refresh(at_once=True))
        self.choice.currentIndexChanged.connect(lambda _place: self.refresh(at_once=True))

    @property
    def stops(self) -> list[QWidget]:
        return [self.span, self.choice, *self.plots]

    def refresh(self, *, at_once: bool = False) -> None:
        """Soon, and no more often than it costs little; only while it is seen."""
        if self._stopped or not self.isVisible():
            return
        if self._running or (self._timer.isActive() and not at_once):
            self._due = True
            return
        self._running, self._due = True, False
        self._sources.tasks.start("window reads a plot", self._draw())

    def stop(self) -> None:
        self._stopped = True
        self._timer.stop()

    def read_numbers(self, connection: apsw.Connection, since: int, until: int) -> list[Picture]:
        """On the searches' thread: one picture a plot."""
        raise NotImplementedError

    def numbers_read(self) -> None:
        """On the loop, after it."""

    async def _draw(self) -> None:
        began, until = time.monotonic(), self._sources.clock.now()
        since = until - SPANS[self.span.currentData()] * SECOND
        try:
            pictures = await self._sources.finder.call(lambda c: self.read_numbers(c, since, until))
        except SearchEnded:
            self._due, pictures = True, []
        except Exception as error:  # noqa: BLE001 - the view beside it says what is wrong with the ledger
            log.warning("the window cannot read a plot", error=repr(error))
            pictures = []
        finally:
            self._running = False
        if self._stopped:
            return
        for plot, picture in zip(self.plots, pictures, strict=False):
            plot.show_picture(picture)
        self.numbers_read()
        self._read("")
        self._timer.start(max(LEAST_MS, round((time.monotonic() - began) * 1_000 * SHARE)))

    def _again(self) -> None:
        if self._due:
            self.refresh()

    def _read(self, words: str) -> None:
        """Under the pointer; without one the sentences of all plots."""
        text = words or "  ".join(
            plot.picture.empty if plot.picture.is_empty else plot.picture.summary for plot in self.plots
        )
        if text != self.words.text():
            self.words.setText(text)
        ink(self.words, theme_of(self.palette()).quiet)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh(at_once=True)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            ink(self.words, theme_of(self.palette()).quiet)


class TrafficCharts(Charts):
    """What came in and what became of it; how long an answer took."""

    def __init__(self, sources: Sources, parent: QWidget | None = None) -> None:
        self._activity = Activity()
        super().__init__(sources, ("Signals, duplicates and orders over time", "Time to the answer"), parent)

    def read_numbers(self, connection: apsw.Connection, since: int, until: int) -> list[Picture]:
        self._activity.read(connection)
        bars = self._activity.bars(since, until, PLACES)
        return [
            activity_picture(bars),
            latency_picture(latencies(connection, since, until, PLACES), since, until, PLACES),
        ]


Cash = Callable[[], dict[str, Decimal]]
"""What each paper account began with; read on the searches' thread."""


class MoneyCharts(Charts):
    """Equity and exposure of one account, from its fills."""

    def __init__(self, sources: Sources, cash: Cash, parent: QWidget | None = None) -> None:
        self._cash = cash
        self._money: dict[str, MoneyOfAccount] = {}
        self._accounts: list[str] = []
        self._chosen = ""
        super().__init__(sources, ("Equity over time", "Exposure over time"), parent)

    def refresh(self, *, at_once: bool = False) -> None:
        self._chosen = self.choice.currentText()
        super().refresh(at_once=at_once)

    def read_numbers(self, connection: apsw.Connection, since: int, until: int) -> list[Picture]:
        self._accounts = [row["name"] for row in read(connection, "SELECT name FROM accounts ORDER BY name")]
        account = self._chosen if self._chosen in self._accounts else (self._accounts or [""])[0]
        money = self._money.setdefault(account, MoneyOfAccount(account))
        while money.read(connection):
            pass
        points: list[Money] = money.points
        return money_pictures(points, account, self._cash().get(account), since, until, PLACES)

    def numbers_read(self) -> None:
        names = [self.choice.itemText(place) for place in range(self.choice.count())]
        if names != self._accounts:
            self.choice.blockSignals(True)
            self.choice.clear()
            self.choice.addItems(self._accounts)
            self.choice.setCurrentIndex(max(0, self.choice.findText(self._chosen)))
            self.choice.blockSignals(False)
            self.choice.setVisible(len(self._accounts) > 1)
