"""The view of health: each part of the program, its word, the reason, and since when.

It asks the engine, and the ledger for those who were turned away; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import apsw
from PySide6.QtCore import QT_TRANSLATE_NOOP
from PySide6.QtWidgets import QWidget

from app.clock import Clock
from app.gui.columns import TIME, Cell, Column, Table, text_cell, time_cell, word_cell
from app.gui.feed import Feed, ListFeed
from app.gui.formats import grouped, visible
from app.gui.status_strip import fact_word
from app.gui.tab import LedgerTab, Sources
from app.gui.words import TURNED_AWAY, fact_name, look_up, tr
from app.ledger.counts import DAY, turned_away_since
from app.ledger.queries import rfc3339
from app.ledger.reader import Row

if TYPE_CHECKING:
    from app.engine import Fact, Status

_WORST_FIRST = ("error", "warning", "ok")


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Tables", text))


TABLE = Table(
    name="health",
    title=_("Health"),
    view="health",
    topics=frozenset({"status", "unauthenticated"}),
    columns=(
        Column("part", _("Part"), "Turned away, 24 hours", lambda row: text_cell(row["part"])),
        Column("word", _("State"), "▲ Reconciling ", lambda row: word_cell(row["word"], None)),
        Column("since", _("So since"), TIME, lambda row: time_cell(row["since"])),
        Column("reason", _("Reason"), "", lambda row: Cell(row["reason"], None, row["reason"]), stretch=True),
    ),
    empty_title=_("Nothing is known yet"),
    empty_text=_("Each part of Onefill says here how it is, and why."),
    offers=("reconcile",),
    story=lambda row: f"H {row['part']}",
)


class HealthFeed(ListFeed):
    """`status` is what the engine said last; taken over on the loop, read on the reader's thread."""

    def __init__(self, tab: HealthTab, sources: Sources) -> None:
        super().__init__(sources.reader, tab.model, sources.tasks, tab)
        self._tab = tab
        self._clock: Clock = sources.clock

    def rows(self, connection: apsw.Connection) -> list[Row]:
        rows = [
            {
                "id": "",
                "key_of_row": fact.name,
                "part": fact_name(fact.name),
                "word": fact_word(fact),
                "level": fact.level,
                "reason": visible(fact.reason),
                "since": since,
            }
            for fact, since in self._tab.facts
        ]
        rows.sort(key=lambda row: _WORST_FIRST.index(row["level"]))
        return [*rows, self._turned_away(connection)]

    def _turned_away(self, connection: apsw.Connection) -> Row:
        found = turned_away_since(connection, self._clock.now() - DAY)
        number = sum(found.values())
        parts = [f"{grouped(count)} {tr(TURNED_AWAY.get(why, why))}" for why, count in found.items()]
        return {
            "id": "",
            "key_of_row": "turned away",
            "part": tr("Turned away, 24 hours"),
            "word": look_up({}, grouped(number)),
            "level": "ok",
            "reason": ", ".join(parts) or tr("no request without a right address and secret"),
            "since": None,
        }


class HealthTab(LedgerTab):
    def __init__(self, status: Callable[[], Status], sources: Sources, parent: QWidget | None = None) -> None:
        self._status = status
        self.facts: list[tuple[Fact, str | None]] = []
        super().__init__(TABLE, sources, parent)

    def make_feed(self, sources: Sources) -> Feed:
        return HealthFeed(self, sources)

    def note(self, status: Status) -> bool:
        """Keeps since when each part says what it says; whether anything is new."""
        before = {fact.name: (fact, since) for fact, since in self.facts}
        now = rfc3339(self.sources.clock.now())
        facts: list[tuple[Fact, str | None]] = []
        for fact in status.facts:
            known = before.get(fact.name)
            is_same = known is not None and (known[0].word, known[0].level) == (fact.word, fact.level)
            first = rfc3339(status.started_at) if not self.facts else now
            facts.append((fact, known[1] if known is not None and is_same else first))
        changed = facts != self.facts
        self.facts = facts
        return changed

    def refresh(self, *, anew: bool = False) -> None:
        self.note(self._status())
        super().refresh(anew=anew)
