"""The view of events: who did what and when, the audit chain newest first. Nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import TIME, Cell, Chip, Column, Table, text_cell, time_cell
from app.gui.formats import one_line, told
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _detail(row: Row) -> Cell:
    text = one_line(told(row["detail"]))
    return Cell(text, None, text or None)


TABLE = Table(
    name="activity",
    title=_("Activity"),
    view="events",
    topics=frozenset({"events"}),
    columns=(
        Column("time", _("Time"), TIME, lambda row: time_cell(row["at"])),
        Column("id", _("Event"), "E1234567", lambda row: Cell(row["id"])),
        Column("actor", _("Who"), "source:tradingview", lambda row: text_cell(row["actor"])),
        Column("what", _("What"), "trading state set 0", lambda row: text_cell(row["what"])),
        Column("subject", _("About"), "account:paper", lambda row: text_cell(row["subject"])),
        Column("detail", _("Detail"), "", _detail, stretch=True),
    ),
    empty_title=_("No events yet"),
    empty_text=_("Everything that Onefill or a person does is written down here, in order."),
    chips=(
        Chip("person", _("By a person")),
        Chip("moves", _("Order states")),
        Chip("reconciled", _("Reconciliations")),
    ),
)
