"""The claim store that is the ledger alone: one transaction decides, and only its commit is an answer.

No check happens outside that transaction, and nothing is remembered in memory between two of them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from app.claims.admission import Context, admit, mark_unanswered
from app.claims.base import Admission, Delivery, Refusal, Verdict
from app.clock import SECOND, Clock
from app.domain.key import ChosenKey
from app.domain.signal import Signal
from app.ledger.errors import TicketLate
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

HOUR = 3_600 * SECOND


class LedgerClaimStore:
    """`instrument_of(account, symbol, exchange)` maps an alert's symbol to an account's own spelling."""

    def __init__(
        self, writer: Writer, clock: Clock, instrument_of: Callable[[str, str, str | None], str]
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._context = Context(run=uuid.uuid4().hex, instrument_of=instrument_of)
        self._unauthenticated: Counter[str] = Counter()

    async def claim(
        self, admission: Admission, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket
    ) -> Verdict:
        def operation(tx: Transaction) -> Verdict:
            return admit(tx, self._context, admission, delivery, signal, key)

        def on_void(tx: Transaction, verdict: Verdict) -> None:
            mark_unanswered(tx, delivery, verdict, self._clock.now())

        try:
            return await self._writer.run(operation, ticket=ticket, on_void=on_void)
        except TicketLate as late:
            if not late.ran:
                self.unanswered(delivery, Refusal(503, "not_accepted", "late"))
            raise

    async def refuse(self, delivery: Delivery, refusal: Refusal, key: str | None, ticket: Ticket) -> int:
        return await self._writer.run(lambda tx: record_refusal(tx, delivery, refusal, key), ticket=ticket)

    def answered(self, delivery_id: int, http_status: int, ack_us: int) -> None:
        self._writer.post(
            lambda tx: tx.change(
                "deliveries",
                "UPDATE deliveries SET http_status = ?, ack_us = ? WHERE id = ?",
                (http_status, ack_us, delivery_id),
            )
        )

    def unanswered(self, delivery: Delivery, refusal: Refusal) -> None:
        self._writer.post(lambda tx: record_refusal(tx, delivery, refusal, None))

    def count_unauthenticated(self, reason: str) -> None:
        """Counted in memory and written together, so that a flood costs one row an hour and reason."""
        first = not self._unauthenticated
        self._unauthenticated[reason] += 1
        if first:
            self._writer.post(self._write_counts)

    @property
    def refuses_at_once(self) -> str | None:
        return self._writer.health.word if self._writer.is_overdue else None

    def _write_counts(self, tx: Transaction) -> None:
        hour = self._clock.now() // HOUR * HOUR
        for reason, count in list(self._unauthenticated.items()):
            sql = "UPDATE unauthenticated SET count = count + ? WHERE hour = ? AND reason = ?"
            if not tx.change("unauthenticated", sql, (count, hour, reason)):
                tx.insert("unauthenticated", {"hour": hour, "reason": reason, "count": count})
            del self._unauthenticated[reason]


def record_refusal(tx: Transaction, delivery: Delivery, refusal: Refusal, key: str | None) -> int:
    """Writes the row of a delivery that claims nothing; returns its id."""
    values: dict[str, Any] = {
        "received_at": delivery.received_at,
        "source_id": delivery.source_id,
        "verdict": refusal.verdict,
        "http_status": refusal.http_status,
        "reason": refusal.reason,
        "fields": msgspec.json.encode(list(refusal.fields)).decode(),
        "detail": refusal.detail,
        "key": key,
        "warnings": msgspec.json.encode(list(delivery.warnings)).decode(),
    }
    delivery_id = tx.insert("deliveries", values)
    tx.insert("bodies", {"delivery_id": delivery_id, "body": delivery.body})
    return delivery_id
