"""The view of what did not become a signal: duplicates, conflicts, too old, invalid."""

from __future__ import annotations

import time

import structlog
from PySide6.QtCore import QT_TRANSLATE_NOOP
from PySide6.QtWidgets import QWidget

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
from app.gui.duplicates import burst_hint, repeat_of
from app.gui.filters import HOUR
from app.gui.formats import grouped, milliseconds, one_line
from app.gui.notice import Notice
from app.gui.tab import LedgerTab, Sources
from app.gui.words import TURNED_AWAY, VERDICTS, look_up, tr
from app.ledger.alike import repeats_since
from app.ledger.counts import DAY, turned_away_since
from app.ledger.reader import Row, SearchEnded

log = structlog.get_logger(__name__)

HINT_EVERY = 5.0
"""Seconds between two looks at the repeats of the last hour."""


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


def _turned_away(counted: dict[str, int]) -> str:
    """Requests that failed authentication: nothing of them is kept but the number."""
    if not counted:
        return ""
    parts = [f"{grouped(number)} {tr(TURNED_AWAY.get(why, why))}" for why, number in counted.items()]
    return tr("Turned away in 24 hours, nothing kept: {parts}").format(parts=", ".join(parts))


class RefusedTab(LedgerTab):
    """Below the rows: why so many repeats come, where many do."""

    def __init__(self, sources: Sources, parent: QWidget | None = None) -> None:
        super().__init__(TABLE, sources, parent)
        self.hint = Notice(self, can_close=False)
        self._column.addWidget(self.hint)
        self._hinting = False
        self._hint_at = 0.0

    def looked(self) -> None:
        if not self._hinting and time.monotonic() >= self._hint_at:
            self._hinting = True
            self.sources.tasks.start("window looks at repeats", self._look())

    async def _look(self) -> None:
        now = self.sources.clock.now()
        try:
            rows, away = await self.sources.finder.call(
                lambda c: (repeats_since(c, now - HOUR), turned_away_since(c, now - DAY))
            )
        except SearchEnded:
            return  # the next look comes
        except Exception as error:  # noqa: BLE001 - the view itself says what is wrong with the ledger
            log.warning("the window cannot look at repeats", error=repr(error))
            return
        finally:
            self._hinting = False
        self._hint_at = time.monotonic() + HINT_EVERY
        if self.offers is not None:
            self.offers.note.setText(_turned_away(away))
        text = burst_hint([repeat_of(row) for row in rows])
        if not text:
            self.hint.clear()
        elif text != self.hint.text:
            self.hint.say(text, "warning")
