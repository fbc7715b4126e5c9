"""Taking back what a sender was told 503 for, although it is, or may be, on disk (HOLES H17, H19).

The claim stays, so that its key can never be claimed twice; but no lane takes it, and a resend is admitted
as if it were the first. Everything here may run twice, and may find that nothing is there.
"""

from __future__ import annotations

import msgspec

from app.claims import rows
from app.claims.admission import CLAIMED, CLAIMED_AGAIN
from app.claims.base import Delivery, Verdict
from app.ledger.transaction import Transaction

VOIDED = "claim answered 503"
"""The event that names a claim whose sender was told 503: its digest, and which admission was meant."""

_APPLIED = "voided_applied"


def mark_unanswered(tx: Transaction, delivery: Delivery, verdict: Verdict) -> None:
    """Undoes `verdict`, in the very next transaction after its own, before anything else is written."""
    row = tx.one(
        "SELECT http_status FROM deliveries WHERE id = ? AND received_at = ?",
        (verdict.delivery_id, delivery.received_at),
    )
    if row is None:
        _record_lost(tx, delivery, verdict)
    elif row[0] is None:  # else it was done before
        _take_back(tx, delivery, verdict)


def apply_voided(tx: Transaction) -> int:
    """At start: marks once more what earlier runs have told 503 and what is on disk after all.

    A COMMIT that raised may turn out to be whole when the ledger is opened again. Returns how many claims it
    has marked. A claim that was admitted again since then, or of which something was sent, is left alone.
    """
    last = int(tx.meta(_APPLIED) or 0)
    newest = tx.one("SELECT coalesce(max(id), 0) FROM events")
    marked = 0
    for number, text in tx.execute(
        "SELECT id, detail FROM events WHERE what = ? AND id > ? ORDER BY id", (VOIDED, last)
    ):
        detail = msgspec.json.decode(text)
        marked += _void_again(tx, number, bytes.fromhex(detail["digest"]), detail["admitted_at"])
    if newest is not None and newest[0] != last:
        tx.set_meta(_APPLIED, str(newest[0]))
    return marked


def _take_back(tx: Transaction, delivery: Delivery, verdict: Verdict) -> None:
    if verdict.kind == "accepted" and verdict.digest is not None:
        _unanswer(tx, verdict.digest, verdict.admitted_at)
        _name(tx, delivery, verdict, f"S{verdict.claim_id}")
    elif verdict.kind == "duplicate":
        sql = "UPDATE claims SET deliveries = deliveries - 1 WHERE id = ?"
        tx.change("claims", sql, (verdict.claim_id,))
    _refuse_delivery(tx, "id = ?", verdict.delivery_id)
    if verdict.reads_as_exit:
        warnings = msgspec.json.encode(_warnings(verdict)).decode()
        sql = "UPDATE deliveries SET warnings = ?, needs = 'exit' WHERE id = ?"
        tx.change("deliveries", sql, (warnings, verdict.delivery_id))


def _record_lost(tx: Transaction, delivery: Delivery, verdict: Verdict) -> None:
    """The commit was undone: its delivery is recorded anew, under the id that it had."""
    delivery_id = rows.insert_delivery(
        tx,
        delivery,
        verdict="not_accepted",
        http_status=503,
        reason="commit_failed",
        key=verdict.key,
        warnings=_warnings(verdict),
        row_id=verdict.delivery_id,
    )
    if verdict.kind == "accepted":
        # Not under the claim's id: another claim may get it.
        _name(tx, delivery, verdict, f"D{delivery_id}")


def _warnings(verdict: Verdict) -> tuple[str, ...]:
    said = (rows.EXIT_NOT_PLACED,) if verdict.reads_as_exit else ()
    return tuple(dict.fromkeys((*verdict.warnings, *said)))


def _name(tx: Transaction, delivery: Delivery, verdict: Verdict, subject: str) -> None:
    digest = verdict.digest.hex() if verdict.digest is not None else ""
    detail = {"digest": digest, "admitted_at": verdict.admitted_at}
    tx.event(delivery.received_at, "onefill", VOIDED, subject, detail)


def _void_again(tx: Transaction, number: int, digest: bytes, admitted_at: int) -> int:
    row = tx.one("SELECT id FROM claims WHERE digest = ?", (digest,))
    if row is None:
        return 0
    since = tx.one(
        "SELECT 1 FROM events WHERE subject = ? AND id > ? AND what IN (?, ?) "
        "UNION ALL SELECT 1 FROM attempts a JOIN orders o ON o.id = a.order_id WHERE o.claim_id = ?",
        (f"S{row[0]}", number, CLAIMED, CLAIMED_AGAIN, row[0]),
    )
    if since is not None or not _unanswer(tx, digest, admitted_at):
        return 0
    _refuse_delivery(tx, "verdict = 'accepted' AND claim_id = ? AND received_at = ?", row[0], admitted_at)
    return 1


def _unanswer(tx: Transaction, digest: bytes, admitted_at: int | None) -> int:
    return tx.change(
        "claims",
        "UPDATE claims SET unanswered = 1, deliveries = deliveries - 1 "
        "WHERE digest = ? AND admitted_at = ? AND unanswered = 0",
        (digest, admitted_at),
    )


def _refuse_delivery(tx: Transaction, condition: str, *bindings: int) -> None:
    tx.change(
        "deliveries",
        "UPDATE deliveries SET verdict = 'not_accepted', http_status = 503, reason = 'late' "
        f"WHERE {condition}",
        bindings,
    )
