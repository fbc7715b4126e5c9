"""The claim's transaction: known key, watermark, freshness, rate, insert, in this order and nowhere else.

Pure of its arguments and of what it reads inside the transaction, since the writer may run it again: no
clock is read here, a delivery brings its time along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec

from app.claims import rows
from app.claims.base import Admission, Delivery, Refusal, Verdict
from app.claims.known import Claim, Known, find, look_up, next_epoch
from app.claims.rows import Case, Context
from app.clock import SECOND
from app.domain.book import reads_as_exit
from app.domain.freshness import is_stale, signal_age, signal_time
from app.domain.key import ADMIT_EPOCH, ChosenKey, admitted_key, claim_digest
from app.domain.order import State
from app.domain.repeat import LABEL_SUSPECTED_AFTER, SECOND_SIGNAL_SUSPECTED_AFTER, Conflict
from app.domain.signal import KeySource, Signal
from app.ledger import orders
from app.ledger.restore import REFUSE_WITHOUT_TIME
from app.ledger.transaction import Transaction

MINUTE = 60 * SECOND

LOOKED_AT_FOR_RATE = 2_000
"""Newest claims among which those of the last minute are looked for, however old the ledger is."""

CLAIMED = "claimed"
CLAIMED_AGAIN = "claimed after a 503"
"""The events of an admission; their detail carries the claim's digest."""


def admit(
    tx: Transaction,
    context: Context,
    admission: Admission,
    delivery: Delivery,
    signal: Signal,
    key: ChosenKey,
) -> Verdict:
    """Decides one delivery and records it."""
    known = look_up(tx, context.run, delivery, signal, key)
    if known is not None and known.conflict is None and not known.claim.unanswered:
        return _duplicate(tx, delivery, known, key)
    exits = exits_of(tx, context, admission, signal)
    case = Case(context, admission, delivery, signal, key, exits)
    if known is not None and known.conflict is not None:
        if not (admission.admit_exits and case.is_exit):
            return _conflict(tx, case, known.claim, known.conflict)
        return _admit_exit(tx, case, known.claim, known.conflict)
    return _refuse_or_admit(tx, case, known.claim if known is not None else None)


def exits_of(tx: Transaction, context: Context, admission: Admission, signal: Signal) -> dict[str, bool]:
    """By account: whether the signal reads as an exit against the book as it stands in this transaction."""
    strategy = signal.strategy or ""
    found = {}
    for account in admission.accounts:
        instrument = context.instrument_of(account, signal.symbol, signal.exchange)
        book = orders.book_of(tx, account, instrument, admission.source_id, strategy)
        found[account] = reads_as_exit(signal, book)
    return found


def is_against_a_book(tx: Transaction, context: Context, delivery: Delivery) -> bool:
    """Whether what is known of a refused delivery stands against a book of its source (CONTRACT 3).

    Against the book as it stands when the row is written, be that long after the answer.
    """
    hint = delivery.hint
    if hint is None:
        return False
    for account in delivery.accounts:
        where, bindings = ["account = ?", "source_id = ?"], [account, delivery.source_id]
        if hint.symbols is not None:
            instruments = [context.instrument_of(account, s, e) for s in hint.symbols for e in hint.exchanges]
            where.append(f"instrument IN ({_marks(instruments)})")
            bindings += instruments
        if hint.strategies is not None:
            where.append(f"strategy IN ({_marks(hint.strategies)})")
            bindings += hint.strategies
        found = tx.execute(f"SELECT net FROM books WHERE {' AND '.join(where)}", bindings)
        if any(hint.is_against(Decimal(net)) for (net,) in found):
            return True
    return False


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _refuse_or_admit(tx: Transaction, case: Case, unanswered: Claim | None) -> Verdict:
    refusal = not_fresh(tx, case) or _over_rate(tx, case)
    if refusal is not None:
        return _refuse(tx, case, refusal)
    return _admit_first(tx, case) if unanswered is None else _admit_again(tx, case, unanswered)


# ------------------------------------------------------------------------------------------------ known key


def _admit_exit(tx: Transaction, case: Case, first: Claim, conflict: Conflict) -> Verdict:
    """`on_conflict = "admit_exits"`: the exit is claimed under a key of its own, once (HOLES H16)."""
    case, known = _under_a_key_of_its_own(tx, case)
    if known is not None and not known.claim.unanswered:
        return _duplicate(tx, case.delivery, known, case.key)
    verdict = _refuse_or_admit(tx, case, known.claim if known is not None else None)
    if verdict.kind == "accepted":
        detail = {"reason": conflict.reason, "fields": list(conflict.fields), "as": f"S{verdict.claim_id}"}
        tx.event(case.now, case.actor, "conflicting exit admitted", f"S{first.id}", detail)
    return verdict


