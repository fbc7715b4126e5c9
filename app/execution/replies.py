"""What the broker said, written into the ledger: replies to a send, looks at an order, its fills.

Each function is part of one writer operation. A reply decides nothing beyond what it proves; whatever is not
a proven refusal or our own order coming back is AMBIGUOUS.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec
import structlog

from app.brokers.base import (
    Account,
    BrokerOrder,
    DuplicateId,
    Fill,
    Placed,
    Refused,
    SubmitReply,
    Throttled,
    Unknown,
    Unsent,
)
from app.domain.freshness import MAX_SKEW
from app.domain.order import OrdStatus, State
from app.domain.risk import TradingState
from app.execution import continuation, resend
from app.execution.ruling import BROKER, trading_state
from app.ledger import orders
from app.ledger.orders import BookedFill, Order
from app.ledger.transaction import LostUpdate, Transaction

log = structlog.get_logger(__name__)


def record_reply(tx: Transaction, order_id: int, attempt_id: int, reply: SubmitReply, now: int) -> Order:
    """Closes the attempt and moves the order to what the reply proves."""
    bytes_left = 0 if isinstance(reply, Unsent | Throttled) else 1
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
            if resend.had_left_before(tx, order.id, attempt_id):
                # A refusal is about the try that it answers: one before it may have got there, and may be
                # the very reason (facts/brokers-and-reconciliation.md 4.4).
                return orders.move(tx, order, State.AMBIGUOUS, at=now, actor=actor, reason=reason)
            status = OrdStatus.REJECTED.value
            return orders.move(
                tx, order, State.NOT_PLACED, at=now, actor=actor, reason=reason, ord_status=status
            )
        case DuplicateId(detail=detail):
            if resend.had_left_before(tx, order.id, attempt_id):
                # A try before this one got there after all: the broker shows which order it has (HOLES H27).
                reason = f"EXISTS the broker knows this id from an earlier try {detail}".strip()
                return orders.move(tx, order, State.AMBIGUOUS, at=now, actor=actor, reason=reason)
            # No byte of this id ever left before: the order that the broker has is not this one (HOLES H12).
            reason = f"COLLISION the broker knows this id already {detail}".strip()
            return orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor=actor, reason=reason)
        case Unsent(reason=reason) | Throttled(detail=reason):
            to, text = _after_unsent(tx, order, reason)
            if to is State.DENIED and resend.is_resend(tx, order):
                to = State.NOT_PLACED
            return orders.move(tx, order, to, at=now, actor=actor, reason=text, ord_status=None)
        case Unknown(detail=detail):
            return orders.move(
                tx, order, State.AMBIGUOUS, at=now, actor=actor, reason=f"REPLY_UNKNOWN {detail}"
            )


def _after_unsent(tx: Transaction, order: Order, reason: str) -> tuple[State, str]:
    """Nothing left, so nothing is in doubt: held back for good, cancelled meanwhile, or to be tried again.

    An order that turns a position goes back to the gate, which keeps the half that closes.
    """
    proved = "proved_unsent=yes"
    if order.cancel_requested:
        return State.DENIED, f"{resend.canceled_by(tx, order)} {proved}"
    if not reason.startswith(("TRADING_HALTED", "STALE")):
        return State.PENDING, f"{BROKER} {proved} {reason}"
    assert order.side is not None
    closes = orders.book(tx, order) * order.side.sign < 0
    if closes and trading_state(tx) is not TradingState.HALTED:
        return State.PENDING, f"{BROKER} {proved} {reason}"
    return State.DENIED, f"{reason} {proved}"


def place(tx: Transaction, order: Order, placed: BrokerOrder, now: int, *, actor: str) -> Order:
    """Adopts an order found at the broker, if it is ours in every term; else it is a person's."""
    differs = differing_terms(tx, order, placed)
    if differs:
        reason = f"COLLISION the broker's order differs in {' '.join(differs)}"
        if order.state in (State.NEEDS_OPERATOR, State.NOT_PLACED):
            orders.note(tx, order, at=now, reason=reason)
            return orders.get(tx, order.id)
        return orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor=actor, reason=reason)
    return adopt(tx, order, placed, now, actor=actor)


def adopt(tx: Transaction, order: Order, placed: BrokerOrder, now: int, *, actor: str) -> Order:
    """The broker's order is this one: WORKING, its fills yet to be booked."""
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


def is_news(order: Order, seen: BrokerOrder) -> bool:
    """Whether a look at a WORKING order shows anything that its row does not say."""
    return (
        seen.status.is_terminal
        or seen.status is not order.ord_status
        or seen.filled_quantity != order.filled_quantity
    )


def merge(tx: Transaction, order: Order, seen: BrokerOrder, fills: Iterable[Fill], now: int) -> Order:
    """Brings an order up to what a look showed: fills first, then its status, and DONE when both agree.

    Fills that come after DONE are booked all the same; an exit behind it that asked for all goes on.
    """
    before, order = order, _merge(tx, order, seen, fills, now)
    _go_on(tx, before, order, now)
    return order


