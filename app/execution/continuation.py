"""Exits that asked for all and did not get all: late fills of what came before them go out by a next leg.
What came after the exit, by an order or by a person's hand, is never its to close.

One exit makes at most three legs; what is left in the book then, or cannot be told from what came later, is
a person's. Decides inside the transaction that booked the fill, so that no fill falls between (HOLES H1, H4).
"""

from __future__ import annotations

from decimal import Decimal

from app.domain.order import TERMINAL, UNRESOLVED, OrdStatus, State
from app.domain.signal import Action, OrderType, Signal
from app.domain.sizing import WIDE, ZERO, at_least_a_step
from app.execution import exposure
from app.execution.ruling import claim_of
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction

MOST_LEGS = 3
ACTOR = "worker"


def go_on(tx: Transaction, order: Order, now: int) -> None:
    """Called after an order was placed, filled or ended: the exit behind it goes on where it has to."""
    if order.purpose not in ("entry", "exit"):
        return
    exit_ = _newest_exit_done(tx, order)
    if exit_ is None or exit_.claim_id < order.claim_id or not _asked_for_all(tx, exit_):
        return
    book, adjusted = orders.book(tx, exit_), _adjusted_later(tx, exit_)
    before = WIDE.subtract(book, WIDE.add(_filled_later(tx, exit_), adjusted))
    left = at_least_a_step(book) if at_least_a_step(before) else ZERO
    if left == ZERO and not _entries_found_open(tx, exit_):
        return
    if exposure.of_book(tx, exit_, "purpose = 'exit'"):
        return  # whatever that one finds to close, its own end is looked at again
    legs = orders.where(tx, "claim_id = ? AND account = ?", (exit_.claim_id, exit_.account))
    newest = {other.leg: other for other in legs}
    if any(other.state is not State.DONE for other in newest.values()):
        return  # a leg that failed stands in "Needs you" already
    later = _came_later(tx, exit_) or (f"adjusted={plain(adjusted)}" if adjusted else None)
    _next_leg(tx, exit_, 1 + max(newest), left, later, now)


def _next_leg(tx: Transaction, exit_: Order, leg: int, left: Decimal, later: str | None, now: int) -> None:
    copied = ("claim_id", "account", "instrument", "source_id", "strategy", "action")
    made = tx.insert(
        "orders",
        {
            **{name: getattr(exit_, name) for name in copied},
            "leg": leg,
            "generation": 1,
            "purpose": "exit",
            "type": exit_.type.value,
            "limit_price": None if exit_.limit_price is None else plain(exit_.limit_price),
            "stop_price": None if exit_.stop_price is None else plain(exit_.stop_price),
            "tif": None if exit_.tif is None else exit_.tif.value,
            "state": State.PENDING.value,
            "created_at": now,
            "updated_at": now,
        },
    )
    detail = {"after": exit_.name, "left": plain(left), "leg": leg}
    if later is None and leg <= MOST_LEGS:
        tx.event(now, ACTOR, "exit goes on", f"O{made}", detail)
        return
    tx.event(now, ACTOR, "exit left a rest", f"O{made}", detail)
    reason = f"EXIT_INCOMPLETE left={plain(left)} {later or f'legs={MOST_LEGS}'}"
    orders.move(tx, orders.get(tx, made), State.DENIED, at=now, actor=ACTOR, reason=reason)


def _newest_exit_done(tx: Transaction, order: Order) -> Order | None:
    # Word for word the condition of an index that is in the order of ids.
    row = tx.one(
        "SELECT id FROM orders WHERE account = ? AND instrument = ? AND source_id = ? AND strategy = ? "
        "AND purpose = 'exit' AND state = 'DONE' ORDER BY id DESC LIMIT 1",
        (order.account, order.instrument, order.source_id, order.strategy),
    )
    return None if row is None else orders.get(tx, row[0])


def _asked_for_all(tx: Transaction, exit_: Order) -> bool:
    """Whether all of the book was to go, and it was not stopped by somebody or by a price of its own.

    One that was cut to what the broker held goes on too: its next leg finds the rest, or says DRIFT (H2).
    """
    if not _names_all(claim_of(tx, exit_).signal):
        return False
    nothing = (exit_.reason or "").startswith("NOTHING_TO_DO")
    if nothing or exit_.ord_status is OrdStatus.FILLED:
        return True
    ended = exit_.ord_status in (OrdStatus.CANCELED, OrdStatus.EXPIRED)
    return ended and exit_.type is OrderType.MARKET and not exit_.cancel_requested


def _names_all(signal: Signal) -> bool:
    closes = signal.action is Action.EXIT or signal.reduce_only
    return signal.target == ZERO or (closes and signal.quantity is None and signal.target is None)


def _entries_found_open(tx: Transaction, exit_: Order) -> bool:
    """Entries before the exit that are at the broker after all: it would have cancelled them."""
    condition = "purpose = 'entry' AND state = 'WORKING' AND claim_id < ?"
    return any(other.leaves > ZERO for other in exposure.of_book(tx, exit_, condition, exit_.claim_id))


def _came_later(tx: Transaction, exit_: Order) -> str | None:
    """An entry that came after the exit and may have filled: what is in the book may be its own."""
    found = _later(tx, exit_, "purpose = 'entry'")
    return next((f"later_entry={other.name}" for other in found if _may_have_filled(other)), None)


def _filled_later(tx: Transaction, exit_: Order) -> Decimal:
    """What orders that were admitted after the exit made of the book, signed: not its to close (H3)."""
    total = ZERO
    for other in _later(tx, exit_, "side IS NOT NULL"):
        assert other.side is not None
        total = WIDE.add(total, other.filled_quantity * other.side.sign)
    return total


def _later(tx: Transaction, exit_: Order, condition: str) -> list[Order]:
    own = "account = ? AND instrument = ? AND source_id = ? AND strategy = ?"
    key = (exit_.account, exit_.instrument, exit_.source_id, exit_.strategy)
    return orders.where(tx, f"claim_id > ? AND {condition} AND {own}", (exit_.claim_id, *key))


def _adjusted_later(tx: Transaction, exit_: Order) -> Decimal:
    """What a person made of the book after the exit; he cannot while an order of the book is open."""
    rows = tx.execute(
        "SELECT quantity FROM adjustments WHERE account = ? AND instrument = ? AND source_id = ? "
        "AND strategy = ? AND at >= ?",
        (exit_.account, exit_.instrument, exit_.source_id, exit_.strategy, exit_.created_at),
    )
    total = ZERO
    for (quantity,) in rows:
        total = WIDE.add(total, Decimal(quantity))
    return total


def _may_have_filled(order: Order) -> bool:
    open_there = order.state in UNRESOLVED or order.state is State.WORKING
    return open_there or (order.state in TERMINAL and order.filled_quantity > ZERO)
