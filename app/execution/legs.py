"""A turn in two legs, where the broker takes no position through zero in one order (HOLES H6).

The first leg closes. The second, made in the same transaction, opens: only once the first has filled whole
and the book is flat, only while the signal is fresh, and never by itself when something came between.
"""

from __future__ import annotations

from app.domain.book import Holdings, Plan, Trade
from app.domain.order import OrdStatus, State
from app.domain.risk import Denial, denial
from app.domain.sizing import ZERO
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction


def opens_behind_a_close(order: Order) -> bool:
    """Whether the order is the second leg of a turn: what it opens was decided with the first."""
    return order.leg > 1 and order.purpose == "entry" and order.quantity is not None


def split(tx: Transaction, order: Order, trade: Trade, now: int) -> Trade:
    """The closing leg of a turn; the opening one is put behind it."""
    prices = {"limit_price": order.limit_price, "stop_price": order.stop_price}
    copied = ("claim_id", "account", "instrument", "source_id", "strategy", "action", "not_after")
    newest = tx.one(
        "SELECT coalesce(max(generation), 0) FROM orders WHERE claim_id = ? AND account = ? AND leg = ?",
        (order.claim_id, order.account, order.leg + 1),
    )
    made = tx.insert(
        "orders",
        {
            **{name: getattr(order, name) for name in copied},
            **{name: None if price is None else plain(price) for name, price in prices.items()},
            "leg": order.leg + 1,
            "generation": 1 + (newest[0] if newest else 0),
            "purpose": "entry",
            "side": trade.side.value,
            "quantity": plain(trade.opens),
            "type": order.type.value,
            "tif": None if order.tif is None else order.tif.value,
            "state": State.PENDING.value,
            "created_at": now,
            "updated_at": now,
        },
    )
    detail = {"closes": order.name, "reduces": plain(trade.reduces), "opens": plain(trade.opens)}
    tx.event(now, "worker", "turn in two legs", f"O{made}", detail)
    return Trade(trade.side, trade.reduces, ZERO)


def leg_before(tx: Transaction, order: Order) -> Order | None:
    """The newest generation of the leg before this one."""
    found = orders.where(
        tx, "claim_id = ? AND account = ? AND leg = ?", (order.claim_id, order.account, order.leg - 1)
    )
    return max(found, key=lambda one: one.generation, default=None)


def broken(before: Order | None) -> Denial | None:
    """Why the second leg must not go out any more: the first is over and did not fill whole."""
    if before is None or before.state not in (State.DENIED, State.NOT_PLACED, State.DONE):
        return None
    if before.state is State.DONE and before.ord_status is OrdStatus.FILLED:
        return None
    return denial("CLOSING_LEG_NOT_DONE", order=before.name, state=before.state.value)


def plan_opening(order: Order, held: Holdings) -> Plan:
    """What was decided with the first leg, if the book is as it was to be then."""
    assert order.side is not None
    assert order.quantity is not None
    if held.book != ZERO or held.buys or held.sells:
        return denial("BOOK_NOT_FLAT", book=held.book, in_flight=held.effective - held.book)
    return Trade(order.side, ZERO, order.quantity)
