"""The order state machine: one table of transitions, and nothing else decides.

Pure. The ledger holds a copy of this table (`order_edges`) behind triggers; a test keeps the two equal.
States are ours (DESIGN 6); `OrdStatus` beside them says what the broker says, in FIX words.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    PENDING = "PENDING"
    SUBMITTING = "SUBMITTING"
    WORKING = "WORKING"
    AMBIGUOUS = "AMBIGUOUS"
    NEEDS_OPERATOR = "NEEDS_OPERATOR"
    DENIED = "DENIED"
    NOT_PLACED = "NOT_PLACED"
    DONE = "DONE"


class OrdStatus(StrEnum):
    """FIX 4.4 tag 39, spelled as the FIX names."""

    PENDING_NEW = "PendingNew"
    NEW = "New"
    PARTIALLY_FILLED = "PartiallyFilled"
    FILLED = "Filled"
    CANCELED = "Canceled"
    REJECTED = "Rejected"
    EXPIRED = "Expired"
    PENDING_CANCEL = "PendingCancel"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL_STATUSES


_TERMINAL_STATUSES = frozenset({OrdStatus.FILLED, OrdStatus.CANCELED, OrdStatus.REJECTED, OrdStatus.EXPIRED})

EDGES: frozenset[tuple[State, State]] = frozenset(
    {
        (State.PENDING, State.SUBMITTING),
        (State.PENDING, State.DENIED),
        (State.PENDING, State.DONE),
        (State.PENDING, State.NEEDS_OPERATOR),
        (State.SUBMITTING, State.WORKING),
        (State.SUBMITTING, State.NOT_PLACED),
        (State.SUBMITTING, State.AMBIGUOUS),
        (State.SUBMITTING, State.PENDING),
        (State.SUBMITTING, State.DENIED),
        (State.SUBMITTING, State.NEEDS_OPERATOR),
        (State.AMBIGUOUS, State.WORKING),
        (State.AMBIGUOUS, State.NOT_PLACED),
        (State.AMBIGUOUS, State.NEEDS_OPERATOR),
        (State.NEEDS_OPERATOR, State.WORKING),
        (State.NEEDS_OPERATOR, State.NOT_PLACED),
        (State.NEEDS_OPERATOR, State.AMBIGUOUS),
        (State.WORKING, State.DONE),
        (State.WORKING, State.NEEDS_OPERATOR),
        (State.NOT_PLACED, State.WORKING),
        (State.NOT_PLACED, State.PENDING),
    }
)
"""Every legal move. A late fill after DONE changes `ord_status` and quantities, not the state."""

UNRESOLVED = frozenset({State.SUBMITTING, State.AMBIGUOUS, State.NEEDS_OPERATOR})
"""States in which nobody knows yet whether the broker has the order."""

TERMINAL = frozenset({State.DENIED, State.NOT_PLACED, State.DONE})

SEVERITY: tuple[State, ...] = (
    State.NEEDS_OPERATOR,
    State.AMBIGUOUS,
    State.SUBMITTING,
    State.PENDING,
    State.WORKING,
    State.DENIED,
    State.NOT_PLACED,
    State.DONE,
)
"""Worst first: a signal's outcome is the worst state of its orders (CONTRACT 3)."""


def worst(states: list[State]) -> State:
    """The outcome word of a signal; a signal without orders has nothing to do and is DONE."""
    return min(states, key=SEVERITY.index, default=State.DONE)
