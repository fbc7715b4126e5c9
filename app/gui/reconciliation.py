"""The view of reconciliations: each comparison of our books with a broker's. Nothing runs here."""

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
from app.gui.formats import duration, microseconds_between
from app.gui.words import CAUSES, RECONCILIATION_RESULTS, look_up, tr
from app.ledger.reader import Row


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


def _result(row: Row) -> Cell:
    return word_cell(look_up(RECONCILIATION_RESULTS, row["result"]), row["result"])


def _cause(row: Row) -> Cell:
    return Cell(tr(CAUSES.get(row["cause"], row["cause"])))


def _took(row: Row) -> Cell:
    return Cell(duration(microseconds_between(row["started_at"], row["ended_at"])))


TABLE = Table(
    name="reconciliation",
    title=_("Reconciliation"),
    view="reconciliations",
    topics=frozenset({"reconciliations", "findings"}),
    columns=(
        Column("time", _("Started"), TIME, lambda row: time_cell(row["started_at"])),
        Column("id", _("Run"), "R123456", lambda row: Cell(row["id"])),
        Column("account", _("Account"), "alpaca-live", lambda row: text_cell(row["account"])),
        Column("result", _("Result"), WIDE_WORD, _result),
        Column("findings", _("Findings"), "100", lambda row: number_cell(row["findings"]), right=True),
        Column("took", _("Took"), "1000 ms", _took, right=True),
        Column("cause", _("Cause"), "", _cause, stretch=True),
    ),
    empty_title=_("No reconciliation yet"),
    empty_text=_(
        "At start, on a timer and after a broken connection Onefill compares its orders, fills and positions "
        "with the broker's. Each comparison is listed here with what it found."
    ),
    chips=(Chip("differences", _("! Differences")), Chip("incomplete", _("? Incomplete or failed"))),
    counts_chips=True,
    offers=("reconcile",),
)
