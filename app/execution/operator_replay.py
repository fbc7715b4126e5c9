"""Replay: an order of which nothing was done goes out again, by a person's word and never by itself.

It acts on orders, not on signals: the legs that did their work are named and left out (HOLES H25). Where the
broker keeps ids apart the same id goes out again, so that the broker itself refuses a second one (H27).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from app.brokers.base import IdClass
from app.claims.admission import CLAIMED_AGAIN
from app.domain.order import UNRESOLVED, State
from app.domain.risk import TradingState
from app.execution import legs, resend
from app.execution.operator import AccountRules, Answer, Decision, NotDone, Seen, check_seen, the_order
from app.execution.ruling import claim_of, trading_state
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.queries import rfc3339
from app.ledger.transaction import Transaction, Value

_COPIED = ("claim_id", "account", "leg", "instrument", "source_id", "strategy", "action")
_REPLAYABLE = frozenset({State.DENIED, State.NOT_PLACED, State.DONE})


def replay(
    tx: Transaction, name: str, seen: Seen, accounts: Mapping[str, AccountRules], decision: Decision
) -> Answer:
    """Sends again an order (`O12`), or of a signal (`S12`) every newest order of which nothing was done.

    `seen` names the states that the person saw. Raises NotDone where nothing of it can go out again.
    """
    asked, others = _asked(tx, name, seen)
    going: list[tuple[Order, AccountRules]] = []
    left_out = [{"order": order.name, "why": f"not asked for, it is {order.state}"} for order in others]
    for order in asked:
        check_seen(order, seen)
        rules = accounts.get(order.account)
        why = f"the account {order.account} is no longer configured" if rules is None else None
        why = why or _why_not(tx, order, rules, decision.at)
        if why is None and rules is not None:
            going.append((order, rules))
        else:
            left_out.append({"order": order.name, "why": why or ""})
    if not going:
        raise NotDone("nothing was sent again: " + "; ".join(f"{o['order']} {o['why']}" for o in left_out))
    _refuse_while_halted(tx, going[0][0])
    _take_from_its_sender(tx, going[0][0], decision)
    return {
        "replayed": [_again(tx, order, rules, decision) for order, rules in going],
        "left_out": left_out,
    }


def _asked(tx: Transaction, name: str, seen: Seen) -> tuple[list[Order], list[Order]]:
    """The orders that are meant, and the signal's other ones."""
    if name[:1].upper() == "S" and name[1:].isascii() and name[1:].isdigit() and len(name) < 20:
        found = orders.newest(tx, int(name[1:]))
        if not found:
            raise NotDone(f"there is no signal {name.upper()} with orders")
        return found, []
    order = the_order(tx, name, seen)
    newest = orders.newest(tx, order.claim_id)
    leg = (order.account, order.leg)
    return [order], [other for other in newest if (other.account, other.leg) != leg]


def _why_not(tx: Transaction, order: Order, rules: AccountRules | None, now: int) -> str | None:
    """Why an order cannot go out again, as words behind its name; None where it can."""
    assert rules is not None
    newer = tx.one(
        "SELECT id, state FROM orders WHERE claim_id = ? AND account = ? AND leg = ? AND generation > ? "
        "ORDER BY generation DESC LIMIT 1",
        (order.claim_id, order.account, order.leg, order.generation),
    )
    if newer is not None:
        return f"was sent again as O{newer[0]}, which is {newer[1]}"
    if order.filled_quantity > Decimal(0):
        return f"has filled {plain(order.filled_quantity)}"
    if order.state not in _REPLAYABLE:
        return _not_over(order)
    if order.state is State.DONE and (order.reason or "").startswith("CANCELED"):
        return f"has done its work: {order.reason}"
    other = resend.another_generation(tx, order)
    if other is not None:
        return f"has an earlier try that is {other.state}: {other.name}"
    if not resend.is_resend(tx, order) and not _earlier_left(tx, order):
        return None
    return _sent_elsewhere(tx, order) or _not_proved_absent(tx, order, rules, now)


def _not_over(order: Order) -> str:
    if order.state in UNRESOLVED:
        return f"is {order.state}: nobody knows yet whether the broker has it, resolve that first"
    if order.state is State.WORKING:
        return "is at the broker"
    return f"waits to be sent ({order.reason})" if order.reason else "waits to be sent"


def _earlier_left(tx: Transaction, order: Order) -> bool:
    """Whether an earlier generation of the leg may have left."""
    earlier = "claim_id = ? AND account = ? AND leg = ? AND generation < ?"
    found = orders.where(tx, earlier, (order.claim_id, order.account, order.leg, order.generation))
    return any(resend.is_resend(tx, other) for other in found)


