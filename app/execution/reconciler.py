"""The reconciler: ledger against broker, section by section; the broker's word is shown, never guessed.

It books fills that the ledger lacks and reports everything else. External orders and positions are named
and never touched. A section that could not be read is UNKNOWN, never empty or flat.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from app.brokers.base import Broker, BrokerOrder, Fill, LookupFailed, Snapshot
from app.clock import SECOND, Clock
from app.domain.order import State
from app.execution import replies
from app.ledger import orders
from app.ledger.orders import plain
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

ZERO = Decimal(0)
OVERLAP = 120 * SECOND
"""Fills are asked for from this long before the last good pass, so that none falls between two."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`severity` is info, warning or critical; `kind` a stable word; `subject` an order, symbol or id."""

    severity: str
    kind: str
    subject: str
    detail: str


@dataclass(slots=True)
class Report:
    """One pass over one account. `result` is OK, FINDINGS, PARTIAL or FAILED; times are UTC microseconds."""

    account: str
    cause: str
    started_at: int
    ended_at: int = 0
    result: str = "FAILED"
    reason: str = ""
    matched: int = 0
    fills_added: int = 0
    expected: dict[str, Decimal] = field(default_factory=dict)
    broker: dict[str, Decimal] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        symbols = sorted({*self.expected, *self.broker})
        return {
            "matched": self.matched,
            "fills_added": self.fills_added,
            "reason": self.reason,
            "positions": [
                {
                    "symbol": symbol,
                    "expected": plain(self.expected.get(symbol, ZERO)),
                    "broker": plain(self.broker.get(symbol, ZERO)),
                }
                for symbol in symbols
            ],
        }


async def reconcile(
    writer: Writer, reader: Reader, broker: Broker, account: str, clock: Clock, cause: str
) -> Report:
    """Reads the broker once and records what it means. A failed read is a FAILED report, not an exception."""
    report = Report(account, cause, clock.now())
    try:
        since = await reader.call(lambda db: _since(Transaction(db, set()), account))
        looks = await reader.call(lambda db: _open_here(Transaction(db, set()), account))
        by_id = {cid: (await broker.find(cid), await broker.fills(cid)) for cid in looks}
        snapshot = await broker.snapshot(since)
    except LookupFailed as error:
        report.reason = str(error) or "the broker could not be read"
        report.findings = [Finding("critical", "section_failed", account, report.reason)]
        report.ended_at = clock.now()
        await writer.run(lambda tx: _write(tx, report))
        return report
    return await writer.run(
        lambda tx: _compare(tx, account, cause, report.started_at, clock.now(), by_id, snapshot)
    )


def _since(tx: Transaction, account: str) -> int:
    row = tx.one(
        "SELECT max(started_at) FROM reconciliations WHERE account = ? AND result IN ('OK', 'FINDINGS')",
        (account,),
    )
    return max(0, row[0] - OVERLAP) if row and row[0] is not None else 0


def _open_here(tx: Transaction, account: str) -> list[str]:
    rows = orders.where(tx, "account = ? AND state = 'WORKING' AND client_order_id IS NOT NULL", (account,))
    return [order.client_order_id for order in rows if order.client_order_id]


def _compare(
    tx: Transaction,
    account: str,
    cause: str,
    started_at: int,
    now: int,
    by_id: dict[str, tuple[BrokerOrder | None, list[Fill]]],
    snapshot: Snapshot,
) -> Report:
    report = Report(account, cause, started_at, now)
    seen_ids = {*by_id, *(order.client_order_id for order in snapshot.open_orders)}
    seen_ids |= {fill.client_order_id for fill in snapshot.fills}
    ours = {
        cid: order
        for cid in seen_ids
        if cid is not None
        for order in orders.where(tx, "account = ? AND client_order_id = ?", (account, cid))
    }
    count = "SELECT count(*) FROM fills WHERE account = ?"
    before = tx.execute(count, (account,))[0][0]
    _orders(tx, report, ours, by_id, snapshot, now)
    _fills(tx, report, ours, snapshot, now)
    report.fills_added = tx.execute(count, (account,))[0][0] - before
    _positions(tx, report, snapshot)
    report.result = "FINDINGS" if report.findings else "OK"
    _write(tx, report)
    return report


def _orders(
    tx: Transaction,
    report: Report,
    ours: dict[str, orders.Order],
    by_id: dict[str, tuple[BrokerOrder | None, list[Fill]]],
    snapshot: Snapshot,
    now: int,
) -> None:
    for cid, (seen, fills) in by_id.items():
        order = orders.get(tx, ours[cid].id)
        if seen is not None:
            replies.merge(tx, order, seen, fills, now)
            report.matched += 1
        elif order.state is State.WORKING:
            report.findings.append(
                Finding("critical", "missing_at_broker", order.name, "open here, unknown there")
            )
    for seen in snapshot.open_orders:
        known = ours.get(seen.client_order_id or "")
        if known is None:
            what = f"{seen.side} {plain(seen.quantity)} {seen.instrument} {seen.status}"
            report.findings.append(Finding("info", "external_order", seen.broker_order_id, what))
        elif known.state is State.NOT_PLACED:
            replies.merge(tx, orders.get(tx, known.id), seen, (), now)
            report.findings.append(Finding("critical", "ghost", known.name, "called absent, found after all"))


def _fills(
    tx: Transaction, report: Report, ours: dict[str, orders.Order], snapshot: Snapshot, now: int
) -> None:
    for fill in snapshot.fills:
        known = ours.get(fill.client_order_id or "")
        if known is None:
            what = f"{fill.side} {plain(fill.quantity)} {fill.instrument} at {plain(fill.price)}"
            report.findings.append(Finding("info", "external_fill", fill.exec_id, what))
            continue
        order = orders.get(tx, known.id)
        if order.state in (State.WORKING, State.DONE):
            booked = orders.BookedFill(fill.exec_id, fill.quantity, fill.price, fill.fee, fill.at)
            orders.add_fills(tx, order, [booked], at=now)


def _positions(tx: Transaction, report: Report, snapshot: Snapshot) -> None:
    for instrument, _, _, net in orders.books(tx, report.account):
        report.expected[instrument] = report.expected.get(instrument, ZERO) + net
    report.broker = {name: position for name, position in snapshot.positions.items() if position != ZERO}
    for symbol in sorted({*report.expected, *report.broker}):
        expected, actual = report.expected.get(symbol, ZERO), report.broker.get(symbol, ZERO)
        if expected != actual:
            what = f"expected={plain(expected)} broker={plain(actual)}"
            report.findings.append(Finding("warning", "drift", symbol, what))


def _write(tx: Transaction, report: Report) -> None:
    number = tx.insert(
        "reconciliations",
        {
            "account": report.account,
            "cause": report.cause,
            "started_at": report.started_at,
            "ended_at": report.ended_at,
            "result": report.result,
            "report": msgspec.json.encode(report.as_json()).decode(),
        },
    )
    for finding in report.findings:
        row = {"severity": finding.severity, "kind": finding.kind}
        tx.insert(
            "findings",
            {"reconciliation_id": number, **row, "subject": finding.subject, "detail": finding.detail},
        )
