"""A person's word on an order of which nobody knows the fate, checked at the broker first (HOLES H28).

The look comes before the transaction and is part of what is decided: a word that it contradicts is refused
and says how. Nothing is ever sent from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.brokers.base import Account, BrokerFacts, BrokerOrder, Fill, IdClass, LookupFailed, Snapshot
from app.clock import SECOND, Clock
from app.domain.freshness import MAX_SKEW
from app.domain.order import OrdStatus, State
from app.execution import continuation, replies
from app.execution.ids import ids_to_look_up
from app.execution.operator import Answer, Decision, NotDone, Seen, described, state_of, the_order
from app.execution.ruling import claim_of
from app.execution.session import Session
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.queries import rfc3339
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

LOOK = "a person's: by id, open orders, recent orders, fills"
NEEDED = ("open_orders", "recent_orders", "fills")
"""Without one of these a look is not complete."""


@dataclass(frozen=True, slots=True)
class Look:
    """One complete look for an order at its broker: begun then (UTC microseconds), as that account."""

    account: Account
    facts: BrokerFacts
    began_at: int
    ids: Sequence[str]
    """The client order ids that the order has, or would have got."""
    snapshot: Snapshot
    found: Mapping[str, BrokerOrder] = field(default_factory=dict)
    fills: Mapping[str, list[Fill]] = field(default_factory=dict)

    @property
    def is_absent(self) -> bool:
        """Whether nothing at the broker bears one of the order's ids."""
        named = {other.client_order_id for other in self._listed}
        named |= {fill.client_order_id for fill in self.snapshot.fills}
        return not self.found and not any(self.fills.values()) and named.isdisjoint(self.ids)

    @property
    def _listed(self) -> tuple[BrokerOrder, ...]:
        return (*self.snapshot.recent_orders, *self.snapshot.open_orders)

    def order(self, broker_order_id: str) -> BrokerOrder | None:
        """The broker's order of that id, as far as this look has shown it."""
        shown = (*self.found.values(), *self._listed)
        return next((order for order in shown if order.broker_order_id == broker_order_id), None)


async def look(session: Session, writer: Writer, reader: Reader, clock: Clock, order: Order) -> Look:
    """Looks for an unresolved order. Raises NotDone where the broker cannot be asked now."""
    try:
        async with session.asked() as account:
            return await _look(session, reader, clock, order, account)
    except LookupFailed as error:
        why = str(error)
        identity = "unknown"

        def note(tx: Transaction) -> None:
            now = clock.now()
            replies.add_evidence(tx, order.id, identity, now, look=LOOK, result="failed", detail=why)

        await writer.run(note)
        raise NotDone(
            f"the broker of {order.account} cannot be asked now ({why}): nothing was decided"
        ) from error


async def _look(session: Session, reader: Reader, clock: Clock, order: Order, account: Account) -> Look:
    began_at = clock.now()
    broker, policy = session.broker, session.policy
    ids: tuple[str, ...]
    if order.client_order_id is not None:
        ids = (order.client_order_id,)
    else:

        def would_be(tx: Transaction) -> tuple[str, ...]:
            return ids_to_look_up(tx, policy, account.identity, claim_of(tx, order), order)

        ids = await reader.call(lambda db: would_be(Transaction(db, set())))
    found, fills = {}, {}
    for cid in ids:
        seen = await broker.find(cid)
        if seen is not None and seen.client_order_id != cid:
            raise LookupFailed(f"asked for one order, another came back: {seen.client_order_id}")
        fills[cid] = await broker.fills(cid)
        if seen is not None:
            found[cid] = seen
    snapshot = await broker.snapshot(order.created_at - MAX_SKEW)
    missing = [f"{name}: {snapshot.failed[name]}" for name in NEEDED if name in snapshot.failed]
    if missing:
        # Half a look is none: what it does not show may be there (HOLES H28).
        raise LookupFailed("; ".join(missing))
    return Look(account, broker.facts, began_at, ids, snapshot, found, fills)


def unresolved(tx: Transaction, name: str, seen: Seen) -> Order:
    """The order, if it is one that a person can resolve. Raises NotDone."""
    order = the_order(tx, name, seen)
    if order.state in (State.NEEDS_OPERATOR, State.AMBIGUOUS):
        return order
    if order.state is State.SUBMITTING:
        raise NotDone(f"{order.name} is being sent right now: its reply comes first")
    raise NotDone(f"{order.name} is {order.state}: there is nothing to resolve")


# ------------------------------------------------------------------------------------------------ not placed


