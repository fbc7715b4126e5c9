"""AMBIGUOUS orders: ask the broker, and believe only looks that came back complete.

Never sends anything. A failed look is evidence of nothing; what the looks cannot prove in time is a person's.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from app.brokers.base import Account, Broker, BrokerFacts, BrokerOrder, IdClass
from app.clock import Clock
from app.domain import absence
from app.domain.absence import Case, Look, Rules, Verdict
from app.domain.order import State
from app.execution import exposure, ladder, replies
from app.execution.ladder import LOOK, Climb
from app.execution.policy import Policy
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)

DEADLINE = "RESOLVE_DEADLINE"
"""Why an order is a person's whose fate no look could prove; the reconciler still looks for it."""
DOUBLE = "DOUBLE"
"""The broker has more than one order under our id: the worst that can be."""


async def resolve(
    writer: Writer, broker: Broker, account: Account, clock: Clock, order: Order, policy: Policy
) -> str | None:
    """Looks an AMBIGUOUS order up once and moves it as far as the looks so far prove.

    `account` is who the session is. Returns why the look proved nothing, where it failed. Raises RateLimited,
    which counts as nothing, and LostUpdate where the order moved meanwhile.
    """
    assert order.client_order_id is not None
    sent_at = await writer.run(lambda tx: _begin(tx, order.id, account, policy, clock.now()))
    if sent_at is None:
        return None
    seen = await ladder.climb(broker, order, sent_at, clock)
    rules = rules_of(policy, broker.facts)
    kept = broker.facts.retention.canceled_unfilled

    def conclude(tx: Transaction) -> None:
        _conclude(tx, order.id, account.identity, rules, policy, seen, kept, clock.now())

    await writer.run(conclude)
    return seen.failed or None


def rules_of(policy: Policy, facts: BrokerFacts) -> Rules:
    return Rules(
        immediate=facts.absence_is_immediate,
        keeps_ids_apart=facts.id_class in (IdClass.A, IdClass.B),
        # Whatever is carried by an order that is only a label is no proof of anything (facts 4.6).
        orders_expire=facts.orders_expire and facts.id_class is not IdClass.E,
        confirmations=policy.absent_confirmations,
        min_age=policy.absent_min_age,
        deadline=policy.resolve_deadline,
    )


def doubled(tx: Transaction, order: Order, numbers: tuple[str, ...], now: int) -> Order:
    """Two orders of the broker's bear the id of one of ours. Nothing decides between them but a person."""
    said = ",".join(numbers)
    reason = f"{DOUBLE} the broker has {len(numbers)} orders under our id: {said}"
    if order.reason != reason:
        detail = {"severity": "critical", "broker_order_ids": list(numbers)}
        tx.event(now, "resolver", "doubled", order.name, detail)
        log.critical("the broker has an order twice", order=order.name, broker_order_ids=said)
    if order.state in (State.AMBIGUOUS, State.WORKING, State.SUBMITTING):
        return orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)
    orders.note(tx, order, at=now, reason=reason)
    return orders.get(tx, order.id)


