"""What a person filters and sorts a view by, as it is remembered; pure but for the words.

A range such as "last hour" is kept as such and becomes times only when it is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.ledger.listing import Search

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


RANGES: Mapping[str, str] = {
    "any": _("Any time"),
    "hour": _("Last hour"),
    "today": _("Today"),
    "day": _("Last 24 hours"),
    "week": _("Last 7 days"),
    "month": _("Last 30 days"),
    "between": _("From … to …"),
}
_SPANS = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """`since` and `until` (excluded) count only in the range `between`; UTC microseconds."""

    text: str = ""
    chips: list[str] = []
    span: str = "any"
    since: int = 0
    until: int = 0
    sort: str | None = None
    descending: bool = True

    @property
    def narrows(self) -> bool:
        return bool(self.text.strip() or self.chips) or self.span != "any"

    def search(self, now: int) -> Search:
        since: int | None = None
        until: int | None = None
        if self.span == "between":
            since, until = self.since, self.until
        elif self.span == "today":
            since = midnight(now)
        elif self.span in _SPANS:
            since = now - _SPANS[self.span]
        return Search(self.text, frozenset(self.chips), since, until, self.sort, self.descending)

    def written(self) -> str:
        return msgspec.json.encode(self).decode()


def read_filter(text: str, columns: set[str], chips: set[str]) -> Filter:
    """As it was written; what is not known any more is left out, and what cannot be read means no filter."""
    try:
        found = msgspec.json.decode(text, type=Filter)
    except msgspec.DecodeError:
        return Filter()
    return msgspec.structs.replace(
        found,
        chips=[name for name in found.chips if name in chips],
        span=found.span if found.span in RANGES else "any",
        sort=found.sort if found.sort in columns else None,
    )


def midnight(now: int) -> int:
    """The beginning of the local day."""
    day = datetime.fromtimestamp(now // SECOND).astimezone().replace(hour=0, minute=0, second=0)
    return int(day.timestamp()) * SECOND