def not_placed(
    tx: Transaction, name: str, seen: Seen, look: Look, decision: Decision, *, account_gone: bool
) -> Answer:
    """A person says that the broker does not have it, and one complete look after the last moment at which it
    could have arrived agrees. What the broker had confirmed before ends as canceled instead.

    `account_gone`: it was sent to an account that is no more, so that no look can agree.
    """
    order = unresolved(tx, name, seen)
    elsewhere = replies.sent_elsewhere(tx, order, look.account)
    if account_gone:
        if elsewhere is None:
            raise NotDone(f"{order.name} was sent to the account that answers: that one is not gone")
        _note_look(tx, order, look, decision, "failed", elsewhere)
    else:
        _refuse_elsewhere(order, elsewhere)
        _refuse_early(tx, order, look, decision)
        if not look.is_absent:
            raise NotDone(f"the broker has {order.name}: {_what_is_there(order, look)}")
        _note_look(tx, order, look, decision, "absent")
    was, order = order, _end(tx, order, decision)
    decision.note(
        tx, "resolved", order.name, answer="not placed", was=was.state.value, state=order.state.value
    )
    return {"was": was.state.value, **state_of(order)}


def _end(tx: Transaction, order: Order, decision: Decision) -> Order:
    at, actor = decision.at, decision.actor
    if order.broker_order_id is None and not order.filled_quantity:
        reason = "OPERATOR_ABSENT"
        return orders.move(tx, order, State.NOT_PLACED, at=at, actor=actor, reason=reason, ord_status=None)
    reason = f"OPERATOR_ABSENT was={order.broker_order_id or 'filled'}"
    order = orders.move(tx, order, State.WORKING, at=at, actor=actor, reason=reason)
    status = OrdStatus.CANCELED.value
    return orders.move(tx, order, State.DONE, at=at, actor=actor, reason=reason, ord_status=status)


def _refuse_early(tx: Transaction, order: Order, look: Look, decision: Decision) -> None:
    """A look proves nothing about what may still arrive; on paper there is no wire on which it could."""
    if look.facts.absence_is_immediate:
        return
    sql = "SELECT max(arrival_deadline) FROM attempts WHERE order_id = ? AND coalesce(bytes_left, 1) = 1"
    row = tx.one(sql, (order.id,))
    deadline = None if row is None else row[0]
    if deadline is not None and look.began_at <= deadline:
        seconds = (deadline - decision.at) // SECOND + 1
        raise NotDone(
            f"{order.name} may still arrive at the broker until {rfc3339(deadline)[11:19]} UTC: "
            f"say so again in {max(1, seconds)} s"
        )


def _what_is_there(order: Order, look: Look) -> str:
    there = next(iter(look.found.values()), None)
    if there is None:
        return "its fills or open orders show it; look again"
    what = f"{there.side} {plain(there.quantity)} {there.instrument}, {there.status}"
    number = there.broker_order_id
    return f"{number} ({what}); if that is it: resolve {order.name} --placed {number}"


# ---------------------------------------------------------------------------------------------------- placed


def placed(
    tx: Transaction, name: str, seen: Seen, look: Look, decision: Decision, *, broker_order_id: str
) -> Answer:
    """A person says that the broker's order of that id is this one, and every term of it agrees.

    When the broker says that it was made is left to the person; everything else is not.
    """
    order = unresolved(tx, name, seen)
    _refuse_elsewhere(order, replies.sent_elsewhere(tx, order, look.account))
    there = look.order(broker_order_id)
    if there is None:
        raise NotDone(_unknown_there(order, look, broker_order_id))
    was = order
    if order.side is None and there.client_order_id in look.ids:
        # Nothing of it was sent by this ledger: what the broker has under its id says what it was.
        terms = {"side": there.side.value, "quantity": plain(there.quantity)}
        orders.note(tx, order, at=decision.at, client_order_id=there.client_order_id, **terms)
        order = orders.get(tx, order.id)
    differs = _differing(tx, order, there, look)
    if differs:
        raise NotDone(f"the broker's order {broker_order_id} is not {order.name}: {'; '.join(differs)}")
    _note_look(tx, order, look, decision, "found", broker_order_id)
    order = replies.adopt(tx, order, there, decision.at, actor=decision.actor)
    order = replies.merge(tx, order, there, look.fills.get(there.client_order_id or "", []), decision.at)
    continuation.go_on(tx, order, decision.at)  # that it is at the broker is news by itself
    decision.note(
        tx, "resolved", order.name, answer="placed", broker_order_id=broker_order_id, was=was.state.value
    )
    return {"was": was.state.value, **state_of(order)}


