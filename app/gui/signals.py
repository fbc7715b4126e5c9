"""The view of signals: what came in and was claimed, newest first. A description; nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import Cell, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.words import KEY_SOURCES, ORDER_STATES, SIDES, look_up, tr
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _outcome(row: Row) -> Cell:
    more = (
        _("The sender was told that it was not accepted; its resend will be.") if row["unanswered"] else None
    )
    return word_cell(look_up(ORDER_STATES, row["outcome"]), row["outcome"], more)


def _key_source(row: Row) -> Cell:
    return Cell(row["key_source"], None, tr(KEY_SOURCES.get(row["key_source"], "")) or None)


TABLE = Table(
    name="signals",
    title=_("Signals"),
    view="signals",
    topics=frozenset({"claims", "deliveries", "orders"}),
    columns=(
        Column("time", _("Received"), 19, lambda row: time_cell(row["first_seen"])),
        Column("id", _("Signal"), 7, lambda row: Cell(row["id"])),
        Column("source", _("Source"), 12, lambda row: text_cell(row["source"])),
        Column("action", _("Action"), 8, lambda row: word_cell(look_up(SIDES, row["action"]), None)),
        Column("quantity", _("Quantity"), 9, lambda row: number_cell(row["quantity"]), right=True),
        Column("symbol", _("Symbol"), 10, lambda row: text_cell(row["symbol"])),
        Column("outcome", _("Outcome"), 13, _outcome),
        Column("deliveries", _("Times sent"), 9, lambda row: number_cell(row["deliveries"]), right=True),
        Column("key_source", _("Key from"), 9, _key_source),
        Column("key", _("Key"), 22, lambda row: text_cell(row["key"])),
    ),
    empty_title=_("No signals yet"),
    empty_text=_(
        "Copy the hook address above into the webhook field of a TradingView alert, or press Send test "
        "signal to see one arrive."
    ),
)
