"""What a second delivery of a known key is: a duplicate, or a conflict that nothing may be placed for.

Pure. The first sighting decides; nothing about the configuration enters, and no clock is read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.domain.key import differing_fields, intent_fingerprint
from app.domain.signal import Signal
from app.domain.times import MINUTE, SECOND

LABEL_SUSPECTED_AFTER = 10 * MINUTE
"""Two bodies without a bar time, further apart than this, are two signals under one label (HOLES H11)."""

WINDOW = 45 * SECOND
"""How long a window key stays open from the delivery that opened it: above the 24 s in which TradingView
resends, below a minute bar (facts/tradingview-and-tunnels.md 1.9)."""

SECOND_SIGNAL_SUSPECTED_AFTER = 25 * SECOND
"""A repeat inside the window later than any resend can come may be a second signal (HOLES H14)."""

REUSED = "key_reused"
_NAMES_AN_ORDER = "this key names an order, not a signal"


@dataclass(frozen=True, slots=True)
class FirstSighting:
    """What the ledger keeps of the delivery that was admitted. `header_key`: its key came in a header."""

    signal: Signal
    rule_version: int
    intent: bytes
    header_key: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """`reason` is `intent_differs` or `key_reused`; `fields` differ, by the names of a Signal."""

    reason: str
    fields: tuple[str, ...]
    detail: str = ""


def other_intent(first: FirstSighting, again: Signal) -> Conflict | None:
    """The conflict of a repeat that asks for something else, else None.

    Both are read by the rule that the first was stored under (HOLES H41).
    """
    if intent_fingerprint(again, first.rule_version) == first.intent:
        return None
    fields = differing_fields(first.signal, again, first.rule_version)
    return Conflict("intent_differs", fields, "the same key was sent before for another order")


def judge_repeat(first: FirstSighting, again: Signal, *, apart: int, header_key: bool) -> Conflict | None:
    """None for a plain duplicate, else why the key does not name this signal (CONTRACT 3, 'Intent').

    `apart` is how many microseconds after the first this one came; negative where clocks were set back.
    """
    conflict = other_intent(first, again)
    if conflict is not None:
        return conflict
    was, now = first.signal, again
    if was.bar_time != now.bar_time:
        detail = f"{_NAMES_AN_ORDER}: before for {_bar(was.bar_time)}, now for {_bar(now.bar_time)}"
        return Conflict(REUSED, ("bar_time",), detail)
    if now.bar_time is not None:
        if was.interval == now.interval:
            return None
        detail = f"{_NAMES_AN_ORDER}: before on interval {was.interval}, now on {now.interval}"
        return Conflict(REUSED, ("interval",), detail)
    # Header keys are made by machines, one a signal; only the silence of two such keys can be trusted.
    if abs(apart) > LABEL_SUSPECTED_AFTER and not (first.header_key and header_key):
        minutes = abs(apart) / MINUTE
        detail = f"{_NAMES_AN_ORDER}: {minutes:.0f} minutes lie between two bodies that name no bar"
        return Conflict(REUSED, ("received_at",), detail)
    return None


def window_is_open(apart: int) -> bool:
    """Whether a repeat so many microseconds after the delivery that opened a window key falls inside it.

    A little before it, too: of two deliveries at once the later one may be decided first.
    """
    return -WINDOW < apart <= WINDOW


def _bar(bar_time: int | None) -> str:
    if bar_time is None:
        return "no bar"
    opened = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=bar_time)
    return f"the bar of {opened:%Y-%m-%dT%H:%M:%SZ}"
