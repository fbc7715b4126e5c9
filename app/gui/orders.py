"""The view of orders: what was asked of a broker and how it stands. A description; nothing runs here."""

from __future__ import annotations

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.columns import TIME, Cell, Chip, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.words import SIDES, look_up, order_word
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _state(row: Row) -> Cell:
    word = order_word(row["state"], row["ord_status"], row["reason"])
    code = f"{row['state']} / {row['ord_status']}" if row["ord_status"] else row["state"]
    return word_cell(word, code)


def _side(row: Row) -> Cell:
    return word_cell(look_up(SIDES, row["side"] or row["action"]), None)


def _filled(row: Row) -> Cell:
    return number_cell(row["filled_quantity"])


def _average(row: Row) -> Cell:
    return number_cell(row["average_price"])


def _price(row: Row) -> Cell:
    prices = {"limit": row["limit_price"], "stop": row["stop_price"]}
    stated = " ".join(f"{name} {price}" for name, price in prices.items() if price is not None)
    return Cell(stated or row["type"])


TABLE = Table(
    name="orders",
    title=_("Orders"),
    view="orders",
    topics=frozenset({"orders", "fills"}),
    columns=(
        Column("time", _("Created"), TIME, lambda row: time_cell(row["created_at"])),
        Column("id", _("Order"), "O12345", lambda row: Cell(row["id"])),
        Column("account", _("Account"), "paper0", lambda row: text_cell(row["account"])),
        Column("side", _("Side"), "▲ reverse", _side),
        Column("quantity", _("Quantity"), "10000.25", lambda row: number_cell(row["quantity"]), right=True),
        Column("symbol", _("Symbol"), "BTCUSDT0", lambda row: text_cell(row["symbol"])),
        Column("price", _("Type"), "limit 000.0", _price),
        Column("state", _("State"), "◐ Partly filled ", _state),
        Column("filled", _("Filled"), "10000.25", _filled, right=True),
        Column("average", _("Average"), "61250.25", _average, right=True),
        Column("reason", _("Reason"), "", lambda row: text_cell(row["reason"]), stretch=True),
    ),
    empty_title=_("No orders yet"),
    empty_text=_(
        "Each signal that is accepted becomes an order here. Press Send test signal to place one on paper."
    ),
    chips=(
        Chip("unresolved", _("? Unresolved")),
        Chip("open", _("● Open")),
        Chip("filled", _("✓ Filled")),
        Chip("denied", _("✕ Not placed")),
        Chip("exits", _("◆ Exits")),
    ),
    counts_chips=True,
    offers=("cancel", "replay", "look_again", "placed", "not_placed", "close"),
)
