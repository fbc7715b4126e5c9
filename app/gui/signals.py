"""The view of signals: what came in and was claimed, newest first. A description; nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import TIME, Cell, Chip, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.formats import one_line
from app.gui.words import KEY_SOURCES, ORDER_STATES, SIDES, look_up, tr
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _outcome(row: Row) -> Cell:
    more = (
        _("The sender was told that it was not accepted; its resend will be.") if row["unanswered"] else None
    )
    return word_cell(look_up(ORDER_STATES, row["outcome"]), row["outcome"], more)


def _key(row: Row) -> Cell:
    text = one_line(row["key"])
    return Cell(text, None, f"{text} [{row['key_source']}] {tr(KEY_SOURCES.get(row['key_source'], ''))}")


TABLE = Table(
    name="signals",
    title=_("Signals"),
    view="signals",
    topics=frozenset({"claims", "deliveries", "orders"}),
    columns=(
        Column("time", _("Received"), TIME, lambda row: time_cell(row["first_seen"])),
        Column("id", _("Signal"), "S12345", lambda row: Cell(row["id"])),
        Column("source", _("Source"), "tradingview", lambda row: text_cell(row["source"])),
        Column(
            "action", _("Action"), "▲ reverse", lambda row: word_cell(look_up(SIDES, row["action"]), None)
        ),
        Column("quantity", _("Quantity"), "10000.25", lambda row: number_cell(row["quantity"]), right=True),
        Column("symbol", _("Symbol"), "BTCUSDT0", lambda row: text_cell(row["symbol"])),
        Column("outcome", _("Outcome"), "? Ambiguous ", _outcome),
        Column("key", _("Key"), "", _key, stretch=True),
        Column("deliveries", _("Deliveries"), "1000", lambda row: number_cell(row["deliveries"]), right=True),
    ),
    empty_title=_("No signals yet"),
    empty_text=_(
        "Copy the address above into the webhook field of a TradingView alert, and the message into its "
        "message field; or press Send test signal."
    ),
    chips=(
        Chip("unresolved", _("? Unresolved")),
        Chip("waiting", _("… Waiting")),
        Chip("working", _("● Working")),
        Chip("denied", _("✕ Not placed")),
        Chip("done", _("✓ Done")),
        Chip("repeated", _("= Repeated")),
    ),
)
