"""AMBIGUOUS orders: ask the broker, and believe only looks that came back complete.

Never sends anything. A failed look is evidence of nothing; what the looks cannot prove stays AMBIGUOUS.
"""

from __future__ import annotations

from app.brokers.base import Account, Broker, BrokerOrder, Fill, LookupFailed
from app.clock import Clock
from app.domain.order import State
from app.execution import replies
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

LOOK = "by id, open orders, fills"


async def resolve(writer: Writer, broker: Broker, account: Account, clock: Clock, order: Order) -> None:
    """Looks an AMBIGUOUS order up once and moves it as far as that look proves.

    `account` is who the session is. Raises LookupFailed, and LostUpdate where the order moved meanwhile.
    """
    assert order.client_order_id is not None
    if await writer.run(lambda tx: _goes_to_a_person(tx, order.id, account, clock.now())):
        return
    identity = account.identity
    try:
        seen = await broker.find(order.client_order_id)
        fills = await broker.fills(order.client_order_id)
        is_absent = seen is None and not fills and await _leaves_no_trace(broker, order)
    except LookupFailed as error:
        why = str(error)
        await writer.run(
            lambda tx: replies.add_evidence(
                tx, order.id, identity, clock.now(), look=LOOK, result="failed", detail=why
            )
        )
        raise
    if seen is not None:
        found = seen
        await writer.run(lambda tx: _found(tx, order.id, identity, found, fills, clock.now()))
    elif is_absent and broker.facts.absence_is_immediate:
        proof = f"one complete look: {LOOK}"
        await writer.run(lambda tx: replies.record_absence(tx, order.id, identity, clock.now(), proof=proof))


async def _leaves_no_trace(broker: Broker, order: Order) -> bool:
    complete = await broker.snapshot(order.created_at)
    named = {other.client_order_id for other in complete.open_orders}
    named |= {fill.client_order_id for fill in complete.fills}
    return order.client_order_id not in named


def _found(
    tx: Transaction, order_id: int, identity: str, seen: BrokerOrder, fills: list[Fill], now: int
) -> None:
    replies.add_evidence(
        tx, order_id, identity, now, look="by id", result="found", detail=seen.broker_order_id
    )
    replies.merge(tx, orders.get(tx, order_id), seen, fills, now)


def _goes_to_a_person(tx: Transaction, order_id: int, account: Account, now: int) -> bool:
    """Looks made under another account are no evidence (HOLES H13): only a person can go on."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    elsewhere = replies.sent_elsewhere(tx, order, account)
    if elsewhere is None:
        return False
    orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=elsewhere)
    return True
