"""The claim's transaction: known key, watermark, freshness, insert, in this order and nowhere else.

Pure of its arguments and of what it reads inside the transaction, since the writer may run it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from app.claims.base import Admission, Delivery, Verdict
from app.clock import SECOND
from app.domain.book import reads_as_exit
from app.domain.freshness import signal_age
from app.domain.key import RULE_VERSION, ChosenKey, admitted_key, claim_digest, intent_fingerprint
from app.domain.order import State
from app.domain.repeat import (
    SECOND_SIGNAL_SUSPECTED_AFTER,
    Conflict,
    FirstSighting,
    judge_repeat,
    window_is_open,
)
from app.domain.signal import Action, KeySource, Signal
from app.ledger import orders
from app.ledger.transaction import Transaction

MINUTE = 60 * SECOND


@dataclass(frozen=True, slots=True)
class Context:
    """`run` names this run of the program; `instrument_of(account, symbol, exchange)` maps a symbol."""

    run: str
    instrument_of: Callable[[str, str, str | None], str]


@dataclass(frozen=True, slots=True)
class _Claim:
    id: int
    digest: bytes
    key_source: str
    header_key: bool
    epoch: int | None
    opened_boot: int | None
    opened_run: str | None
    rule_version: int
    intent: bytes
    signal: Signal
    first_received_at: int
    deliveries: int
    unanswered: bool


_CLAIM_COLUMNS = (
    "id, digest, key_source, header_key, epoch, opened_boot, opened_run, rule_version, intent_fingerprint, "
    "signal, first_received_at, deliveries, unanswered"
)


def admit(
    tx: Transaction,
    context: Context,
    admission: Admission,
    delivery: Delivery,
    signal: Signal,
    key: ChosenKey,
) -> Verdict:
    """Decides one delivery and records it."""
    known, conflict = _look_up(tx, context, delivery, signal, key)
    exit_ = _reads_as_exit(tx, context, admission, signal)
    if conflict is not None and known is not None and admission.admit_exits and exit_:
        own = msgspec.structs.replace(
            key, key=admitted_key(key.key, signal, delivery.received_at), source=KeySource.DERIVED
        )
        tx.event(
            delivery.received_at,
            f"source:{admission.source}",
            "conflicting exit admitted",
            f"S{known.id}",
            {"reason": conflict.reason, "fields": list(conflict.fields), "key": own.key},
        )
        key = own
        known, conflict = _look_up(tx, context, delivery, signal, key)
    if known is not None:
        if conflict is not None:
            return _record(tx, delivery, _conflict(known, conflict, key), 422)
        if not known.unanswered:
            return _duplicate(tx, context, delivery, known, key)
    refused = _not_fresh(tx, admission, delivery, signal, exit_=exit_)
    if refused is None and not exit_:
        refused = _over_rate(tx, admission, delivery)
    if refused is not None:
        verdict = Verdict(
            refused[1], 0, key=key.key, key_source=key.source, reason=refused[2], detail=refused[3]
        )
        return _record(tx, delivery, verdict, refused[0])
    if known is not None:
        return _admit_again(tx, admission, delivery, known, key)
    return _admit_first(tx, context, admission, delivery, signal, key, exit_=exit_)


def mark_unanswered(tx: Transaction, delivery: Delivery, verdict: Verdict, now: int) -> None:
    """Undoes the promise of a verdict whose sender was told 503 (HOLES H17, H19).

    The claim stays, so that it can never be claimed twice, but no lane takes it and a resend is admitted
    as if it were the first.
    """
    if verdict.kind == "accepted" and verdict.claim_id is not None:
        tx.change(
            "claims",
            "UPDATE claims SET unanswered = 1, deliveries = deliveries - 1 "
            "WHERE id = ? AND digest = ? AND admitted_at = ? AND unanswered = 0",
            (verdict.claim_id, verdict.digest, verdict.admitted_at),
        )
        digest = verdict.digest.hex() if verdict.digest else None
        detail = {"digest": digest, "admitted_at": verdict.admitted_at}
        tx.event(now, "onefill", VOIDED, f"S{verdict.claim_id}", detail)
    if verdict.kind == "duplicate" and verdict.claim_id is not None:
        sql = "UPDATE claims SET deliveries = deliveries - 1 WHERE id = ? AND EXISTS (SELECT 1 FROM deliveries WHERE id = ?)"
        tx.change("claims", sql, (verdict.claim_id, verdict.delivery_id))
    late = "verdict = 'not_accepted', http_status = 503, reason = 'late'"
    key = (verdict.delivery_id, delivery.received_at)
    if not tx.change("deliveries", f"UPDATE deliveries SET {late} WHERE id = ? AND received_at = ?", key):
        row = {"received_at": delivery.received_at, "source_id": delivery.source_id, "key": verdict.key}
        delivery_id = tx.insert(
            "deliveries", {**row, "verdict": "not_accepted", "http_status": 503, "reason": "commit_failed"}
        )
        tx.insert("bodies", {"delivery_id": delivery_id, "body": delivery.body})


VOIDED = "claim answered 503"
"""The event that names a claim whose sender was told 503; at start it is applied once more."""


def _look_up(
    tx: Transaction, context: Context, delivery: Delivery, signal: Signal, key: ChosenKey
) -> tuple[_Claim | None, Conflict | None]:
    if key.source is KeySource.WINDOW:
        row = tx.one(
            f"SELECT {_CLAIM_COLUMNS} FROM claims "
            "WHERE source_id = ? AND key = ? AND key_source = 'window' ORDER BY epoch DESC LIMIT 1",
            (delivery.source_id, key.key),
        )
        known = _claim(row) if row else None
        if known is None or not window_is_open(_since_opened(context, delivery, known)):
            return None, None
    else:
        digest = claim_digest(delivery.source_id, key.key, None)
        row = tx.one(f"SELECT {_CLAIM_COLUMNS} FROM claims WHERE digest = ?", (digest,))
        known = _claim(row) if row else None
        if known is None:
            return None, None
    first = FirstSighting(
        known.signal, known.rule_version, known.intent, known.first_received_at, known.header_key
    )
    return known, judge_repeat(first, signal, delivery.received_at)


def _claim(row: tuple[Any, ...]) -> _Claim:
    values = list(row)
    values[3] = bool(values[3])
    values[9] = msgspec.json.decode(values[9], type=Signal)
    values[12] = bool(values[12])
    return _Claim(*values)


def _since_opened(context: Context, delivery: Delivery, known: _Claim) -> int:
    """How long a window has been open. Within one run only the clock that never steps is asked: a set wall
    clock must neither close a window early nor hold it open for an hour (HOLES H14)."""
    if known.opened_run == context.run and known.opened_boot is not None:
        return delivery.received_boot - known.opened_boot
    return delivery.received_at - (known.epoch or 0)


def _reads_as_exit(tx: Transaction, context: Context, admission: Admission, signal: Signal) -> bool:
    strategy = signal.strategy or ""
    return any(
        reads_as_exit(
            signal,
            orders.book_of(
                tx,
                account,
                context.instrument_of(account, signal.symbol, signal.exchange),
                admission.source_id,
                strategy,
            ),
        )
        for account in admission.accounts
    )


def _not_fresh(
    tx: Transaction, admission: Admission, delivery: Delivery, signal: Signal, *, exit_: bool
) -> tuple[int, str, str, str] | None:
    signal_time = _signal_time(signal, delivery)
    row = tx.one("SELECT watermark FROM sources WHERE id = ?", (admission.source_id,))
    watermark = row[0] if row else None
    if watermark is not None and signal_time is not None and signal_time <= watermark:
        return (
            422,
            "stale",
            "before_watermark",
            "its keys were purged; a signal of that time cannot be told from a replay",
        )
    age = signal_age(signal, delivery.received_at).microseconds
    limit = admission.max_exit_age if exit_ else admission.max_age
    if age is not None and age > limit:
        detail = (
            f"age {age / SECOND:.1f} s, limit {limit / SECOND:g} s for {'an exit' if exit_ else 'an entry'}"
        )
        return 422, "stale", "stale", detail
    return None


def _over_rate(tx: Transaction, admission: Admission, delivery: Delivery) -> tuple[int, str, str, str] | None:
    if admission.entries_per_minute == 0:
        return None
    row = tx.one(
        "SELECT count(*) FROM claims c WHERE c.source_id = ? AND c.admitted_at > ? AND c.unanswered = 0 "
        "AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.claim_id = c.id AND o.purpose IN ('exit', 'cancel'))",
        (admission.source_id, delivery.received_at - MINUTE),
    )
    if row is not None and row[0] >= admission.entries_per_minute:
        return 503, "not_accepted", "rate", f"more than {admission.entries_per_minute} entries a minute"
    return None


def _signal_time(signal: Signal, delivery: Delivery) -> int | None:
    age = signal_age(signal, delivery.received_at).microseconds
    return None if age is None else delivery.received_at - age


def _admit_first(
    tx: Transaction,
    context: Context,
    admission: Admission,
    delivery: Delivery,
    signal: Signal,
    key: ChosenKey,
    *,
    exit_: bool,
) -> Verdict:
    now = delivery.received_at
    epoch = now if key.source is KeySource.WINDOW else None
    digest = claim_digest(delivery.source_id, key.key, epoch)
    claim_id = tx.insert(
        "claims",
        {
            "digest": digest,
            "source_id": delivery.source_id,
            "key": key.key,
            "key_source": key.source.value,
            "header_key": int(key.from_header),
            "epoch": epoch,
            "opened_boot": delivery.received_boot if epoch is not None else None,
            "opened_run": context.run if epoch is not None else None,
            "rule_version": RULE_VERSION,
            "raw_fingerprint": delivery.raw_fingerprint,
            "intent_fingerprint": intent_fingerprint(signal, RULE_VERSION),
            "signal": msgspec.json.encode(signal).decode(),
            "symbol": signal.symbol,
            "action": signal.action.value,
            "quantity": None if signal.quantity is None else orders.plain(signal.quantity),
            "bar_time": signal.bar_time,
            "signal_time": _signal_time(signal, delivery),
            "first_received_at": now,
            "admitted_at": now,
            "deliveries": 1,
        },
    )
    for account in admission.accounts:
        instrument = context.instrument_of(account, signal.symbol, signal.exchange)
        purpose = _purpose(signal, exit_=exit_)
        _insert_order(tx, admission, delivery, signal, claim_id, account, instrument, 1, purpose)
    tx.event(
        now,
        f"source:{admission.source}",
        "claimed",
        f"S{claim_id}",
        {"key": key.key, "key_source": key.source.value, "digest": digest.hex()},
    )
    verdict = Verdict(
        "accepted",
        0,
        claim_id=claim_id,
        key=key.key,
        key_source=key.source.value,
        outcome=orders.outcome(tx, claim_id),
        first_received_at=now,
        deliveries=1,
        digest=digest,
        admitted_at=now,
    )
    return _record(tx, delivery, verdict, None)


def _purpose(signal: Signal, *, exit_: bool) -> str:
    """What the door takes an order for; the worker decides again."""
    if signal.action is Action.CANCEL:
        return "cancel"
    return "exit" if exit_ else "undecided"


def _insert_order(
    tx: Transaction,
    admission: Admission,
    delivery: Delivery,
    signal: Signal,
    claim_id: int,
    account: str,
    instrument: str,
    generation: int,
    purpose: str,
) -> None:
    now = delivery.received_at
    tx.insert(
        "orders",
        {
            "claim_id": claim_id,
            "account": account,
            "leg": 1,
            "generation": generation,
            "instrument": instrument,
            "source_id": admission.source_id,
            "strategy": signal.strategy or "",
            "action": signal.action.value,
            "purpose": purpose,
            "type": signal.type.value,
            "limit_price": None if signal.limit_price is None else orders.plain(signal.limit_price),
            "stop_price": None if signal.stop_price is None else orders.plain(signal.stop_price),
            "tif": None if signal.tif is None else signal.tif.value,
            "state": State.PENDING.value,
            "not_after": now + admission.max_order_age,
            "created_at": now,
            "updated_at": now,
        },
    )


def _admit_again(
    tx: Transaction, admission: Admission, delivery: Delivery, known: _Claim, key: ChosenKey
) -> Verdict:
    """The first delivery of this key was told 503: this one is admitted in its place, with an age of its own."""
    now = delivery.received_at
    tx.change(
        "claims",
        "UPDATE claims SET unanswered = 0, admitted_at = ?, deliveries = deliveries + 1 WHERE id = ?",
        (now, known.id),
    )
    for order in orders.newest(tx, known.id):
        if order.state is State.PENDING:
            orders.note(tx, order, at=now, not_after=now + admission.max_order_age, reason=None)
        elif order.state is State.DENIED:
            _insert_order(
                tx,
                admission,
                delivery,
                known.signal,
                known.id,
                order.account,
                order.instrument,
                order.generation + 1,
                order.purpose,
            )
    tx.event(now, f"source:{admission.source}", "claimed after a 503", f"S{known.id}", {"key": key.key})
    verdict = Verdict(
        "accepted",
        0,
        claim_id=known.id,
        key=key.key,
        key_source=known.key_source,
        outcome=orders.outcome(tx, known.id),
        first_received_at=known.first_received_at,
        deliveries=known.deliveries + 1,
        digest=known.digest,
        admitted_at=now,
    )
    return _record(tx, delivery, verdict, None)


def _duplicate(
    tx: Transaction, context: Context, delivery: Delivery, known: _Claim, key: ChosenKey
) -> Verdict:
    tx.change("claims", "UPDATE claims SET deliveries = deliveries + 1 WHERE id = ?", (known.id,))
    warnings: tuple[str, ...] = ()
    if (
        key.source is KeySource.WINDOW
        and _since_opened(context, delivery, known) > SECOND_SIGNAL_SUSPECTED_AFTER
    ):
        warnings = (
            "possibly a second signal: no resend comes so late; send a bar time or a key to tell them apart",
        )
    verdict = Verdict(
        "duplicate",
        0,
        claim_id=known.id,
        key=key.key,
        key_source=known.key_source,
        outcome=orders.outcome(tx, known.id),
        first_received_at=known.first_received_at,
        deliveries=known.deliveries + 1,
        warnings=warnings,
    )
    return _record(tx, delivery, verdict, None)


def _conflict(known: _Claim, conflict: Conflict, key: ChosenKey) -> Verdict:
    return Verdict(
        "conflict",
        0,
        claim_id=known.id,
        key=key.key,
        key_source=known.key_source,
        first_received_at=known.first_received_at,
        reason=conflict.reason,
        fields=conflict.fields,
    )


def _record(tx: Transaction, delivery: Delivery, verdict: Verdict, http_status: int | None) -> Verdict:
    """Writes the delivery's row. What was answered 200 gets its status after the answer."""
    warnings = [*delivery.warnings, *verdict.warnings]
    delivery_id = tx.insert(
        "deliveries",
        {
            "received_at": delivery.received_at,
            "source_id": delivery.source_id,
            "verdict": verdict.kind,
            "http_status": http_status,
            "reason": verdict.reason,
            "fields": msgspec.json.encode(list(verdict.fields)).decode(),
            "detail": verdict.detail,
            "claim_id": verdict.claim_id,
            "key": verdict.key,
            "warnings": msgspec.json.encode(warnings).decode(),
        },
    )
    tx.insert("bodies", {"delivery_id": delivery_id, "body": delivery.body})
    return replace(verdict, delivery_id=delivery_id, warnings=tuple(warnings))
