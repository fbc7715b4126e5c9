"""The view of positions: what we expect to hold and what the broker said last. Worst first."""

from __future__ import annotations

import apsw
from PySide6.QtCore import QT_TRANSLATE_NOOP
from PySide6.QtWidgets import QWidget

from app.gui.columns import TIME, Cell, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.feed import Feed, ListFeed
from app.gui.formats import one_line
from app.gui.tab import LedgerTab, Sources
from app.gui.words import POSITION_STATES, look_up, tr
from app.ledger.positions import positions
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def story_id(row: Row) -> str:
    return f"P {row['account']} {row['symbol']}"


def _state(row: Row) -> Cell:
    return word_cell(look_up(POSITION_STATES, row["state"]), row["class"])


def _broker(row: Row) -> Cell:
    return Cell(tr("not known")) if row["broker"] is None else number_cell(row["broker"])


def _difference(row: Row) -> Cell:
    return number_cell(row["difference"])


def _books(row: Row) -> Cell:
    text = ", ".join(
        one_line(" ".join(part for part in (each["quantity"], each["source"], each["strategy"]) if part))
        for each in row["books"]
    )
    return Cell(text, None, text or None)


TABLE = Table(
    name="positions",
    title=_("Positions"),
    view="positions",
    topics=frozenset({"fills", "books", "adjustments", "reconciliations"}),
    columns=(
        Column("account", _("Account"), "alpaca-live", lambda row: text_cell(row["account"])),
        Column("symbol", _("Symbol"), "BTCUSDT0", lambda row: text_cell(row["symbol"])),
        Column("expected", _("We expect"), "10000.25", lambda row: number_cell(row["expected"]), right=True),
        Column("broker", _("Broker says"), "not known", _broker, right=True),
        Column("difference", _("Difference"), "10000.25", _difference, right=True),
        Column("state", _("State"), "… Compare again ", _state),
        Column("as_of", _("Broker asked at"), TIME, lambda row: time_cell(row["as_of"])),
        Column("books", _("Whose: quantity, source, strategy"), "", _books, stretch=True),
    ),
    empty_title=_("No positions"),
    empty_text=_(
        "What our fills add up to is listed here, beside what the broker said at the last reconciliation."
    ),
    offers=("close", "flatten", "book", "reconcile"),
    story=story_id,
)


class PositionsFeed(ListFeed):
    def rows(self, connection: apsw.Connection) -> list[Row]:
        return [{**row, "key_of_row": story_id(row)} for row in positions(connection)]


class PositionsTab(LedgerTab):
    def __init__(self, sources: Sources, parent: QWidget | None = None) -> None:
        super().__init__(TABLE, sources, parent)

    def make_feed(self, sources: Sources) -> Feed:
        return PositionsFeed(sources.reader, self.model, sources.tasks, self)