def _differing(tx: Transaction, order: Order, there: BrokerOrder, look: Look) -> list[str]:
    words = {
        "client_order_id": f"it has the client order id {there.client_order_id or 'none'}, not ours",
        "symbol": f"it is on {there.instrument}, not {order.instrument}",
        "side": f"it is a {there.side}, not a {order.side}",
        "quantity": f"its quantity is {plain(there.quantity)}, not {plain(order.quantity or there.quantity)}",
        "broker_order_id": "another order of ours has it already",
    }
    names = replies.differing_terms(tx, order, there)
    if look.facts.id_class is IdClass.E:
        # There an id is a label and nothing more: when it came has to speak for it.
        names = [name for name in names if name != "client_order_id"]
        row = tx.one("SELECT min(at), max(arrival_deadline) FROM attempts WHERE order_id = ?", (order.id,))
        if row is None or row[0] is None or not row[0] - MAX_SKEW <= there.created_at <= row[1] + MAX_SKEW:
            return [
                "it was not made while this one was sent",
                *(words[name] for name in names if name in words),
            ]
    return [words[name] for name in names if name in words]


def _unknown_there(order: Order, look: Look, broker_order_id: str) -> str:
    fill = next((fill for fill in look.snapshot.fills if fill.broker_order_id == broker_order_id), None)
    if fill is not None:
        what = f"{fill.side} {plain(fill.quantity)} {fill.instrument}"
        return f"the broker's order {broker_order_id} is not {order.name}: it filled {what} under another id"
    known = ", ".join(there.broker_order_id for there in look.found.values())
    hint = f"; under our id it has {known}" if known else ""
    return f"the broker shows no order {broker_order_id} in {order.account}{hint}"


# ------------------------------------------------------------------------------------------------ look again


def look_again(tx: Transaction, name: str, seen: Seen, look: Look, decision: Decision) -> Answer:
    """The order is open to the resolver again, and this look is its first: it goes as far as that proves."""
    order = was = unresolved(tx, name, seen)
    _refuse_elsewhere(order, replies.sent_elsewhere(tx, order, look.account))
    there = None if order.client_order_id is None else look.found.get(order.client_order_id)
    if (
        order.client_order_id is None
        or tx.one("SELECT 1 FROM attempts WHERE order_id = ?", (order.id,)) is None
    ):
        hint = _what_is_there(order, look) if look.found else "say --not-placed"
        raise NotDone(f"nothing of {order.name} was ever sent from here: {hint}")
    now, actor = decision.at, decision.actor
    confirmed_before = order.broker_order_id is not None or bool(order.filled_quantity)
    if there is None and confirmed_before:
        # It was placed once, so that to be absent now proves nothing about then.
        _note_look(tx, order, look, decision, "absent")
        orders.note(tx, order, at=now, reason="MISSING_AT_BROKER open here, gone there")
    else:
        if order.state is State.NEEDS_OPERATOR:
            order = orders.move(tx, order, State.AMBIGUOUS, at=now, actor=actor, reason="LOOK_AGAIN")
        if there is not None:
            _note_look(tx, order, look, decision, "found", there.broker_order_id)
            order = replies.merge(tx, order, there, look.fills.get(there.client_order_id or "", []), now)
        elif look.is_absent and look.facts.absence_is_immediate:
            proof = f"one complete look: {LOOK}"
            order = replies.record_absence(tx, order.id, look.account.identity, now, proof=proof)
        else:
            _note_look(tx, order, look, decision, "absent" if look.is_absent else "found")
    order = orders.get(tx, order.id)
    decision.note(
        tx, "resolved", order.name, answer="look again", was=was.state.value, state=order.state.value
    )
    return {"was": was.state.value, "look": "absent" if look.is_absent else "found", **state_of(order)}


# ---------------------------------------------------------------------------------------------------- shared


def _refuse_elsewhere(order: Order, elsewhere: str | None) -> None:
    """Looks made under another account are no evidence (HOLES H13)."""
    if elsewhere is not None:
        raise NotDone(
            f"{order.name} ({described(order)}) went to another account, so that a look from here proves "
            f"nothing: {elsewhere}; if that account is gone for good: --not-placed --account-gone"
        )


def _note_look(
    tx: Transaction, order: Order, look: Look, decision: Decision, result: str, detail: str = ""
) -> None:
    identity = look.account.identity
    replies.add_evidence(tx, order.id, identity, decision.at, look=LOOK, result=result, detail=detail)
