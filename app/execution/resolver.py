"""AMBIGUOUS orders: ask the broker, and believe only looks that came back complete.

Never sends anything. A failed look is evidence of nothing; what the looks cannot prove in time is a person's.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from app.brokers.base import Account, Broker, BrokerFacts, BrokerOrder, Fill, IdClass, LookupFailed
from app.clock import Clock
from app.domain import absence
from app.domain.absence import Case, Look, Rules, Verdict
from app.domain.order import State
from app.domain.sizing import WIDE, ZERO
from app.execution import replies
from app.execution.policy import Policy
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

LOOK = "by id, open orders, fills"
DEADLINE = "RESOLVE_DEADLINE"
"""Why an order is a person's whose fate no look could prove; the reconciler still looks for it."""


async def resolve(
    writer: Writer, broker: Broker, account: Account, clock: Clock, order: Order, policy: Policy
) -> None:
    """Looks an AMBIGUOUS order up once and moves it as far as the looks so far prove.

    `account` is who the session is. Raises LookupFailed, and LostUpdate where the order moved meanwhile.
    """
    assert order.client_order_id is not None
    if await writer.run(lambda tx: _goes_to_a_person(tx, order.id, account, clock.now())):
        return
    identity, began_at = account.identity, clock.now()
    try:
        seen = await broker.find(order.client_order_id)
        fills = await broker.fills(order.client_order_id)
        is_absent = seen is None and not fills and await _leaves_no_trace(broker, order)
        immediate = broker.facts.absence_is_immediate
        position = None if immediate or not is_absent else await broker.position(order.instrument)
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
    elif is_absent:
        rules = rules_of(policy, broker.facts)
        await writer.run(
            lambda tx: _not_found(tx, order.id, identity, rules, policy, position, began_at, clock.now())
        )


def rules_of(policy: Policy, facts: BrokerFacts) -> Rules:
    return Rules(
        immediate=facts.absence_is_immediate,
        keeps_ids_apart=facts.id_class in (IdClass.A, IdClass.B),
        orders_expire=facts.orders_expire,
        confirmations=policy.absent_confirmations,
        min_age=policy.absent_min_age,
        deadline=policy.resolve_deadline,
    )


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


def _not_found(
    tx: Transaction,
    order_id: int,
    identity: str,
    rules: Rules,
    policy: Policy,
    position: Decimal | None,
    began_at: int,
    now: int,
) -> None:
    """Adds one complete look that found nothing to those before it, and concludes what they prove."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    differs = _unexplained(tx, order, position, policy)
    look = Look(began_at, complete=differs is None)
    case = _case(tx, order, identity, policy)
    is_new = not case.looks or case.looks[-1] != look
    case = replace(case, looks=[*case.looks, look] if is_new else case.looks)
    verdict = absence.judge(case, rules, now)
    said = absence.evidence(case, rules, now)
    if verdict is Verdict.ABSENT:
        proof = f"one complete look: {LOOK}" if rules.immediate else f"{said}: {LOOK}, position"
        replies.record_absence(tx, order_id, identity, began_at, proof=proof)
        return
    if is_new:
        result = "absent" if differs is None else "failed"
        replies.add_evidence(tx, order_id, identity, began_at, look=LOOK, result=result, detail=differs or "")
    if verdict is Verdict.A_PERSONS:
        reason = f"{DEADLINE} {said}{' looks=not_placed' if absence.confirming(case) else ''}"
        orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)


def _case(tx: Transaction, order: Order, identity: str, policy: Policy) -> Case:
    """What is known before this look, looks under another account left out."""
    row = tx.one(
        "SELECT min(at), max(coalesce(ended_at, at)), max(coalesce(arrival_deadline, at)) FROM attempts "
        "WHERE order_id = ? AND coalesce(bytes_left, 1) = 1",
        (order.id,),
    )
    made = order.created_at
    sent = (made, made, made + policy.arrival_bound) if row is None or row[0] is None else row
    rows = tx.execute(
        "SELECT at, result FROM evidence WHERE order_id = ? AND identity = ? ORDER BY id",
        (order.id, identity),
    )
    return Case(
        sent[0],
        sent[1],
        sent[2],
        looks=[Look(at, complete=result == "absent") for at, result in rows if at >= sent[0]],
    )


def _unexplained(tx: Transaction, order: Order, position: Decimal | None, policy: Policy) -> str | None:
    """A position that our books do not explain may be the order that is looked for."""
    if position is None:
        return None
    books = [book.net for book in orders.books(tx, order.account, order.instrument)]
    expected = ZERO
    for net in books:
        expected = WIDE.add(expected, net)
    if abs(WIDE.subtract(expected, position)) <= policy.drift_tolerance:
        return None
    return f"position={plain(position)} books={plain(expected)}"


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
