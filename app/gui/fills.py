"""The view of fills: what was really bought and sold, and how far from the signal's price. A description."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.domain.number import plain
from app.domain.sizing import WIDE
from app.gui.columns import TIME, Cell, Chip, Column, Table, number_cell, text_cell, time_cell, word_cell
from app.gui.theme import Tone
from app.gui.words import SIDES, look_up, tr
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def slippage(side: str, price: str, reference: str | None) -> tuple[Decimal, Decimal] | None:
    """How much worse than the signal's price a fill was, in money a unit and in basis points.

    Negative is better. None where the signal named no price.
    """
    try:
        asked = Decimal(reference or "")
        paid = WIDE.subtract(Decimal(price), asked)
    except InvalidOperation:
        return None
    if asked <= 0:
        return None
    worse = paid if side == "buy" else -paid
    points = WIDE.divide(WIDE.multiply(worse, Decimal(10_000)), asked)
    return worse, points.quantize(Decimal("0.1"))


def slippage_text(worse: Decimal, points: Decimal) -> str:
    if worse == 0:
        return tr("none")
    words = tr("{money} worse ({points} bp)") if worse > 0 else tr("{money} better ({points} bp)")
    return words.format(money=plain(abs(worse)), points=plain(abs(points)))


def _slippage(row: Row) -> Cell:
    found = slippage(row["side"], row["price"], row["reference"])
    if found is None:
        return Cell("", None, tr("The signal named no price."))
    worse, points = found
    tip = tr(
        "The signal's price was {reference}, the fill's {price}. A basis point is a hundredth of a percent."
    )
    tone = Tone.BAD if worse > 0 else Tone.GOOD if worse < 0 else None
    return Cell(
        slippage_text(worse, points), tone, tip.format(reference=row["reference"], price=row["price"])
    )


TABLE = Table(
    name="fills",
    title=_("Fills"),
    view="priced_fills",
    topics=frozenset({"fills"}),
    columns=(
        Column("time", _("Filled at"), TIME, lambda row: time_cell(row["at"])),
        Column("order", _("Order"), "O12345", lambda row: Cell(row["order_id"])),
        Column("account", _("Account"), "paper0", lambda row: text_cell(row["account"])),
        Column("side", _("Side"), "▲ reverse", lambda row: word_cell(look_up(SIDES, row["side"]), None)),
        Column("quantity", _("Quantity"), "10000.25", lambda row: number_cell(row["quantity"]), right=True),
        Column("symbol", _("Symbol"), "BTCUSDT0", lambda row: text_cell(row["symbol"])),
        Column("price", _("Price"), "61250.25", lambda row: number_cell(row["price"]), right=True),
        Column("slippage", _("Against the signal"), "0.05 better (12.5 bp)", _slippage, right=True),
        Column("fee", _("Fee"), "0.0000", lambda row: number_cell(row["fee"]), right=True),
        Column("exec", _("Broker's id of the fill"), "", lambda row: text_cell(row["exec_id"]), stretch=True),
    ),
    empty_title=_("No fills yet"),
    empty_text=_("What the broker filled is listed here, with its distance from the price in the signal."),
    chips=(Chip("buy", _("▲ Bought")), Chip("sell", _("▼ Sold"))),
    story=lambda row: str(row["order_id"]),
)
