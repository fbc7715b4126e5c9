"""Our own position: what an alert means against the book it acts on.

Pure. A book is the net of our own fills and adjustments per account, instrument, source and strategy; no
order is ever sized from anything else (HOLES H2).
"""

from __future__ import annotations

from decimal import Decimal

from app.domain.signal import Action, Signal

ZERO = Decimal(0)


def reads_as_exit(signal: Signal, book: Decimal) -> bool:
    """Whether the door should treat a signal as an exit; the worker decides again (CONTRACT 3, 'Freshness')."""
    if signal.action in (Action.EXIT, Action.CANCEL) or signal.reduce_only:
        return True
    target, previous = signal.target, signal.previous
    if target == ZERO:
        return True
    if (
        target is not None
        and previous is not None
        and abs(target) < abs(previous)
        and target * previous >= ZERO
    ):
        return True
    if signal.action is Action.BUY:
        return book < ZERO
    if signal.action is Action.SELL:
        return book > ZERO
    return False
