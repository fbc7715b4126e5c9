"""The detail pane: the chosen row's whole story, read on the reader's thread. The newest wish wins.

Follows no link, loads nothing, and shows no rich text but its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import apsw
import structlog
from PySide6.QtCore import QEvent, Qt, QUrl, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QStackedWidget,
    QTextBrowser,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.clock import Clock
from app.gui.columns import Line
from app.gui.duplicates import hint, repeat_of
from app.gui.evidence import UNRESOLVED
from app.gui.feed import Reader
from app.gui.notice import ink
from app.gui.position_page import position_page
from app.gui.report_page import reconciliation_page
from app.gui.story import (
    Page,
    Story,
    event_page,
    fact_page,
    failed_page,
    missing_page,
    story_page,
)
from app.gui.tab import EmptyState
from app.gui.theme import Theme, fixed_font, scaled, theme_of
from app.ledger import queries
from app.ledger.alike import repeat
from app.ledger.positions import position
from app.ledger.reader import read
from app.tasks import Tasks

log = structlog.get_logger(__name__)

TOPICS = frozenset(
    {"claims", "deliveries", "orders", "attempts", "evidence", "fills", "events", "bodies", "findings"}
)
Make = Callable[[apsw.Connection, Theme], Page]


def page_of(name: str, connection: apsw.Connection, theme: Theme, now: int) -> Page:
    """The page of the thing with this id: S, O, D, R or E with a number, or P, account and symbol.

    `now` is UTC in microseconds.
    """
    kind = name[:1]
    if name.startswith("P "):
        _kind, account, symbol = name.split(" ", 2)
        row = position(connection, account, symbol)
        return missing_page(name, theme) if row is None else position_page(name, row, theme)
    if kind in ("R", "E"):
        view = "v_reconciliations" if kind == "R" else "v_events"
        rows = read(connection, f"SELECT * FROM {view} WHERE number = ?", (int(name[1:]),))
        if not rows:
            return missing_page(name, theme)
        if kind == "E":
            return event_page(rows[0], theme)
        sql = "SELECT severity, kind, subject, detail FROM findings WHERE reconciliation_id = ? ORDER BY id"
        return reconciliation_page(rows[0], read(connection, sql, (int(name[1:]),)), theme)
    try:
        story = queries.story(connection, name)
        _add_evidence(connection, story, now)
        return story_page(story, theme)
    except LookupError:
        return missing_page(name, theme)


def _add_evidence(connection: apsw.Connection, story: Story, now: int) -> None:
    """What the page tells beyond the thing's own rows: positions of what is in doubt, a hint at a repeat."""
    story["now"] = queries.rfc3339(now)
    for order in story["orders"]:
        if order["state"] in UNRESOLVED:
            sql = "SELECT account, instrument FROM orders WHERE id = ?"
            (row,) = read(connection, sql, (order["number"],))
            order["position"] = position(connection, row["account"], row["instrument"])
    if story["kind"] == "delivery" and (found := repeat(connection, int(story["id"][1:]))):
        story["hint"] = hint(repeat_of(found))


