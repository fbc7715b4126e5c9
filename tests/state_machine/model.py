"""What a sender and a person may rely on, in plain Python: keys, watermark, what was asked for.

It knows no SQL, no digest, no lane and no broker, and nothing of when an order is worked on.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal

SECOND = 1_000_000
MAX_AGE = 90 * SECOND
MAX_EXIT_AGE = 900 * SECOND
SKEW = 30 * SECOND


@dataclass(frozen=True)
class Intent:
    """`action` is buy, sell or exit; an exit without a quantity is all of its book. `limit` rests."""

    strategy: str
    action: str
    quantity: int | None
    limit: bool = False


@dataclass
class Signal:
    """One delivery as it can be sent again: times in UTC microseconds."""

    key: str
    intent: Intent
    fired: int


@dataclass
class Known:
    """A key that was acknowledged. `received` is when its newest delivery came."""

    signal: Signal
    received: int
    deliveries: int = 1
    in_conflict: bool = False


@dataclass
class Ledger:
    """What goes back in time with a restore."""

    known: dict[str, Known] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    watermark: int | None = None


@dataclass
class Model:
    ledger: Ledger = field(default_factory=Ledger)
    backup: Ledger | None = None
    state: str = "active"
    asked: Counter[str] = field(default_factory=Counter)
    """Shares that buys of each strategy were ever accepted for, lost time included."""
    bought: dict[str, int] = field(default_factory=dict)
    """The most that the buy of a key may ever buy."""

    def deliver(self, signal: Signal, now: int) -> tuple[str, str | None]:
        """Verdict and reason, in the contract's order: a known key, the watermark, its age."""
        known = self.ledger.known.get(signal.key)
        if known is not None:
            known.received = now
            if known.signal.intent != signal.intent:
                known.in_conflict = True
                return "conflict", "intent_differs"
            known.deliveries += 1
            return "duplicate", None
        if self.ledger.watermark is not None and signal.fired <= self.ledger.watermark:
            return "stale", "before_watermark"
        limit = MAX_EXIT_AGE if signal.intent.action == "exit" else MAX_AGE
        if now - signal.fired > limit:
            return "stale", "stale"
        self.ledger.known[signal.key] = Known(signal, now)
        self.ledger.forgotten.discard(signal.key)
        if signal.intent.action == "buy":
            quantity = signal.intent.quantity or 0
            self.asked[signal.intent.strategy] += quantity
            self.bought[signal.key] = max(quantity, self.bought.get(signal.key, 0))
        return "accepted", None

    def may_forget(self, cutoff: int) -> set[str]:
        """Keys that a purge up to then may forget by their deliveries; their orders say the rest."""
        return {
            key
            for key, known in self.ledger.known.items()
            if known.signal.fired <= cutoff
            and known.received <= cutoff - SKEW
            and known.deliveries == 1
            and not known.in_conflict
        }

    def purged(self, forgotten: set[str], cutoff: int) -> None:
        """The watermark moves only where keys go, and never back."""
        if forgotten:
            self.ledger.watermark = max(self.ledger.watermark or 0, cutoff)
        for key in forgotten:
            del self.ledger.known[key]
        self.ledger.forgotten |= forgotten

    def backed_up(self) -> None:
        self.backup = deepcopy(self.ledger)

    def restored(self, now: int) -> None:
        assert self.backup is not None
        self.ledger = deepcopy(self.backup)
        self.ledger.watermark = max(self.ledger.watermark or 0, now)
        self.state = "halted"

    def most_held(self, strategy: str) -> Decimal:
        return Decimal(self.asked[strategy])
