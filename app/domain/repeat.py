"""What a second delivery of a known key is: a duplicate, or a conflict that nothing may be placed for.

Pure. The first sighting decides; nothing about the configuration enters.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.key import differing_fields, intent_fingerprint
from app.domain.signal import Signal

LABEL_SUSPECTED_AFTER = 10 * 60 * 1_000_000
"""Two bodies without a bar time, further apart than this, are two signals under one label (HOLES H11)."""

WINDOW = 45 * 1_000_000
"""How long a window key stays open from the delivery that opened it: above the 24 s in which TradingView
resends, below a minute bar (facts/tradingview-and-tunnels.md 1.9)."""

SECOND_SIGNAL_SUSPECTED_AFTER = 25 * 1_000_000
"""A repeat inside the window later than any resend can come may be a second signal (HOLES H14)."""


@dataclass(frozen=True, slots=True)
class FirstSighting:
    signal: Signal
    rule_version: int
    intent: bytes
    received_at: int
    header_key: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """`reason` is `intent_differs` or `key_reused`."""

    reason: str
    fields: tuple[str, ...]


def judge_repeat(first: FirstSighting, signal: Signal, received_at: int) -> Conflict | None:
    """None for a plain duplicate, else why the key does not name this signal (CONTRACT 3, 'Intent')."""
    if intent_fingerprint(signal, first.rule_version) != first.intent:
        return Conflict("intent_differs", differing_fields(first.signal, signal, first.rule_version))
    if first.signal.bar_time != signal.bar_time:
        return Conflict("key_reused", ("bar_time",))
    apart = received_at - first.received_at
    if signal.bar_time is None and apart > LABEL_SUSPECTED_AFTER and not first.header_key:
        return Conflict("key_reused", ("received_at",))
    return None


def window_is_open(elapsed: int) -> bool:
    """Whether a repeat so many microseconds after the delivery that opened a window key falls inside it."""
    return -WINDOW < elapsed <= WINDOW