class Browser(QTextBrowser):
    """Shows what it is given; follows no link and loads nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        return None


class DetailPane(QWidget):
    """`shown` names what is on the page once it is there."""

    shown = Signal(str)
    closed = Signal()

    def __init__(self, reader: Reader, clock: Clock, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._reader = reader
        self._clock = clock
        self._tasks = tasks
        self._wish: str | None = None
        self._again = False
        self._running = False
        self._stopped = False
        self._page: Page | None = None
        self.setAccessibleName(self.tr("Story"))
        self.title, self.word = QLabel(self), QLabel(self)
        self.title.setFont(scaled(self.font(), 1.2, bold=True))
        self.word.setFont(scaled(self.font(), 1.2, bold=True))
        for label in (self.title, self.word):
            label.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.copy_button = self._button(self.tr("Copy as JSON"))
        self.close_button = self._button("✕", self.tr("Close the story"))
        self.text = Browser(self)
        self.text.setFrameShape(QTextBrowser.Shape.NoFrame)
        self.text.setAccessibleName(self.tr("Story of the chosen row"))
        self.text.document().setDocumentMargin(12)
        self._hint = EmptyState(
            self.tr("Nothing is chosen"),
            self.tr(
                "Choose a row to read its story here: when it came in, what it was understood as, what was "
                "sent and filled, and the message itself."
            ),
            self,
        )
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._hint)
        self._stack.addWidget(self.text)
        self._lay_out()
        self.copy_button.clicked.connect(self.copy_json)
        self.close_button.clicked.connect(self.closed)

    def _button(self, text: str, name: str = "") -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setAccessibleName(name or text)
        button.setToolTip(name)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return button

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setContentsMargins(12, 6, 8, 6)
        head.setSpacing(10)
        head.addWidget(self.title)
        head.addWidget(self.word)
        head.addStretch(1)
        head.addWidget(self.copy_button)
        head.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self._stack)
        self.copy_button.hide()

    # ------------------------------------------------------------------ what is shown

    @property
    def page(self) -> Page | None:
        return self._page

    def open_line(self, line: Line) -> None:
        if line.id.startswith("H "):
            # What a part says of itself is in no ledger.
            self._wish = None
            self._show(fact_page(line.id, line.row, theme_of(self.palette())))
        else:
            self.open(line.id)

    def open(self, name: str) -> None:
        """Shows the thing with this id as soon as it is read."""
        if name != self._wish:
            self._wish = name
            self._look()

    def clear(self) -> None:
        """Nothing is chosen."""
        self._wish = self._page = None
        self.title.clear()
        self.word.clear()
        self.text.clear()
        self.copy_button.hide()
        self._stack.setCurrentWidget(self._hint)

    def refresh(self, topics: frozenset[str]) -> None:
        """Reads the same thing again if what changed may concern it."""
        if self._wish is not None and topics & TOPICS:
            self._look()

    def copy_json(self) -> None:
        if self._page is not None:
            QGuiApplication.clipboard().setText(self._page.json)

    def stop(self) -> None:
        self._stopped = True

    def _look(self) -> None:
        self._again = True
        if not self._running and not self._stopped:
            self._running = True
            self._tasks.start("window reads a story", self._read())

    async def _read(self) -> None:
        try:
            while self._again and self._wish is not None and not self._stopped:
                self._again = False
                wish, theme = self._wish, theme_of(self.palette())
                try:
                    page = await self._reader.call(partial(page_of, wish, theme=theme, now=self._clock.now()))
                except Exception as error:  # noqa: BLE001 - whatever it is, the pane says so
                    log.warning("the window cannot read a story", id=wish, error=repr(error))
                    page = failed_page(wish, str(error) or type(error).__name__, theme)
                if wish == self._wish and not self._stopped:
                    self._show(page)
        finally:
            self._running = False

    def _show(self, page: Page) -> None:
        same_thing = self._page is not None and self._page.id == page.id
        if same_thing and self._page is not None and self._page.html == page.html:
            return
        bar = self.text.verticalScrollBar()
        place = bar.value() if same_thing else 0
        self._page = page
        self.title.setText(page.title)
        self.word.setText(page.word.shown if page.word.text else "")
        self.copy_button.show()
        self.text.document().setDefaultFont(self.font())
        mono = fixed_font(self.font()).family()
        self.text.document().setDefaultStyleSheet(f"pre {{ font-family: '{mono}'; }}")
        self.text.setHtml(page.html)
        bar.setValue(place)
        self._stack.setCurrentWidget(self.text)
        self._colour()
        self.shown.emit(page.id)

    def _colour(self) -> None:
        if self._page is not None:
            ink(self.word, theme_of(self.palette()).ink[self._page.word.tone])

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._page is not None:
            self._colour()
            self._look()