def _merge(tx: Transaction, order: Order, seen: BrokerOrder, fills: Iterable[Fill], now: int) -> Order:
    actor = f"broker:{order.account}"
    if order.state in (State.SUBMITTING, State.AMBIGUOUS, State.NEEDS_OPERATOR, State.NOT_PLACED):
        order = place(tx, order, seen, now, actor=actor)
    if order.state not in (State.WORKING, State.DONE):
        return order
    order = _book_fills(tx, order, fills, now)
    if order.filled_quantity != seen.filled_quantity:
        return order
    if order.state is State.WORKING and seen.status.is_terminal:
        detail = {"filled": orders.plain(order.filled_quantity)}
        status, reason = seen.status.value, _overfill(order)
        return orders.move(
            tx, order, State.DONE, at=now, actor=actor, reason=reason, detail=detail, ord_status=status
        )
    if seen.status is not order.ord_status:
        orders.note(tx, order, at=now, ord_status=seen.status.value)
    return orders.get(tx, order.id)


def book_fills(tx: Transaction, order: Order, fills: Iterable[Fill], now: int) -> Order:
    """The same for fills alone."""
    before, order = order, _book_fills(tx, order, fills, now)
    _go_on(tx, before, order, now)
    return order


def _go_on(tx: Transaction, before: Order, order: Order, now: int) -> None:
    """Only what is new of an order sets an exit going: fills overlap, and a look says much that is known."""
    if (order.state, order.filled_quantity) != (before.state, before.filled_quantity):
        continuation.go_on(tx, order, now)


def _book_fills(tx: Transaction, order: Order, fills: Iterable[Fill], now: int) -> Order:
    """Books what is new of an order's fills; one that was called canceled and fills after all is Filled."""
    booked = [BookedFill(fill.exec_id, fill.quantity, fill.price, fill.fee, fill.at) for fill in fills]
    before = order.filled_quantity
    order = orders.add_fills(tx, order, booked, at=now)
    if order.state is State.DONE and order.quantity is not None and order.filled_quantity >= order.quantity:
        orders.note(tx, order, at=now, ord_status=OrdStatus.FILLED.value)
    overfill = _overfill(order)
    if overfill is not None and order.filled_quantity > before:
        orders.note(tx, order, at=now, reason=overfill)
        detail = {"order": order.name, "filled": orders.plain(order.filled_quantity), "severity": "critical"}
        # Under the account's name, where Needs you looks for it without reading every order.
        tx.event(now, f"broker:{order.account}", "overfilled", order.account, detail)
        log.critical("the broker filled more than was ordered", order=order.name, reason=overfill)
    return orders.get(tx, order.id)


def _overfill(order: Order) -> str | None:
    """Words for an order that was filled beyond its quantity: booked as it is, and never without a word."""
    if order.quantity is None or order.filled_quantity <= order.quantity:
        return None
    filled, ordered = orders.plain(order.filled_quantity), orders.plain(order.quantity)
    return f"OVERFILLED the broker filled {filled} of {ordered} ordered"


def record_absence(
    tx: Transaction, order_id: int, identity: str, now: int, *, proof: str, detail: str = ""
) -> Order:
    """The order is proved absent: NOT_PLACED, with the look that proves it. Raises LostUpdate."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    add_evidence(tx, order_id, identity, now, look=proof, result="absent", detail=detail)
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


def sent_elsewhere(tx: Transaction, order: Order, account: Account) -> str | None:
    """Where the order went, if that is not this account: then no look from here is evidence (HOLES H13)."""
    row = tx.one(
        "SELECT identity, endpoint FROM attempts WHERE order_id = ? ORDER BY number DESC LIMIT 1", (order.id,)
    )
    if row is None or tuple(row) == (account.identity, account.endpoint):
        return None
    return f"OTHER_ACCOUNT sent_to={row[0]} at={row[1]} session={account.identity} at={account.endpoint}"


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


def differing_terms(tx: Transaction, order: Order, placed: BrokerOrder) -> list[str]:
    """Names of what keeps the broker's order from being this one; empty where nothing does."""
    pairs: dict[str, tuple[object, object]] = {
        "client_order_id": (order.client_order_id, placed.client_order_id),
        "symbol": (order.instrument, placed.instrument),
        "side": (order.side, placed.side),
        "quantity": (order.quantity, placed.quantity),
    }
    differs = [name for name, (ours, theirs) in pairs.items() if ours != theirs]
    taken = "SELECT 1 FROM orders WHERE account = ? AND broker_order_id = ? AND id <> ?"
    if tx.one(taken, (order.account, placed.broker_order_id, order.id)):
        differs.append("broker_order_id")
    # What was there before we sent it is another's, whatever it looks like (HOLES H12).
    first = tx.one("SELECT min(at) FROM attempts WHERE order_id = ?", (order.id,))
    if first is not None and first[0] is not None and placed.created_at < first[0] - MAX_SKEW:
        differs.append("created_at")
    return differs


def _describe(reply: SubmitReply) -> str:
    return f"{type(reply).__name__} {msgspec.json.encode(reply, enc_hook=_encode).decode()}"


def _encode(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    raise TypeError(f"cannot write {type(value).__name__}")
