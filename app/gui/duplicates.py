"""Why the same signal came again, as far as the messages tell: a hint, never a verdict. Pure.

The causes: facts/tradingview-and-tunnels 1.7.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.gui.words import tr
from app.ledger.reader import Row

SECOND = 1_000_000
RESENDS = 30 * SECOND
"""TradingView sends at most four times within some 24 s."""
TOGETHER = 3 * SECOND
LATE = 60 * SECOND
BURST = 3
"""So many repeats of one source within an hour are worth a word."""


def _(text: str) -> str:
    return str(QT_TRANSLATE_NOOP("Words", text))


class Cause(StrEnum):
    RESEND = "resend"
    TWO_ALERTS = "two_alerts"
    TWO_KINDS = "two_kinds"
    EVERY_TICK = "every_tick"
    REPLAYED = "replayed"


HINTS = {
    Cause.RESEND: _(
        "Likely a resend: the answer to the first one got lost on the way, or was an error. TradingView and "
        "tunnels send again then. Nothing to do while it is rare; else look at the tunnel."
    ),
    Cause.TWO_ALERTS: _(
        "Likely two alerts are left running for the same thing: one that was made anew without deleting the "
        "old one, or one on each chart layout. Delete one of them in TradingView."
    ),
    Cause.TWO_KINDS: _(
        "Likely one alert fires twice for one order: order fills and alert() calls are both ticked in it. "
        "Choose one of them in the alert's condition."
    ),
    Cause.EVERY_TICK: _(
        "Likely the alert fires several times within one bar: set it to once per bar close, or its condition "
        "comes and goes while the bar is open."
    ),
    Cause.REPLAYED: _(
        "The same message came long after the first: a relay or a tunnel's inspector has replayed it, or an "
        "old mail was read again."
    ),
}
_FILL_FIELDS = ("order_id", "market_position", "order_contracts", "contracts", "prev_market_position")
_FIRE_FIELDS = frozenset({"fired_at", "timenow", "timestamp", "fired_at_ms"})


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat beside the first of its key. `gap` in microseconds; `answered`: the last status before it,
    None where no answer is on record."""

    source: str
    gap: int
    answered: int | None
    first_body: str | None
    body: str | None
    number: int = 1
    """Which repeat of its key it is."""


def repeat_of(row: Row) -> Repeat:
    """From a row of `app.ledger.alike`."""
    gap = row["received_at"] - row["first_at"]
    return Repeat(row["source"], gap, row["answered"], row["first_body"], row["body"], row["number"])


def cause_of(repeat: Repeat) -> Cause | None:
    """None where nothing points anywhere."""
    first, now = _object(repeat.first_body), _object(repeat.body)
    if repeat.answered is None or repeat.answered >= 500:
        return Cause.RESEND
    if first is not None and now is not None:
        if _is_of_a_fill(first) != _is_of_a_fill(now) and repeat.gap <= TOGETHER:
            return Cause.TWO_KINDS
        fired_again = _fired(first) != _fired(now)
        if repeat.gap <= TOGETHER and (fired_again or _stripped(first) == _stripped(now)):
            return Cause.TWO_ALERTS
        if fired_again:
            return Cause.EVERY_TICK
    if repeat.gap <= TOGETHER:
        return Cause.TWO_ALERTS
    same = repeat.body is not None and repeat.body == repeat.first_body
    if same and repeat.gap <= RESENDS:
        return Cause.RESEND
    if same and repeat.gap > LATE:
        return Cause.REPLAYED
    return None


def hint(repeat: Repeat) -> str:
    cause = cause_of(repeat)
    return "" if cause is None else tr(HINTS[cause])


def burst_hint(repeats: Sequence[Repeat]) -> str:
    """About the source that repeats most; empty where none repeats much."""
    if not repeats:
        return ""
    source, number = Counter(each.source for each in repeats).most_common(1)[0]
    if number < BURST:
        return ""
    causes = Counter(cause for each in repeats if each.source == source and (cause := cause_of(each)))
    text = tr("{number} repeats from {source} within the last hour. None was placed twice.")
    words = text.format(number=number, source=source)
    return f"{words} {tr(HINTS[causes.most_common(1)[0][0]])}" if causes else words


def _object(body: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(body or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_of_a_fill(body: dict[str, Any]) -> bool:
    """Whether it has what only an order fill's placeholders bring."""
    return any(body.get(name) not in (None, "") for name in _FILL_FIELDS)


def _fired(body: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(body.get(name) for name in sorted(_FIRE_FIELDS))


def _stripped(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _FIRE_FIELDS}