def _begin(tx: Transaction, order_id: int, account: Account, policy: Policy, now: int) -> int | None:
    """When it was first sent; None where looks from here are no evidence: then it is a person's (H13)."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    elsewhere = replies.sent_elsewhere(tx, order, account)
    if elsewhere is not None:
        orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=elsewhere)
        return None
    return _sent(tx, order, policy)[0]


def _conclude(
    tx: Transaction,
    order_id: int,
    identity: str,
    rules: Rules,
    policy: Policy,
    seen: Climb,
    kept: int | None,
    now: int,
) -> None:
    """Adds one look to those before it, and concludes what they prove."""
    order = orders.get(tx, order_id)
    if order.state is not State.AMBIGUOUS:
        raise LostUpdate(f"{order.name} is {order.state}, not AMBIGUOUS")
    if len(seen.under_our_id) > 1:
        _note(tx, order, identity, seen, "found", " ".join(seen.under_our_id))
        doubled(tx, order, seen.under_our_id, now)
    elif seen.seen is not None:
        _note(tx, order, identity, seen, "found", seen.seen.broker_order_id)
        replies.merge(tx, order, seen.seen, seen.fills, now)
    else:
        _not_found(tx, order, identity, rules, policy, seen, kept, now)


def _not_found(
    tx: Transaction,
    order: Order,
    identity: str,
    rules: Rules,
    policy: Policy,
    seen: Climb,
    kept: int | None,
    now: int,
) -> None:
    sent = _sent(tx, order, policy)
    doubt = seen.failed or _doubt(tx, order, sent, seen, policy, kept, immediate=rules.immediate)
    look = Look(seen.began_at, complete=not doubt)
    case = _case(tx, order, identity, sent)
    is_new = bool(seen.failed) or not case.looks or case.looks[-1] != look
    case = replace(case, looks=[*case.looks, look] if is_new else case.looks)
    verdict = absence.judge(case, rules, now)
    said = absence.evidence(case, rules, now)
    if verdict is Verdict.ABSENT:
        proof = f"one complete look: {LOOK}" if rules.immediate else f"{said}: {LOOK}"
        replies.record_absence(tx, order.id, identity, seen.began_at, proof=proof, detail=seen.words)
        return
    if is_new:
        _note(tx, order, identity, seen, "failed" if doubt else "absent", doubt)
    if verdict is Verdict.A_PERSONS:
        answer = " looks=not_placed" if absence.confirming(case) else ""
        why = f" {doubt}" if doubt else ""
        reason = f"{DEADLINE} {said}{answer}{why}"
        orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)


def _note(tx: Transaction, order: Order, identity: str, seen: Climb, result: str, first: str) -> None:
    detail = "; ".join(part for part in (first, seen.words) if part)
    replies.add_evidence(tx, order.id, identity, seen.began_at, look=LOOK, result=result, detail=detail)


def _doubt(
    tx: Transaction,
    order: Order,
    sent: tuple[int, int, int],
    seen: Climb,
    policy: Policy,
    kept: int | None,
    *,
    immediate: bool,
) -> str:
    """Why a look that found nothing proves nothing all the same; empty where it does."""
    if seen.fills or seen.under_our_id:
        return "a list shows our id, the look by it does not"
    if immediate:
        return ""
    if kept is not None and seen.began_at - sent[0] > kept:
        return f"older than the venue keeps: retention={kept // 1_000_000}s"
    strangers = [
        one.broker_order_id
        for one in ladder.twins(seen.others, order, sent[0], sent[2])
        if not _is_ours(tx, order, one)
    ]
    if strangers:
        return f"twin={','.join(strangers)} looks the same and is nobody's"
    return _unexplained(tx, order, seen, policy)


def _is_ours(tx: Transaction, order: Order, there: BrokerOrder) -> bool:
    """Whether another order of ours is known to be that one."""
    sql = (
        "SELECT 1 FROM orders WHERE account = ? AND id <> ? "
        "AND (broker_order_id = ? OR client_order_id = ?) LIMIT 1"
    )
    key = (order.account, order.id, there.broker_order_id, there.client_order_id or "")
    return tx.one(sql, key) is not None


def _unexplained(tx: Transaction, order: Order, seen: Climb, policy: Policy) -> str:
    """A position that our books do not explain may be the order that is looked for."""
    assert seen.position is not None
    off = exposure.unexplained(tx, order, seen.position)
    if abs(off) <= policy.drift_tolerance:
        return ""
    return f"position={plain(seen.position)} books={plain(seen.position - off)}"


def _sent(tx: Transaction, order: Order, policy: Policy) -> tuple[int, int, int]:
    """When it was first sent, when the last send was over, and until when any of them may still arrive."""
    row = tx.one(
        "SELECT min(at), max(coalesce(ended_at, at)), max(coalesce(arrival_deadline, at)) FROM attempts "
        "WHERE order_id = ? AND coalesce(bytes_left, 1) = 1",
        (order.id,),
    )
    if row is not None and row[0] is not None:
        return row[0], row[1], row[2]
    made = order.created_at
    return made, made, made + policy.arrival_bound


def _case(tx: Transaction, order: Order, identity: str, sent: tuple[int, int, int]) -> Case:
    """What is known before this look, looks under another account left out."""
    rows = tx.execute(
        "SELECT at, result FROM evidence WHERE order_id = ? AND identity = ? ORDER BY id",
        (order.id, identity),
    )
    looks = [Look(at, complete=result == "absent") for at, result in rows if at >= sent[0]]
    return Case(sent[0], sent[1], sent[2], looks=looks)
