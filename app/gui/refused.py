"""The view of what did not become a signal: duplicates, conflicts, too old, invalid. Nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import Cell, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.formats import milliseconds, one_line
from app.gui.words import VERDICTS, look_up
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _why(row: Row) -> Cell:
    parts = [row["reason"] or "", row["detail"] or ""]
    text = one_line(": ".join(part for part in parts if part))
    return Cell(text, None, text or None)


TABLE = Table(
    name="refused",
    title=_("Refused"),
    view="refused",
    topics=frozenset({"deliveries"}),
    columns=(
        Column("time", _("Received"), 19, lambda row: time_cell(row["received_at"])),
        Column("id", _("Delivery"), 8, lambda row: Cell(row["id"])),
        Column("source", _("Source"), 12, lambda row: text_cell(row["source"])),
        Column(
            "verdict",
            _("Verdict"),
            14,
            lambda row: word_cell(look_up(VERDICTS, row["verdict"]), row["verdict"]),
        ),
        Column("status", _("Answer"), 7, lambda row: number_cell(row["http_status"]), right=True),
        Column("ms", _("ms"), 6, lambda row: number_cell(milliseconds(row["ack_ms"])), right=True),
        Column("signal", _("Signal"), 7, lambda row: text_cell(row["signal"])),
        Column("key", _("Key"), 16, lambda row: text_cell(row["key"])),
        Column("why", _("Why"), 30, _why),
    ),
    empty_title=_("Nothing was refused"),
    empty_text=_(
        "Duplicates, conflicts, messages that came too late and messages that could not be read are listed "
        "here, each with its reason."
    ),
)
