"""Deliveries that a person has looked at: admitted as a signal of their own, once, or put away.

What is admitted is claimed under a key of what it asks for, so that two copies of one alert collapse into one
signal, whoever admits them and when (HOLES H16, H26).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.claims import rows
from app.claims.admission import CLAIMED, exits_of
from app.claims.base import Admission, Delivery
from app.claims.known import Claim, find
from app.claims.rows import Case, Context
from app.clock import SECOND
from app.domain.freshness import Age, is_stale, signal_age, signal_time
from app.domain.key import ADMIT_EPOCH, ChosenKey, admitted_key, claim_digest, raw_fingerprint
from app.domain.order import State
from app.domain.signal import KeySource, Signal
from app.execution.operator import Answer, Decision, NotDone, number
from app.ledger import orders
from app.ledger.restore import REFUSE_WITHOUT_TIME
from app.ledger.retention import SETTLED
from app.ledger.transaction import Transaction

ADMITTED, DISMISSED = SETTLED
"""The events after which a delivery waits for nobody; retention lets its body go then."""


@dataclass(frozen=True, slots=True)
class Row:
    """A delivery as the ledger keeps it. `body` is None once it was purged."""

    id: int
    source_id: str
    received_at: int
    verdict: str
    key: str | None
    needs: str | None
    claim_id: int | None
    body: str | None

    @property
    def name(self) -> str:
        return f"D{self.id}"

    @property
    def may_be_a_signal(self) -> bool:
        """A conflict, or a repeat that came too late to be a resend (HOLES H14)."""
        return self.verdict == "conflict" or (self.verdict == "duplicate" and self.needs is not None)


def the_delivery(tx: Transaction, name: str) -> Row:
    """Raises NotDone."""
    row = tx.one(
        "SELECT d.id, d.source_id, d.received_at, d.verdict, d.key, d.needs, d.claim_id, b.body "
        "FROM deliveries d LEFT JOIN bodies b ON b.delivery_id = d.id WHERE d.id = ?",
        (number(name, "D"),),
    )
    if row is None:
        raise NotDone(f"there is no delivery {name.upper()[:20]}")
    return Row(*row)


def admissible(tx: Transaction, name: str) -> Row:
    """The delivery, if a person can still admit it. Raises NotDone."""
    row = the_delivery(tx, name)
    if row.verdict in ("conflict", "duplicate"):
        sql = "SELECT what, json_extract(detail, '$.as') FROM events WHERE subject = ? AND what IN (?, ?)"
        settled = tx.one(sql, (row.name, *SETTLED))
        if settled is not None and settled[0] == ADMITTED:
            raise NotDone(f"{row.name} was admitted already, as {settled[1]}")
        if settled is not None:
            raise NotDone(f"{row.name} was put away: send the alert again")
    if not row.may_be_a_signal:
        raise NotDone(f"{row.name} was {row.verdict}: only a delivery in conflict can be admitted")
    if not row.body:
        raise NotDone(f"the body of {row.name} is no longer kept: send the alert again")
    return row


def admit(
    tx: Transaction,
    context: Context,
    admission: Admission,
    row: Row,
    signal: Signal,
    boot: int,
    decision: Decision,
) -> Answer:
    """Claims a delivery as a signal of its own; `signal` is its body read again by today's rules.

    An equal one that was admitted before is what it collapses into. Raises NotDone where it is too old.
    """
    row = admissible(tx, row.name)
    assert row.key is not None
    assert row.body is not None
    known = _known(tx, row, signal)
    if known is None:
        exits = exits_of(tx, context, admission, signal)
        _refuse_stale(tx, admission, row, signal, is_exit=any(exits.values()), now=decision.at)
        key = _own_key(row, signal, row.received_at)
        raw = raw_fingerprint(row.body.encode())
        delivery = Delivery(row.source_id, row.received_at, boot, row.body, raw)
        case = Case(context, admission, delivery, signal, key, exits)
        digest = claim_digest(row.source_id, key.key, None)
        claim_id = rows.insert_claim(tx, case, digest, None)
        # It was first seen when it came; what may still be sent of it counts from now.
        now = replace(case, delivery=replace(delivery, received_at=decision.at))
        for account in admission.accounts:
            rows.insert_order(tx, now, claim_id, account, generation=1)
        detail = {"key": key.key, "key_source": key.source.value, "digest": digest.hex()}
        tx.event(decision.at, decision.actor, CLAIMED, f"S{claim_id}", detail)
    elif known.unanswered:
        raise NotDone(f"an equal one is S{known.id}, whose sender was told 503: replay S{known.id}")
    else:
        claim_id = known.id
    _settle_delivery(tx, row)
    decision.note(tx, ADMITTED, row.name, **{"as": f"S{claim_id}", "collapsed": known is not None})
    return {
        "delivery": row.name,
        "signal": f"S{claim_id}",
        "collapsed": known is not None,
        "outcome": orders.outcome(tx, claim_id),
    }


def _own_key(row: Row, signal: Signal, moment: int) -> ChosenKey:
    assert row.key is not None
    return ChosenKey(key=admitted_key(row.key, signal, moment), source=KeySource.DERIVED)


def _known(tx: Transaction, row: Row, signal: Signal) -> Claim | None:
    """An equal delivery that was admitted before. Without a bar time the key holds an epoch of ten minutes,
    and the neighbours are looked at as well: which of two copies a person admits first is left to him."""
    for moment in (row.received_at, row.received_at - ADMIT_EPOCH, row.received_at + ADMIT_EPOCH):
        claim = find(tx, row.source_id, _own_key(row, signal, moment))
        if claim is None:
            continue
        if moment == row.received_at or abs(claim.first_received_at - row.received_at) <= ADMIT_EPOCH:
            return claim
    return None


def _refuse_stale(
    tx: Transaction, admission: Admission, row: Row, signal: Signal, *, is_exit: bool, now: int
) -> None:
    """Its age now counts, by its own time or by its receipt; the watermark does as at the door."""
    stated = signal_time(signal)
    mark = tx.one("SELECT watermark FROM sources WHERE id = ?", (row.source_id,))
    if mark is not None and mark[0] is not None and stated is not None and stated <= mark[0]:
        raise NotDone(
            f"{row.name} is older than the keys that were forgotten: it cannot be told from a replay"
        )
    if stated is None and tx.meta(REFUSE_WITHOUT_TIME) is not None:
        raise NotDone(f"{row.name} states no time, and the ledger was restored: send the alert again")
    age = signal_age(signal, now)
    since = max(age.microseconds or 0, now - row.received_at)
    limit = admission.max_exit_age if is_exit else admission.max_age
    too_old = is_stale(
        Age(since, age.basis),
        is_exit=is_exit,
        max_age=admission.max_age,
        max_exit_age=admission.max_exit_age,
    )
    if too_old:
        what = "an exit" if is_exit else "an entry"
        raise NotDone(
            f"{row.name} is {since // SECOND} s old, and {what} may be {limit / SECOND:g} s old: "
            "send the alert again if it still holds"
        )


# --------------------------------------------------------------------------------------------------- dismiss


def dismiss(tx: Transaction, names: list[str], decision: Decision) -> Answer:
    """Puts away what a person has looked at: deliveries (`D12`), and orders that ended badly (`O12`)."""
    if not names:
        raise NotDone("say what: a delivery like D12 or an order like O12")
    for name in names:
        if name[:1].upper() == "D":
            _dismiss_delivery(tx, name, decision)
        else:
            _dismiss_order(tx, name, decision)
    return {"dismissed": [name.upper() for name in names]}


def _dismiss_delivery(tx: Transaction, name: str, decision: Decision) -> None:
    row = the_delivery(tx, name)
    if row.needs is None:
        raise NotDone(f"{row.name} needs nobody")
    _settle_delivery(tx, row)
    decision.note(tx, DISMISSED if row.may_be_a_signal else "dismissed", row.name, verdict=row.verdict)


def _dismiss_order(tx: Transaction, name: str, decision: Decision) -> None:
    order = orders.get(tx, number(name, "O")) if _exists(tx, name) else None
    if order is None:
        raise NotDone(f"there is no order {name.upper()[:20]}")
    ghost = tx.one("SELECT 1 FROM findings WHERE kind = 'ghost' AND subject = ? LIMIT 1", (order.name,))
    if order.state not in (State.DENIED, State.NOT_PLACED, State.DONE) and ghost is None:
        raise NotDone(f"{order.name} is {order.state}: it cannot be put away before it is over")
    tx.change("orders", "UPDATE orders SET settled_at = ? WHERE id = ?", (decision.at, order.id))
    sql = "UPDATE findings SET settled_at = ? WHERE kind = 'ghost' AND subject = ? AND settled_at IS NULL"
    tx.change("findings", sql, (decision.at, order.name))
    decision.note(tx, "dismissed", order.name, state=order.state.value, reason=order.reason)


def _exists(tx: Transaction, name: str) -> bool:
    return tx.one("SELECT 1 FROM orders WHERE id = ?", (number(name, "O"),)) is not None


def _settle_delivery(tx: Transaction, row: Row) -> None:
    tx.change("deliveries", "UPDATE deliveries SET needs = NULL WHERE id = ?", (row.id,))