def _sent_elsewhere(tx: Transaction, order: Order) -> str | None:
    """Under another account its id keeps nothing apart (HOLES H13)."""
    row = tx.one(
        "SELECT t.identity, t.endpoint FROM attempts t JOIN orders o ON o.id = t.order_id "
        "WHERE o.claim_id = ? AND o.account = ? AND o.leg = ? ORDER BY t.id DESC LIMIT 1",
        (order.claim_id, order.account, order.leg),
    )
    now = tx.one(
        "SELECT coalesce(answering, identity), coalesce(answering_at, endpoint) FROM accounts WHERE name = ?",
        (order.account,),
    )
    if row is None or now is None or tuple(row) == tuple(now):
        return None
    return f"was sent to another account ({row[0]}): send the alert again"


def _not_proved_absent(tx: Transaction, order: Order, rules: AccountRules, now: int) -> str | None:
    """A new id beside one that may still arrive would be a second order: first its deadline, then one clean
    look (HOLES H27). Where the same id goes out again the broker's answer is that look."""
    if _keeps_ids_apart(rules) and order.state is State.NOT_PLACED:
        return None
    leg = (order.claim_id, order.account, order.leg)
    row = tx.one(
        "SELECT max(t.arrival_deadline) FROM attempts t JOIN orders o ON o.id = t.order_id "
        "WHERE o.claim_id = ? AND o.account = ? AND o.leg = ? AND coalesce(t.bytes_left, 1) = 1 "
        "AND o.state <> 'DONE' AND coalesce(t.reply, '') NOT LIKE 'Refused %'",
        leg,
    )
    deadline = None if row is None else row[0]
    if deadline is None:
        return None
    if rules.facts.absence_is_immediate:
        deadline = 0
    elif now <= deadline:
        return f"may still arrive at the broker until {rfc3339(deadline)[11:19]} UTC"
    look = tx.one(
        "SELECT 1 FROM evidence e JOIN orders o ON o.id = e.order_id WHERE o.claim_id = ? AND o.account = ? "
        "AND o.leg = ? AND e.result = 'absent' AND e.at > ? LIMIT 1",
        (*leg, deadline),
    )
    return None if look is not None else "was not looked for since it could have arrived: resolve it first"


def _keeps_ids_apart(rules: AccountRules) -> bool:
    return rules.facts.id_class in (IdClass.A, IdClass.B)


def _refuse_while_halted(tx: Transaction, order: Order) -> None:
    if trading_state(tx) is TradingState.HALTED and not claim_of(tx, order).by_person:
        raise NotDone("trading is halted: resume first, else it would only be denied again")


def _take_from_its_sender(tx: Transaction, order: Order, decision: Decision) -> None:
    """A signal whose sender was told 503 is admitted by the person: a resend is a duplicate from now on."""
    sql = "UPDATE claims SET unanswered = 0 WHERE id = ? AND unanswered = 1"
    if tx.change("claims", sql, (order.claim_id,)):
        row = tx.one("SELECT digest FROM claims WHERE id = ?", (order.claim_id,))
        assert row is not None
        tx.event(decision.at, decision.actor, CLAIMED_AGAIN, f"S{order.claim_id}", {"digest": row[0].hex()})


def _again(tx: Transaction, order: Order, rules: AccountRules, decision: Decision) -> Answer:
    not_after = None if order.not_after is None else decision.at + rules.policy.max_order_age
    if order.state is State.NOT_PLACED and _keeps_ids_apart(rules):
        again = orders.move(
            tx,
            order,
            State.PENDING,
            at=decision.at,
            actor=decision.actor,
            detail={"replay": "the same id and terms"},
            not_after=not_after,
            ord_status=None,
            cancel_requested=0,
            settled_at=None,
        )
    else:
        again = _next_generation(tx, order, not_after, decision.at)
    decision.note(tx, "replayed", order.name, to=again.name, generation=again.generation)
    return {
        "order": order.name,
        "as": again.name,
        "account": again.account,
        "symbol": again.instrument,
        "generation": again.generation,
        "same_id": again.id == order.id and again.client_order_id is not None,
        "was": order.state.value,
        "reason": order.reason,
    }


def _next_generation(tx: Transaction, order: Order, not_after: int | None, now: int) -> Order:
    row: dict[str, Value] = {name: getattr(order, name) for name in _COPIED}
    purpose = order.purpose if order.purpose in ("exit", "cancel") else "undecided"
    if legs.opens_behind_a_close(order):
        assert order.side is not None
        assert order.quantity is not None
        purpose, row = "entry", {**row, "side": order.side.value, "quantity": plain(order.quantity)}
    prices = (("limit_price", order.limit_price), ("stop_price", order.stop_price))
    number = tx.insert(
        "orders",
        {
            **row,
            **{name: None if price is None else plain(price) for name, price in prices},
            "type": order.type.value,
            "tif": None if order.tif is None else order.tif.value,
            "generation": order.generation + 1,
            "purpose": purpose,
            "state": State.PENDING.value,
            "not_after": not_after,
            "created_at": now,
            "updated_at": now,
        },
    )
    return orders.get(tx, number)
