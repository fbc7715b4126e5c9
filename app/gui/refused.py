"""The view of what did not become a signal: duplicates, conflicts, too old, invalid. Nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import (
    TIME,
    WIDE_WORD,
    Cell,
    Chip,
    Column,
    Table,
    number_cell,
    text_cell,
    time_cell,
    word_cell,
)
from app.gui.formats import milliseconds, one_line
from app.gui.words import VERDICTS, look_up
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _verdict(row: Row) -> Cell:
    return word_cell(look_up(VERDICTS, row["verdict"]), row["verdict"])


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
        Column("time", _("Received"), TIME, lambda row: time_cell(row["received_at"])),
        Column("id", _("Delivery"), "D123456", lambda row: Cell(row["id"])),
        Column("source", _("Source"), "tradingview", lambda row: text_cell(row["source"])),
        Column("verdict", _("Verdict"), WIDE_WORD, _verdict),
        Column("status", _("Answer"), "000", lambda row: number_cell(row["http_status"])),
        Column("signal", _("Signal"), "S123456", lambda row: text_cell(row["signal"])),
        Column("why", _("Why"), "", _why, stretch=True),
        Column("key", _("Key"), "tv-00000000", lambda row: text_cell(row["key"])),
        Column("ms", _("ms"), "1000.0", lambda row: number_cell(milliseconds(row["ack_ms"])), right=True),
    ),
    empty_title=_("Nothing was refused"),
    empty_text=_(
        "Duplicates, conflicts, messages that came too late and messages that could not be read are listed "
        "here, each with its reason."
    ),
    chips=(
        Chip("duplicate", _("= Duplicate")),
        Chip("conflict", _("≠ Conflict")),
        Chip("stale", _("✕ Too old")),
        Chip("invalid", _("✕ Invalid")),
        Chip("not_accepted", _("✕ Not accepted")),
    ),
    counts_chips=True,
    offers=("admit",),
)
