"""AMBIGUOUS orders: ask the broker, and believe only looks that came back complete.

Never sends anything. A failed look is evidence of nothing; what the looks cannot prove stays AMBIGUOUS.
"""

from __future__ import annotations

from app.brokers.base import Broker, BrokerOrder, Fill, LookupFailed
from app.clock import Clock
from app.domain.order import State
from app.execution import replies
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer


async def resolve(writer: Writer, broker: Broker, identity: str, clock: Clock, order: Order) -> Order:
    """Looks an AMBIGUOUS order up once and moves it as far as that look proves. Raises LookupFailed."""
    assert order.client_order_id is not None
    cid = order.client_order_id
    attempt = await writer.run(lambda tx: _last_attempt(tx, order.id))
    if attempt is not None and attempt != identity:
        return await writer.run(lambda tx: _other_account(tx, order, identity, attempt, clock.now()))
    try:
        seen = await broker.find(cid)
        fills = await broker.fills(cid)
        complete = await broker.snapshot(order.created_at) if seen is None else None
    except LookupFailed as error:
        detail = str(error)
        await writer.run(
            lambda tx: replies.add_evidence(
                tx,
                order.id,
                identity,
                clock.now(),
                look="by id, open orders, fills",
                result="failed",
                detail=detail,
            )
        )
        raise
    if seen is not None:
        return await writer.run(lambda tx: _found(tx, order, identity, seen, fills, clock.now()))
    assert complete is not None
    traces = [other for other in complete.open_orders if other.client_order_id == cid]
    traces_of_fills = [fill for fill in complete.fills if fill.client_order_id == cid]
    if traces or traces_of_fills or fills or not broker.facts.absence_is_immediate:
        return order
    return await writer.run(
        lambda tx: replies.record_absence(
            tx, order.id, identity, clock.now(), proof="one complete look: by id, open orders, fills"
        )
    )


def _found(
    tx: Transaction, order: Order, identity: str, seen: BrokerOrder, fills: list[Fill], now: int
) -> Order:
    replies.add_evidence(
        tx, order.id, identity, now, look="by id", result="found", detail=seen.broker_order_id
    )
    return replies.merge(tx, orders.get(tx, order.id), seen, fills, now)


def _other_account(tx: Transaction, order: Order, identity: str, sent_to: str, now: int) -> Order:
    """Looks made under another account are no evidence (HOLES H13): only a person can go on."""
    current = orders.get(tx, order.id)
    if current.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {current.state}, not AMBIGUOUS")
    reason = f"OTHER_ACCOUNT sent to {sent_to}, the session is {identity}"
    return orders.move(tx, current, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)


def _last_attempt(tx: Transaction, order_id: int) -> str | None:
    row = tx.one("SELECT identity FROM attempts WHERE order_id = ? ORDER BY number DESC LIMIT 1", (order_id,))
    return None if row is None else str(row[0])
