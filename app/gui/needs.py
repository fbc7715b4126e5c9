"""What needs a person: the first tab, worst first, with what can be done about the chosen row below it.

The list is the engine's own query; nothing is left out here, and nothing is decided.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

import apsw
from PySide6.QtCore import QT_TRANSLATE_NOOP, QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from app.clock import Clock
from app.gui.buttons import button
from app.gui.columns import TIME, Cell, Column, Table, text_cell, time_cell, word_cell
from app.gui.feed import ListFeed, Reader
from app.gui.formats import one_line
from app.gui.models import LedgerModel
from app.gui.notice import Card
from app.gui.tab import LedgerTab, Sources
from app.gui.theme import scaled
from app.gui.words import SEVERITIES, look_up
from app.ledger.needs import Need, needs
from app.ledger.reader import Row, read
from app.tasks import Tasks

LEAST_MS = 500
"""Between two looks: the list is kept up while another tab is shown, and must not crowd that one out."""
_STORY = re.compile(r"[SOD]\d+")


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _severity(row: Row) -> Cell:
    return word_cell(look_up(SEVERITIES, row["severity"]), row["kind"])


def _sentence(row: Row) -> Cell:
    text = one_line(row["text"])
    return Cell(text, None, text)


TABLE = Table(
    name="needs",
    title=_("Needs you"),
    view="needs",
    topics=frozenset(
        {
            *("accounts", "orders", "fills", "claims", "deliveries", "reconciliations", "findings"),
            *("adjustments", "books", "drifts", "externals"),
        }
    ),
    columns=(
        Column("severity", _("How bad"), "✕ Critical ", _severity),
        Column("text", _("What"), "", _sentence, stretch=True),
        Column("subject", _("About"), "paper BTCUSDT", lambda row: text_cell(row["subject"])),
        Column("since", _("Since"), TIME, lambda row: time_cell(row["since"])),
    ),
    empty_title=_("Nothing needs you"),
    empty_text=_(
        "Orders of unknown fate, exits that were not done, conflicts and differences with the broker are "
        "listed here as soon as there are any, each with what you can do about it."
    ),
)


class NeedsFeed(ListFeed):
    """Reads the whole list each time: it is short, and its order is by how bad things are, not by age."""

    def __init__(
        self, reader: Reader, model: LedgerModel, clock: Clock, tasks: Tasks, parent: QWidget
    ) -> None:
        super().__init__(reader, model, tasks, parent)
        self._clock = clock

    def rows(self, connection: apsw.Connection) -> list[Row]:
        return [self._row(connection, need) for need in needs(connection, self._clock.now())]

    def _row(self, connection: apsw.Connection, need: Need) -> Row:
        return {
            "id": _story_of(connection, need),
            "key_of_row": f"{need.kind} {need.subject}",
            "kind": need.kind,
            "severity": need.severity,
            "text": need.text,
            "subject": need.subject,
            "since": need.since,
            "need": need,
        }


def _story_of(connection: apsw.Connection, need: Need) -> str:
    """The id of what tells more: the subject, or the reconciliation that found it."""
    if _STORY.fullmatch(need.subject):
        return need.subject
    sql = "SELECT max(id) AS id FROM reconciliations WHERE account = ? AND result IN ('OK', 'FINDINGS')"
    return f"R{read(connection, sql, (need.account,))[0]['id']}"


class NeedsTab(LedgerTab):
    """`changed` comes after each look and each choice."""

    changed = Signal()

    def __init__(self, sources: Sources, parent: QWidget | None = None) -> None:
        super().__init__(TABLE, sources, parent)
        self._late = False
        self._again = QTimer(self, interval=LEAST_MS, singleShot=True)
        self._again.timeout.connect(self._look_late)
        self.bar = NeedBar(self)
        self._column.addWidget(self.bar)
        self.table.chosen.connect(lambda _line: self._tell())
        self.counted.connect(lambda _rows: self._tell())

    def make_feed(self, sources: Sources) -> ListFeed:
        return NeedsFeed(sources.reader, self.model, sources.clock, sources.tasks, self)

    @property
    def stops(self) -> list[QWidget]:
        return [self.table, *self.bar.buttons.values()]

    def refresh(self, *, anew: bool = False) -> None:
        """Soon; a person's own wish (`anew`) at once."""
        if self._again.isActive() and not anew:
            self._late = True
            return
        self._late = False
        self._again.start()
        super().refresh(anew=anew)

    def stop(self) -> None:
        self._again.stop()
        super().stop()

    def _look_late(self) -> None:
        if self._late:
            self.refresh()

    @property
    def needs(self) -> list[Need]:
        """Worst first, as shown."""
        lines = (self.model.line(row) for row in range(self.model.rowCount()))
        return [line.row["need"] for line in lines if line is not None]

    @property
    def need(self) -> Need | None:
        """The chosen one."""
        line = self.table.current_line
        return None if line is None else line.row["need"]

    def _tell(self) -> None:
        self.bar.show_need(self.need)
        self.changed.emit()


class NeedBar(Card):
    """The chosen row's whole sentence, and a button for each thing that can be done about it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = QLabel(self)
        self.label.setFont(scaled(self.font(), 1.05, bold=True))
        self.reason = QLabel(self)
        for label in (self.label, self.reason):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons: dict[str, QToolButton] = {}
        self._row = QHBoxLayout()
        self._row.setSpacing(6)
        self._row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 8, 8, 8)
        column.addWidget(self.label)
        column.addWidget(self.reason)
        column.addLayout(self._row)
        self.hide()

    def set_actions(self, actions: Mapping[str, QAction]) -> None:
        """All that there are; which of them are shown is up to the need."""
        for place, (name, action) in enumerate(actions.items()):
            self.buttons[name] = button(action, self)
            self._row.insertWidget(place, self.buttons[name])
            self.buttons[name].hide()

    def show_offers(self, offered: Container[str]) -> None:
        for name, each in self.buttons.items():
            each.setVisible(name in offered)

    def show_need(self, need: Need | None) -> None:
        self.setVisible(need is not None)
        if need is None:
            return
        self.label.setText(need.text)
        self.reason.setText(need.reason or "")
        self.reason.setVisible(bool(need.reason))
        self.set_tone(look_up(SEVERITIES, need.severity).tone)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self.update()