def _under_a_key_of_its_own(tx: Transaction, case: Case) -> tuple[Case, Known | None]:
    """The key of what the exit asks for, and whatever is claimed under that.

    Without a bar time the key holds an epoch of ten minutes; the epoch before is looked at as well, else a
    resend across its end would be a second exit.
    """
    cases = [_rekeyed(case, moment) for moment in (case.now, case.now - ADMIT_EPOCH)]
    for own in cases:
        claim = find(tx, own.delivery.source_id, own.key)
        if claim is None:
            continue
        apart = claim.apart(own.delivery, own.context.run)
        if own is cases[0] or abs(apart) <= LABEL_SUSPECTED_AFTER:
            return own, Known(claim, apart, None)
    return cases[0], None


def _rekeyed(case: Case, moment: int) -> Case:
    key = admitted_key(case.key.key, case.signal, moment)
    own = msgspec.structs.replace(case.key, key=key, source=KeySource.DERIVED, from_header=False)
    return replace(case, key=own)


def _duplicate(tx: Transaction, delivery: Delivery, known: Known, key: ChosenKey) -> Verdict:
    claim = known.claim
    tx.change("claims", "UPDATE claims SET deliveries = deliveries + 1 WHERE id = ?", (claim.id,))
    late = key.source is KeySource.WINDOW and known.apart > SECOND_SIGNAL_SUSPECTED_AFTER
    verdict = Verdict(
        "duplicate",
        0,
        claim_id=claim.id,
        key=key.key,
        key_source=claim.key_source,
        outcome=orders.outcome(tx, claim.id),
        first_received_at=claim.first_received_at,
        deliveries=claim.deliveries + 1,
        warnings=(rows.SECOND_SIGNAL,) if late else (),
    )
    return _record(tx, delivery, verdict)


def _conflict(tx: Transaction, case: Case, first: Claim, conflict: Conflict) -> Verdict:
    verdict = Verdict(
        "conflict",
        0,
        claim_id=first.id,
        key=case.key.key,
        key_source=first.key_source,
        first_received_at=first.first_received_at,
        reason=conflict.reason,
        fields=conflict.fields,
        detail=conflict.detail,
        reads_as_exit=case.is_exit,
    )
    return _record(tx, case.delivery, verdict)


# ------------------------------------------------------------------------------------------ fit to be claimed


def not_fresh(tx: Transaction, case: Case) -> Refusal | None:
    """Why it comes too late, or None: watermark, then age.

    The watermark is asked for the time that the signal itself states: it is the same in every copy, so that
    what was purged can never come back (HOLES H40).
    """
    stated = signal_time(case.signal)
    row = tx.one("SELECT watermark FROM sources WHERE id = ?", (case.admission.source_id,))
    watermark = row[0] if row else None
    if watermark is not None and stated is not None and stated <= watermark:
        detail = "its keys were purged; a signal of that time cannot be told from a replay"
        return Refusal(422, "stale", "before_watermark", detail=detail)
    if stated is None and tx.meta(REFUSE_WITHOUT_TIME) is not None:
        detail = "the ledger was restored; a signal without a time cannot be told from one placed before that"
        return Refusal(422, "stale", "before_watermark", detail=detail)
    age = signal_age(case.signal, case.now)
    max_age, max_exit_age = case.admission.max_age, case.admission.max_exit_age
    if not is_stale(age, is_exit=case.is_exit, max_age=max_age, max_exit_age=max_exit_age):
        return None
    assert age.microseconds is not None
    limit, what = (max_exit_age, "an exit") if case.is_exit else (max_age, "an entry")
    detail = f"age {age.microseconds / SECOND:.1f} s, limit {limit / SECOND:g} s for {what}"
    return Refusal(422, "stale", "stale", detail=detail)


