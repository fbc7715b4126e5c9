"""The claim store that is the ledger alone: one transaction decides, and only its commit is an answer.

No check happens outside that transaction, and nothing is remembered in memory between two of them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable

from app.claims import rows
from app.claims.admission import admit, exits_of, is_against_a_book
from app.claims.base import Admission, Delivery, Refusal, Verdict
from app.claims.gathered import Gathered
from app.claims.rows import Context
from app.claims.voided import mark_unanswered
from app.clock import SECOND, Clock
from app.domain.key import ChosenKey
from app.domain.signal import Signal
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

HOUR = 3_600 * SECOND

LATE = Refusal(503, "not_accepted", "late")


class LedgerClaimStore:
    """`instrument_of(account, symbol, exchange)` maps an alert's symbol to an account's own spelling."""

    def __init__(
        self, writer: Writer, clock: Clock, instrument_of: Callable[[str, str, str | None], str]
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._context = Context(run=uuid.uuid4().hex, instrument_of=instrument_of)
        self._answers: Gathered[tuple[int, int, int]] = Gathered(writer, clock, _write_answers)
        self._turned_away: Gathered[tuple[int, str]] = Gathered(writer, clock, _write_turned_away)

    @property
    def context(self) -> Context:
        """This run's, for what a person claims beside the door."""
        return self._context

    def claim(
        self, admission: Admission, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket
    ) -> asyncio.Future[Verdict]:
        def operation(tx: Transaction) -> Verdict:
            return admit(tx, self._context, admission, delivery, signal, key)

        def on_void(tx: Transaction, verdict: Verdict) -> None:
            mark_unanswered(tx, delivery, verdict)

        def never_ran(tx: Transaction) -> None:
            is_exit = any(exits_of(tx, self._context, admission, signal).values())
            said = (rows.EXIT_NOT_PLACED,) if is_exit else ()
            _record(tx, self._context, delivery, LATE, key.key, said)

        # Decisions about one key rest on each other; of different keys none does.
        return self._writer.submit(
            operation,
            ticket=ticket,
            on_void=on_void,
            about=(delivery.source_id, key.key),
            on_unrun=lambda: self._writer.post(never_ran),
        )

    async def refuse(self, delivery: Delivery, refusal: Refusal, key: str | None, ticket: Ticket) -> int:
        # Rests on nothing, and nothing rests on it: its ticket is as good a name as any.
        return await self._writer.run(
            lambda tx: _record(tx, self._context, delivery, refusal, key), ticket=ticket, about=ticket
        )

    def answered(self, delivery_id: int, http_status: int, ack_us: int) -> None:
        self._answers.add((http_status, ack_us, delivery_id))

    def unanswered(self, delivery: Delivery, refusal: Refusal, key: str | None = None) -> None:
        self._writer.post(lambda tx: _record(tx, self._context, delivery, refusal, key))

    def count_unauthenticated(self, reason: str) -> None:
        """Counted in memory and written together, so that a flood costs one row an hour and reason.

        What is counted while the ledger cannot be written is lost.
        """
        self._turned_away.add((self._clock.now() // HOUR * HOUR, reason))

    @property
    def refuses_at_once(self) -> str | None:
        return self._writer.health.word if self._writer.is_overdue else None


def _write_answers(tx: Transaction, answers: Counter[tuple[int, int, int]]) -> None:
    for answer in answers:
        tx.change("deliveries", "UPDATE deliveries SET http_status = ?, ack_us = ? WHERE id = ?", answer)


def _write_turned_away(tx: Transaction, counted: Counter[tuple[int, str]]) -> None:
    for (hour, reason), count in sorted(counted.items()):
        sql = "UPDATE unauthenticated SET count = count + ? WHERE hour = ? AND reason = ?"
        if not tx.change("unauthenticated", sql, (count, hour, reason)):
            tx.insert("unauthenticated", {"hour": hour, "reason": reason, "count": count})


def _record(
    tx: Transaction,
    context: Context,
    delivery: Delivery,
    refusal: Refusal,
    key: str | None,
    warnings: tuple[str, ...] = (),
) -> int:
    """The row of a delivery that claims nothing, marked where it is an exit; returns its id."""
    warnings = (*delivery.warnings, *warnings)
    if rows.EXIT_NOT_PLACED not in warnings and is_against_a_book(tx, context, delivery):
        warnings += (rows.EXIT_NOT_PLACED,)
    return rows.insert_delivery(
        tx,
        delivery,
        verdict=refusal.verdict,
        http_status=refusal.http_status,
        reason=refusal.reason,
        key=key,
        fields=refusal.fields,
        detail=refusal.detail,
        warnings=warnings,
    )
