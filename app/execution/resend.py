"""An order that goes out again by a person's word: the same id and the very same terms, or not at all.

Its first try may be at the broker after all, and then the id is what keeps a second order out (HOLES H27). So
such an order is never changed, and ends as NOT_PLACED, where the ghost watch still looks for it.
"""

from __future__ import annotations

from decimal import Decimal

from app.domain.book import Holdings, Plan, Trade
from app.domain.order import UNRESOLVED, State
from app.domain.risk import denial
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
_MAY_BE_THERE = UNRESOLVED | {State.WORKING}


def is_resend(tx: Transaction, order: Order) -> bool:
    """Whether a byte of the order may have left already: what was proved unsent never counts."""
    sql = "SELECT 1 FROM attempts WHERE order_id = ? AND coalesce(bytes_left, 1) = 1 LIMIT 1"
    return order.client_order_id is not None and tx.one(sql, (order.id,)) is not None


def had_left_before(tx: Transaction, order_id: int, attempt_id: int) -> bool:
    """Whether an attempt before this one may have got to the broker under the same id."""
    sql = "SELECT 1 FROM attempts WHERE order_id = ? AND id < ? AND coalesce(bytes_left, 1) = 1 LIMIT 1"
    return tx.one(sql, (order_id, attempt_id)) is not None


def as_before(order: Order, planned: Plan, held: Holdings) -> Plan:
    """The first try's terms, where today's plan still allows them: an exit may not have become larger than
    what there is to close, and nothing may turn from closing into opening."""
    if not isinstance(planned, Trade):
        return planned
    assert order.side is not None
    assert order.quantity is not None
    against = abs(held.book) if held.book * order.side.sign < ZERO else ZERO
    reduces = min(order.quantity, against)
    opens = order.quantity - reduces
    fits = order.side is planned.side and reduces <= planned.reduces
    if not fits or (opens > ZERO and planned.opens == ZERO):
        return terms_changed(order, planned)
    return Trade(order.side, reduces, opens)


def terms_changed(order: Order, planned: Trade) -> Plan:
    then = f"{order.side}:{orders.plain(order.quantity or ZERO)}"
    return denial("TERMS_CHANGED", then=then, now=f"{planned.side}:{orders.plain(planned.quantity)}")


def end(tx: Transaction, order: Order, to: State, reason: str, *, at: int, actor: str) -> Order:
    """Ends a PENDING order unsent. One that goes out again was called absent before, and is so again."""
    if not is_resend(tx, order):
        return orders.move(tx, order, to, at=at, actor=actor, reason=reason)
    # The table has no way from PENDING to NOT_PLACED; this is the one that it has, in one transaction.
    detail = {"resend": "not sent", "instead_of": to.value}
    order = orders.move(tx, order, State.SUBMITTING, at=at, actor=actor, reason=reason, detail=detail)
    return orders.move(tx, order, State.NOT_PLACED, at=at, actor=actor, reason=reason, detail=detail)


CANCEL_ASKED = "cancel asked"
"""The event of a person's cancel; a signal's has none of its own."""


def canceled_by(tx: Transaction, order: Order) -> str:
    """Who asked for the cancel of an order that bears the wish for one."""
    sql = "SELECT 1 FROM events WHERE subject = ? AND what = ? LIMIT 1"
    asked = tx.one(sql, (order.name, CANCEL_ASKED))
    return "CANCELED_BY_SIGNAL" if asked is None else "CANCELED_BY_OPERATOR"


def another_generation(tx: Transaction, order: Order) -> Order | None:
    """Another generation of the leg that is, may be, or was at the broker: beside it nothing goes out."""
    if order.generation == 1 and not _has_successor(tx, order):
        return None
    others = "claim_id = ? AND account = ? AND leg = ? AND id <> ?"
    found = orders.where(tx, others, (order.claim_id, order.account, order.leg, order.id))
    return next((o for o in found if o.state in _MAY_BE_THERE or o.filled_quantity > ZERO), None)


def _has_successor(tx: Transaction, order: Order) -> bool:
    sql = "SELECT 1 FROM orders WHERE claim_id = ? AND account = ? AND leg = ? AND generation > ?"
    return tx.one(sql, (order.claim_id, order.account, order.leg, order.generation)) is not None