def _over_rate(tx: Transaction, case: Case) -> Refusal | None:
    """Entries of the last minute against the source's own limit; exits neither ask nor count (HOLES H10)."""
    limit = case.admission.entries_per_minute
    if limit == 0 or case.is_exit:
        return None
    run = case.context.run
    row = tx.one(
        "SELECT count(*) FROM claims c WHERE c.id > (SELECT max(id) FROM claims) - ? "
        "AND c.source_id = ? AND c.unanswered = 0 "
        "AND CASE WHEN c.opened_run IS ? THEN c.opened_boot > ? "
        "ELSE c.admitted_at > ? AND c.admitted_at <= ? END "
        "AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.claim_id = c.id AND o.purpose IN ('exit', 'cancel'))",
        (
            LOOKED_AT_FOR_RATE,
            case.admission.source_id,
            run,
            case.delivery.received_boot - MINUTE,
            case.now - MINUTE,
            case.now,
        ),
    )
    if row is None or row[0] < limit:
        return None
    return Refusal(503, "not_accepted", "rate", detail=f"more than {limit} entries a minute")


def _refuse(tx: Transaction, case: Case, refusal: Refusal) -> Verdict:
    verdict = Verdict(
        refusal.verdict,
        0,
        key=case.key.key,
        key_source=case.key.source.value,
        reason=refusal.reason,
        detail=refusal.detail,
        reads_as_exit=case.is_exit,
    )
    return _record(tx, case.delivery, verdict)


# --------------------------------------------------------------------------------------------------- admitted


def _admit_first(tx: Transaction, case: Case) -> Verdict:
    epoch = None
    if case.key.source is KeySource.WINDOW:
        epoch = next_epoch(tx, case.delivery.source_id, case.key.key, case.now)
    digest = claim_digest(case.delivery.source_id, case.key.key, epoch)
    claim_id = rows.insert_claim(tx, case, digest, epoch)
    for account in case.admission.accounts:
        rows.insert_order(tx, case, claim_id, account, generation=1)
    detail = {"key": case.key.key, "key_source": case.key.source.value, "digest": digest.hex()}
    tx.event(case.now, case.actor, CLAIMED, f"S{claim_id}", detail)
    return _accept(
        tx,
        case,
        claim_id,
        digest,
        case.key.source.value,
        outcome=rows.outcome_at_first(case),
        first_received_at=case.now,
        deliveries=1,
    )


def _admit_again(tx: Transaction, case: Case, claim: Claim) -> Verdict:
    """The delivery admitted before under this key was told 503: this one takes its place (HOLES H17).

    Orders that still wait get the age of this delivery; those denied meanwhile a new generation.
    """
    rows.admit_claim_again(tx, case, claim.id)
    newest = {order.account: order for order in orders.newest(tx, claim.id)}
    for account in case.admission.accounts:
        order = newest.get(account)
        if order is None or order.state is State.DENIED:
            rows.insert_order(
                tx, case, claim.id, account, generation=1 if order is None else order.generation + 1
            )
        elif order.state is State.PENDING:
            not_after = case.now + case.admission.max_order_age
            orders.note(
                tx, order, at=case.now, not_after=not_after, reason=None, purpose=rows.purpose(case, account)
            )
    detail = {"key": case.key.key, "digest": claim.digest.hex()}
    tx.event(case.now, case.actor, CLAIMED_AGAIN, f"S{claim.id}", detail)
    return _accept(
        tx,
        case,
        claim.id,
        claim.digest,
        claim.key_source,
        outcome=orders.outcome(tx, claim.id),
        first_received_at=claim.first_received_at,
        deliveries=claim.deliveries + 1,
    )


def _accept(
    tx: Transaction,
    case: Case,
    claim_id: int,
    digest: bytes,
    key_source: str,
    *,
    outcome: dict[str, Any],
    first_received_at: int,
    deliveries: int,
) -> Verdict:
    verdict = Verdict(
        "accepted",
        0,
        claim_id=claim_id,
        key=case.key.key,
        key_source=key_source,
        outcome=outcome,
        first_received_at=first_received_at,
        deliveries=deliveries,
        digest=digest,
        admitted_at=case.now,
        reads_as_exit=case.is_exit,
    )
    return _record(tx, case.delivery, verdict)


def _record(tx: Transaction, delivery: Delivery, verdict: Verdict) -> Verdict:
    """Writes the delivery's row; its status is filled in after the answer, for nobody knows it yet (H17)."""
    warnings = (*delivery.warnings, *verdict.warnings)
    if verdict.reads_as_exit and verdict.kind != "accepted":
        warnings += (rows.EXIT_NOT_PLACED,)
    delivery_id = rows.insert_delivery(
        tx,
        delivery,
        verdict=verdict.kind,
        http_status=None,
        reason=verdict.reason,
        key=verdict.key,
        fields=verdict.fields,
        detail=verdict.detail,
        claim_id=verdict.claim_id,
        warnings=warnings,
    )
    return replace(verdict, delivery_id=delivery_id, warnings=warnings)
