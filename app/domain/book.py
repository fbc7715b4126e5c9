"""Our own position: what an alert means against the book it acts on.

Pure. A book is the net of our own fills and adjustments per account, instrument, source and strategy; no
order is ever sized from anything else, and never from the account's whole position (HOLES H2).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

from app.domain.number import plain
from app.domain.risk import Denial, denial
from app.domain.signal import Action, Direction, Side, Signal
from app.domain.sizing import WIDE, round_down

ZERO = Decimal(0)
_OWN_SIDE = {Action.BUY: Side.BUY, Action.SELL: Side.SELL}


@dataclass(frozen=True, slots=True)
class Holdings:
    """What is held when an order is decided, in units of the instrument.

    `book`, our own net, `broker_position`, what the broker holds altogether, and `other_books`, the nets of
    our other books on this account and instrument, are signed. `buys` and `sells` are what this book's own
    working orders may still fill; neither is below zero.
    """

    book: Decimal
    broker_position: Decimal
    buys: Decimal = ZERO
    sells: Decimal = ZERO
    other_books: tuple[Decimal, ...] = ()

    @property
    def effective(self) -> Decimal:
        """The book once everything in flight has filled."""
        return self.book + self.buys - self.sells

    @property
    def closable(self) -> Decimal:
        """What of the book no order in flight closes already."""
        return max(ZERO, abs(self.book) - (self.sells if self.book > ZERO else self.buys))

    @property
    def at_broker(self) -> Decimal:
        """What the broker holds on the book's side; another's position may hide it."""
        return max(ZERO, self.broker_position if self.book > ZERO else -self.broker_position)


@dataclass(frozen=True, slots=True)
class Trade:
    """What is to be sent: `reduces` of it closes our book, `opens` of it opens or adds; both from zero up."""

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


Plan = Trade | Nothing | Denial


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


def plan(signal: Signal, held: Holdings, entry_size: Decimal, *, sized_by_signal: bool) -> Plan:
    """The order that a signal asks for, from our own book (CONTRACT 3, 'What an alert means').

    `entry_size` is what an entry would be by the account's sizing: the signal's own quantity where
    `sized_by_signal`, else what the account says. A Trade of quantity zero is an entry without a size.
    """
    with localcontext(WIDE):
        return _plan(signal, held, entry_size, sized_by_signal=sized_by_signal)


def _plan(signal: Signal, held: Holdings, entry_size: Decimal, *, sized_by_signal: bool) -> Plan:
    reverses = signal.action is Action.REVERSE
    elsewhere = open_elsewhere(held)
    if elsewhere and (reverses or reads_as_exit(signal, held.book)):
        return denial("OTHER_BOOK_OPEN", **elsewhere)
    if signal.action is Action.EXIT or signal.reduce_only or signal.target == ZERO:
        return _close(signal, held, sized_by_signal=sized_by_signal)
    if signal.target is not None:
        if sized_by_signal:
            return _towards(signal, held, signal.target, cap=signal.quantity)
        return _long_or_short(signal, held, entry_size, long=signal.target > ZERO)
    if reverses:
        if held.book == ZERO:
            return Nothing("there is nothing to reverse")
        mirrored = sized_by_signal and signal.quantity is None
        size = abs(held.book) if mirrored else entry_size
        return _towards(signal, held, size if held.book < ZERO else -size, cap=None)
    return _buy_or_sell(signal, held, entry_size, sized_by_signal=sized_by_signal)


def open_elsewhere(held: Holdings) -> dict[str, str]:
    """What is open on the instrument beside our own empty book, as numbers of a denial."""
    if held.book != ZERO:
        return {}
    others = [other for other in held.other_books if other != ZERO]
    if others:
        return {"other_books": ",".join(plain(other) for other in others)}
    if held.broker_position != ZERO:
        return {"broker_position": plain(held.broker_position)}
    return {}


# ------------------------------------------------------------------------------------------- closing


def _close(signal: Signal, held: Holdings, *, sized_by_signal: bool) -> Plan:
    """Closes what the signal names of the book, never more than the broker holds on that side."""
    if held.book == ZERO:
        return Nothing("the book is flat")
    if not _may_close(signal, held.book):
        return Nothing(f"the book is on the other side book={held.book:f}")
    quantity = _share(signal, held, sized_by_signal=sized_by_signal)
    return _trade(_closing_side(held.book), quantity, held) if quantity else Nothing("less than one step")


def _may_close(signal: Signal, book: Decimal) -> bool:
    """An exit names the direction that it closes, by what was held before or by its own side (HOLES H3)."""
    if _OWN_SIDE.get(signal.action) not in (None, _closing_side(book)):
        return False
    if signal.prev_market_position not in (Direction.LONG, Direction.SHORT):
        return True
    return (signal.prev_market_position is Direction.LONG) == (book > ZERO)


def _closing_side(book: Decimal) -> Side:
    return Side.SELL if book > ZERO else Side.BUY


def _share(signal: Signal, held: Holdings, *, sized_by_signal: bool) -> Decimal:
    """How much of the book an order against it closes.

    The account's sizing makes the sender's units and ours different ones: only the stated fraction counts.
    """
    whole = abs(held.book)
    if signal.target == ZERO:
        return whole
    if not sized_by_signal:
        part = _stated_part(signal, whole)
        return whole if part is None else part
    quantity = whole if signal.quantity is None else min(whole, signal.quantity)
    if signal.target is not None and signal.target * held.book > ZERO:
        quantity = min(quantity, max(ZERO, whole - abs(signal.target)))
    return quantity


def _stated_part(signal: Signal, whole: Decimal) -> Decimal | None:
    """The part of `whole` that the sender closes of its own position; None where its numbers do not say."""
    target, quantity, previous = signal.target, signal.quantity, signal.previous
    side = _OWN_SIDE.get(signal.action)
    if previous is None and target is not None and quantity is not None and side is not None:
        previous = target - side.sign * quantity
    if not previous:
        return None
    if target is not None:
        closed = previous - target if target * previous > ZERO else previous
    elif quantity is not None:
        closed = quantity.copy_sign(previous)
    else:
        return None
    if closed * previous <= ZERO:
        return None
    return whole if abs(closed) >= abs(previous) else round_down(whole * closed / previous)


# ------------------------------------------------------------------------------------------- opening


def _long_or_short(signal: Signal, held: Holdings, entry_size: Decimal, *, long: bool) -> Plan:
    """Where the account sizes entries, a target says only long or short, or how much nearer to zero."""
    effective = held.effective
    if effective == ZERO or (effective > ZERO) is not long:
        return _towards(signal, held, entry_size if long else -entry_size, cap=None)
    if held.book * effective > ZERO and _may_close(signal, held.book):
        part = _stated_part(signal, abs(held.book))
        if part:
            return _trade(_closing_side(held.book), part, held)
    return Nothing(f"already {'long' if long else 'short'} book={held.book:f}")


def _towards(signal: Signal, held: Holdings, wanted: Decimal, cap: Decimal | None) -> Plan:
    """The order that brings the book to `wanted`: never beyond it, never against the action."""
    delta = wanted - held.effective
    side = Side.BUY if delta > ZERO else Side.SELL
    if delta == ZERO or _OWN_SIDE.get(signal.action) not in (None, side):
        if wanted == ZERO and held.effective == ZERO:  # an entry that rounds to nothing has a limit to say so
            return Trade(_OWN_SIDE.get(signal.action, side), ZERO, ZERO)
        return Nothing(
            f"target={wanted:f} book={held.book:f} in_flight={held.effective - held.book:f} is reached"
            if delta == ZERO
            else f"target={wanted:f} book={held.book:f} lies against the action"
        )
    return _trade(side, abs(delta) if cap is None else min(abs(delta), cap), held)


def _buy_or_sell(signal: Signal, held: Holdings, entry_size: Decimal, *, sized_by_signal: bool) -> Plan:
    side = _OWN_SIDE[signal.action]
    if held.book * side.sign < ZERO and not sized_by_signal:
        quantity = _share(signal, held, sized_by_signal=False)
        return _trade(side, quantity, held) if quantity else Nothing("less than one step")
    planned = _trade(side, entry_size, held)
    if isinstance(planned, Trade) and planned.opens and _stays_on_other_side(signal, side):
        if planned.reduces == ZERO:
            return Nothing("the stated position is on the other side")
        return Trade(side, planned.reduces, ZERO)
    return planned


def _stays_on_other_side(signal: Signal, side: Side) -> bool:
    """A stated direction is a check: a sell that is to leave us long, or a buy short, opens nothing."""
    stated = {signal.market_position, signal.sentiment}
    return (Direction.LONG if side is Side.SELL else Direction.SHORT) in stated


def _trade(side: Side, quantity: Decimal, held: Holdings) -> Plan:
    """Splits a quantity into what closes the book and what opens.

    No more is closed than no order in flight closes already, and than the broker holds on that side; where
    that is less than it should be, the books disagree, and nothing is opened on top of it (HOLES H2).
    """
    against = abs(held.book) if held.book * side.sign < ZERO else ZERO
    closes = min(quantity, against)
    if closes == ZERO:
        return Trade(side, ZERO, quantity)
    reduces = min(closes, held.closable, held.at_broker)
    if reduces == ZERO:
        if held.closable == ZERO:
            return Nothing(f"orders in flight close the book already book={held.book:f}")
        return denial("DRIFT", book=held.book, broker_position=held.broker_position)
    return Trade(side, reduces, quantity - closes if reduces == closes else ZERO)
