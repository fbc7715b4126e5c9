"""The view of events: who did what and when, the audit chain newest first. Nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import Cell, Column, Table, text_cell, time_cell
from app.gui.formats import one_line
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _detail(row: Row) -> Cell:
    text = "" if row["detail"] == "{}" else one_line(row["detail"])
    return Cell(text, None, text or None)


TABLE = Table(
    name="activity",
    title=_("Activity"),
    view="events",
    topics=frozenset({"events"}),
    columns=(
        Column("time", _("Time"), 19, lambda row: time_cell(row["at"])),
        Column("id", _("Event"), 8, lambda row: Cell(row["id"])),
        Column("actor", _("Who"), 18, lambda row: text_cell(row["actor"])),
        Column("what", _("What"), 20, lambda row: text_cell(row["what"])),
        Column("subject", _("About"), 9, lambda row: text_cell(row["subject"])),
        Column("detail", _("Detail"), 40, _detail),
    ),
    empty_title=_("No events yet"),
    empty_text=_("Everything that Onefill or a person does is written down here, in order."),
)
