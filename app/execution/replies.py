"""What the broker said, written into the ledger: replies to a send, looks at an order, its fills.

Each function is one writer operation. A reply decides nothing beyond what it proves; whatever is not a
proven refusal or our own order coming back is AMBIGUOUS.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec

from app.brokers.base import (
    BrokerOrder,
    DuplicateId,
    Fill,
    Placed,
    Refused,
    SubmitReply,
    Unknown,
    Unsent,
)
from app.domain.order import OrdStatus, State
from app.ledger import orders
from app.ledger.orders import BookedFill, Order
from app.ledger.transaction import LostUpdate, Transaction


def record_reply(tx: Transaction, order_id: int, attempt_id: int, reply: SubmitReply, now: int) -> Order:
    """Closes the attempt and moves the order to what the reply proves."""
    bytes_left = 0 if isinstance(reply, Unsent) else 1
    tx.change(
        "attempts",
        "UPDATE attempts SET ended_at = ?, bytes_left = ?, reply = ? WHERE id = ? AND ended_at IS NULL",
        (now, bytes_left, _describe(reply), attempt_id),
    )
    order = orders.get(tx, order_id)
    if order.state is not State.SUBMITTING:
        # A look at the broker was quicker and has settled it: merge, never fight (HOLES H34).
        return merge(tx, order, reply.order, (), now) if isinstance(reply, Placed) else order
    actor = f"broker:{order.account}"
    match reply:
        case Placed(order=placed):
            return place(tx, order, placed, now, actor=actor)
        case Refused(code=code, detail=detail):
            reason = f"REFUSED {code} {detail}".strip()
            status = OrdStatus.REJECTED.value
            return orders.move(
                tx, order, State.NOT_PLACED, at=now, actor=actor, reason=reason, ord_status=status
            )
        case DuplicateId(detail=detail):
            # The first attempt of an id that the broker has seen before: that order is not ours (HOLES H12).
            reason = f"COLLISION the broker knows this id already {detail}".strip()
            return orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor=actor, reason=reason)
        case Unsent(reason=reason):
            held_back = reason.startswith(("TRADING_HALTED", "STALE"))
            to = State.DENIED if held_back else State.PENDING
            text = f"{reason} proved_unsent=yes"
            return orders.move(tx, order, to, at=now, actor=actor, reason=text, ord_status=None)
        case Unknown(detail=detail):
            return orders.move(
                tx, order, State.AMBIGUOUS, at=now, actor=actor, reason=f"REPLY_UNKNOWN {detail}"
            )


def place(tx: Transaction, order: Order, placed: BrokerOrder, now: int, *, actor: str) -> Order:
    """Adopts an order found at the broker, if it is ours in every term; else it goes to a person."""
    differs = _differing_terms(order, placed)
    if not differs:
        taken = tx.one(
            "SELECT id FROM orders WHERE account = ? AND broker_order_id = ? AND id <> ?",
            (order.account, placed.broker_order_id, order.id),
        )
        differs = ["broker_order_id"] if taken else []
    if differs:
        reason = f"COLLISION the broker's order differs in {' '.join(differs)}"
        if order.state is State.NEEDS_OPERATOR:
            orders.note(tx, order, at=now, reason=reason)
            return orders.get(tx, order.id)
        return orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor=actor, reason=reason)
    return orders.move(
        tx,
        order,
        State.WORKING,
        at=now,
        actor=actor,
        detail={"broker_order_id": placed.broker_order_id},
        broker_order_id=placed.broker_order_id,
        ord_status=_while_open(placed.status).value,
    )


def merge(tx: Transaction, order: Order, seen: BrokerOrder, fills: Sequence[Fill], now: int) -> Order:
    """Brings an order up to what a look showed: fills first, then its status, and DONE when both agree.

    Fills that come after DONE are booked all the same.
    """
    actor = f"broker:{order.account}"
    if order.state in (State.SUBMITTING, State.AMBIGUOUS, State.NEEDS_OPERATOR, State.NOT_PLACED):
        order = place(tx, order, seen, now, actor=actor)
    if order.state not in (State.WORKING, State.DONE):
        return order
    booked = [BookedFill(fill.exec_id, fill.quantity, fill.price, fill.fee, fill.at) for fill in fills]
    order = orders.add_fills(tx, order, booked, at=now)
    complete = order.filled_quantity == seen.filled_quantity
    if order.state is State.WORKING and seen.status.is_terminal and complete:
        detail = {"filled": orders.plain(order.filled_quantity)}
        return orders.move(
            tx,
            order,
            State.DONE,
            at=now,
            actor=actor,
            reason=None,
            detail=detail,
            ord_status=seen.status.value,
        )
    status = seen.status if order.state is State.DONE else _while_open(seen.status)
    if complete and status is not order.ord_status:
        orders.note(tx, order, at=now, ord_status=status.value)
    return orders.get(tx, order.id)


def record_absence(tx: Transaction, order_id: int, identity: str, now: int, *, proof: str) -> Order:
    """The order is proved absent: NOT_PLACED, with the look that proves it. Raises LostUpdate."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    add_evidence(tx, order_id, identity, now, look=proof, result="absent")
    return orders.move(
        tx,
        order,
        State.NOT_PLACED,
        at=now,
        actor="resolver",
        reason="CONFIRMED_ABSENT",
        ord_status=None,
        detail={"proof": proof},
    )


def add_evidence(
    tx: Transaction, order_id: int, identity: str, now: int, *, look: str, result: str, detail: str = ""
) -> None:
    """One look at the broker; `result` is found, absent or failed, and failed proves nothing."""
    names = ("order_id", "at", "identity", "look", "result", "detail")
    values = (order_id, now, identity, look, result, detail)
    tx.insert("evidence", dict(zip(names, values, strict=True)))


def _while_open(status: OrdStatus) -> OrdStatus:
    """A terminal word is shown only with its fills booked; until then the order counts as working."""
    return OrdStatus.NEW if status.is_terminal else status


def _differing_terms(order: Order, placed: BrokerOrder) -> list[str]:
    pairs: dict[str, tuple[object, object]] = {
        "client_order_id": (order.client_order_id, placed.client_order_id),
        "symbol": (order.instrument, placed.instrument),
        "side": (order.side, placed.side),
        "quantity": (order.quantity, placed.quantity),
    }
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]


def _describe(reply: SubmitReply) -> str:
    return f"{type(reply).__name__} {msgspec.json.encode(reply, enc_hook=_encode).decode()}"


def _encode(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    raise TypeError(f"cannot write {type(value).__name__}")
