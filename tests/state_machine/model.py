"""What a sender and a person may rely on, in plain Python: keys, watermark, what was asked for.

It knows no SQL, no digest, no lane and no broker, and nothing of when an order is worked on.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

SECOND = 1_000_000
MAX_AGE = 90 * SECOND
MAX_EXIT_AGE = 900 * SECOND
SKEW = 30 * SECOND

Answer = tuple[str, str | None]
"""Verdict and reason."""


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
    watermark: int | None = None
    conflicts: dict[str, Known] = field(default_factory=dict)
    """By the delivery's name: what a person may still admit."""


@dataclass
class Model:
    ledger: Ledger = field(default_factory=Ledger)
    backup: Ledger | None = None
    state: str = "active"
    asked: Counter[str] = field(default_factory=Counter)
    """What the book of each strategy could hold at most, in any account, lost time included."""
    may_buy: dict[str, int] = field(default_factory=dict)
    """The most that the buy of a key may ever buy in one account."""
    may_sell: dict[str, int | None] = field(default_factory=dict)
    """The same of a sell or exit; None: all of its book."""
    replays: Counter[str] = field(default_factory=Counter)
    """How often a person has sent the orders of a key again."""
    doubtful: set[str] = field(default_factory=set)
    """Strategies of which our book is not what was traded: by a restore, or by a person's word."""

    def expect(self, signal: Signal, now: int) -> set[Answer]:
        """What a delivery may be told, in the contract's order: known key, watermark, age.

        A sell may be as old as an exit where it meets a book; how far the book is, nobody here knows.
        """
        known = self.ledger.known.get(signal.key)
        if known is not None:
            same = known.signal.intent == signal.intent
            return {("duplicate", None) if same else ("conflict", "intent_differs")}
        if self.ledger.watermark is not None and signal.fired <= self.ledger.watermark:
            return {("stale", "before_watermark")}
        age, action = now - signal.fired, signal.intent.action
        if action == "sell" and MAX_AGE < age <= MAX_EXIT_AGE:
            return {("stale", "stale"), ("accepted", None)}
        is_stale = age > (MAX_EXIT_AGE if action in ("exit", "sell") else MAX_AGE)
        return {("stale", "stale") if is_stale else ("accepted", None)}

    def told(self, signal: Signal, kind: str, delivery: str, now: int) -> None:
        """A delivery was answered, with one of what was expected."""
        known = self.ledger.known.get(signal.key)
        match kind:
            case "accepted":
                self.accept(signal, now)
            case "duplicate":
                assert known is not None
                known.received = now
                known.deliveries += 1
            case "conflict":
                assert known is not None
                known.received = now
                known.in_conflict = True
                self.ledger.conflicts[delivery] = Known(signal, now)

    def accept(self, signal: Signal, now: int) -> None:
        intent, key = signal.intent, signal.key
        self.ledger.known[key] = Known(signal, now)
        if intent.action == "buy":
            quantity = intent.quantity or 0
            self.asked[intent.strategy] += quantity
            self.may_buy[key] = max(quantity, self.may_buy.get(key, 0))
        else:
            self.may_sell[key] = intent.quantity

    def admitted(self, delivery: str, key: str, *, is_new: bool) -> None:
        """A person admitted a delivery in conflict, as a signal of its own or as one that is there."""
        conflict = self.ledger.conflicts.pop(delivery)
        assert is_new == (key not in self.ledger.known), "each intent of a conflict once"
        if is_new:
            self.accept(Signal(key, conflict.signal.intent, conflict.signal.fired), conflict.received)

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

    def purged(self, left: set[str], cutoff: int | None, watermark: int | None) -> int:
        """A purge up to then has left these keys, perhaps cut off midway. Returns how many it forgot.

        The watermark moves only where keys go, before they go, and never back.
        """
        before, ledger = self.ledger.watermark, self.ledger
        forgotten = set(ledger.known) - left
        assert forgotten <= (set() if cutoff is None else self.may_forget(cutoff)), "forgotten too early"
        moved = before if cutoff is None else max(before or 0, cutoff)
        assert watermark in ({moved} if forgotten else {before, moved}), "the watermark comes first"
        ledger.watermark = watermark
        for key in forgotten:
            del ledger.known[key]
        return len(forgotten)

    def backed_up(self) -> None:
        self.backup = deepcopy(self.ledger)

    def restored(self, now: int) -> None:
        assert self.backup is not None
        self.ledger = deepcopy(self.backup)
        self.ledger.watermark = max(self.ledger.watermark or 0, now)
        self.state = "halted"
        self.doubtful |= set(self.asked)

    def corrected(self, strategy: str, was: int, wanted: int) -> None:
        """A person said what a book holds."""
        self.asked[strategy] += max(0, wanted - was)
        self.doubtful.add(strategy)
