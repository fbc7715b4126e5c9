"""Our own position: what an alert means against the book it acts on.

Pure. A book is the net of our own fills and adjustments per account, instrument, source and strategy; no
order is ever sized from anything else, and never from the account's whole position (HOLES H2).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from app.domain.signal import Action, Direction, Side, Signal

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is held when an order is decided. All signed, in units of the instrument.

    `book` is our own net; `in_flight` the leaves of this book's own working orders; `broker_position` what
    the broker holds altogether; `other_books` the nets of our other books on this account and instrument.
    """

    book: Decimal
    in_flight: Decimal
    broker_position: Decimal
    other_books: tuple[Decimal, ...] = ()


@dataclass(frozen=True, slots=True)
class Trade:
    """What is to be sent: `reduces` of it closes our book, `opens` of it opens or adds."""

    side: Side
    reduces: Decimal
    opens: Decimal

    @property
    def quantity(self) -> Decimal:
        return self.reduces + self.opens


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, and nothing is sent."""

    detail: str


@dataclass(frozen=True, slots=True)
class Misplaced:
    """DENIED (OTHER_BOOK_OPEN): our book is empty, but something on the instrument is open elsewhere."""

    detail: str


def reads_as_exit(signal: Signal, book: Decimal) -> bool:
    """Whether the door should treat a signal as an exit; the worker decides again (CONTRACT 3, Freshness)."""
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


def plan(
    signal: Signal, held: Holdings, entry_size: Decimal | None, *, sized_by_signal: bool
) -> Trade | Nothing | Misplaced:
    """The order that a signal asks for, from our own book (CONTRACT 3, 'What an alert means').

    `entry_size` is what an entry would be worth by the account's sizing: the signal's own quantity where
    `sized_by_signal`, else what the account says; None where there is none.
    """
    if signal.action is Action.EXIT or signal.reduce_only or signal.target == ZERO:
        return _close(signal, held)
    if signal.target is not None:
        wanted = signal.target if sized_by_signal else _direction_target(signal, held, entry_size)
        if wanted is None:
            return Nothing("no size to trade")
        return _towards(signal, held, wanted, cap=signal.quantity if sized_by_signal else None)
    if signal.action is Action.REVERSE:
        if held.book == ZERO:
            return Nothing("nothing to reverse")
        size = entry_size if entry_size is not None else abs(held.book)
        return _towards(signal, held, size if held.book < ZERO else -size, cap=None)
    return _buy_or_sell(signal, held, entry_size, sized_by_signal=sized_by_signal)


def _close(signal: Signal, held: Holdings) -> Trade | Nothing | Misplaced:
    """Closes what the signal names and what the book holds on that side, never more than the broker holds there."""
    closes_long = _closes(signal, Direction.LONG) and held.book > ZERO
    closes_short = _closes(signal, Direction.SHORT) and held.book < ZERO
    if not (closes_long or closes_short):
        return _misplaced(held) or Nothing(
            "the book is flat" if held.book == ZERO else "the book is on the other side"
        )
    quantity = abs(held.book)
    if signal.quantity is not None and signal.target != ZERO:
        quantity = min(quantity, signal.quantity)
    at_broker = max(ZERO, held.broker_position if closes_long else -held.broker_position)
    quantity = min(quantity, at_broker)
    if quantity == ZERO:
        return Nothing("the broker holds nothing on that side")
    return Trade(Side.SELL if closes_long else Side.BUY, reduces=quantity, opens=ZERO)


def _closes(signal: Signal, direction: Direction) -> bool:
    """Whether an exit may close this direction: the payload names it, or the side of its action does (H3)."""
    if signal.prev_market_position in (Direction.LONG, Direction.SHORT):
        return signal.prev_market_position is direction
    if signal.action is Action.SELL:
        return direction is Direction.LONG
    if signal.action is Action.BUY:
        return direction is Direction.SHORT
    return True


def _misplaced(held: Holdings) -> Misplaced | None:
    if held.book != ZERO:
        return None
    if any(other != ZERO for other in held.other_books):
        nets = ", ".join(format(other, "f") for other in held.other_books if other != ZERO)
        return Misplaced(f"own_book=0 other_books={nets}")
    if held.broker_position != ZERO:
        return Misplaced(f"own_book=0 broker_position={held.broker_position:f}")
    return None


def _direction_target(signal: Signal, held: Holdings, entry_size: Decimal | None) -> Decimal | None:
    """Where the account sizes entries, a target says only long or short (CONTRACT 3)."""
    assert signal.target is not None
    long = signal.target > ZERO
    effective = held.book + held.in_flight
    previous = signal.previous
    if (effective > ZERO) == long and effective != ZERO:
        if previous is not None and previous != ZERO and abs(signal.target) < abs(previous):
            return effective * signal.target / previous
        return effective
    if entry_size is None:
        return None
    return entry_size if long else -entry_size


def _towards(signal: Signal, held: Holdings, wanted: Decimal, cap: Decimal | None) -> Trade | Nothing:
    delta = wanted - (held.book + held.in_flight)
    against = (signal.action is Action.BUY and delta < ZERO) or (
        signal.action is Action.SELL and delta > ZERO
    )
    if delta == ZERO or against:
        return Nothing(f"target={wanted:f} book={held.book:f} in_flight={held.in_flight:f}")
    quantity = abs(delta) if cap is None else min(abs(delta), cap)
    return _split(Side.BUY if delta > ZERO else Side.SELL, quantity, held)


def _buy_or_sell(
    signal: Signal, held: Holdings, entry_size: Decimal | None, *, sized_by_signal: bool
) -> Trade | Nothing | Misplaced:
    side = Side.BUY if signal.action is Action.BUY else Side.SELL
    if side is Side.SELL and held.book == ZERO and (misplaced := _misplaced(held)) is not None:
        return misplaced
    against = held.book * side.sign < ZERO
    if against and not sized_by_signal:
        quantity = abs(held.book)
        if signal.quantity is not None and signal.previous:
            quantity = min(quantity, quantity * signal.quantity / abs(signal.previous))
    elif entry_size is None:
        return Nothing("no size to trade")
    else:
        quantity = entry_size
    trade = _split(side, quantity, held)
    return trade if not _stays_on_side(signal, side) else _only_reducing(trade)


def _stays_on_side(signal: Signal, side: Side) -> bool:
    """A stated direction is a check: a sell that is to leave us long, or a buy short, never opens anything."""
    stated = {signal.market_position, signal.sentiment}
    return (Direction.LONG if side is Side.SELL else Direction.SHORT) in stated


def _only_reducing(trade: Trade) -> Trade | Nothing:
    if trade.reduces == ZERO:
        return Nothing("the stated position is on the other side")
    return Trade(trade.side, trade.reduces, ZERO)


def _split(side: Side, quantity: Decimal, held: Holdings) -> Trade:
    opposite = max(ZERO, -held.book * side.sign)
    reduces = min(quantity, opposite)
    return Trade(side, reduces, quantity - reduces)
