"""The reconciler: ledger against broker, section by section; the broker's word is shown, never guessed.

It books fills that the ledger lacks and reports everything else. External orders and positions are named
and never touched. A section that could not be read is UNKNOWN, never empty or flat.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from app.brokers.base import Broker, BrokerOrder, Fill, LookupFailed, Snapshot
from app.clock import SECOND, Clock
from app.domain.order import UNRESOLVED, State
from app.domain.sizing import WIDE, ZERO
from app.execution import replies
from app.execution.resolver import DEADLINE
from app.ledger import orders
from app.ledger.orders import OPEN, Order, plain
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

MOST_WATCHED = 50
"""Orders called absent that a pass looks for one by one, the newest; a snapshot shows the others."""
OVERLAP = 120 * SECOND
"""Fills are asked for from this long before the last good pass, so that none falls between two."""

Looks = dict[str, tuple[BrokerOrder | None, list[Fill]]]
"""By client order id: what a look at that one order showed."""


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
    active: list[str] = field(default_factory=list)
    """Instruments on which we traded meanwhile: what they seem to show is void (HOLES H37)."""
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        symbols = sorted({*self.expected, *self.broker})
        return {
            "matched": self.matched,
            "fills_added": self.fills_added,
            "reason": self.reason,
            "active": self.active,
            "positions": [
                {
                    "symbol": symbol,
                    "expected": plain(self.expected.get(symbol, ZERO)),
                    "broker": plain(self.broker.get(symbol, ZERO)),
                }
                for symbol in symbols
            ],
        }


@dataclass(frozen=True, slots=True)
class _Start:
    """What the ledger held when the pass began; row ids only ever grow, so they tell what came since."""

    since: int
    working: tuple[str, ...]
    watched: tuple[str, ...]
    last_fill: int
    last_attempt: int


async def reconcile(
    writer: Writer,
    reader: Reader,
    broker: Broker,
    account: str,
    clock: Clock,
    cause: str,
    tolerance: Decimal,
    ghost_watch: int,
) -> Report:
    """Reads the broker once and records what it means. A failed read is a FAILED report, not an exception.

    `tolerance` is how far books and broker may differ on an instrument before that is drift; `ghost_watch`,
    in microseconds, how long what was called absent is still looked for.
    """
    report = Report(account, cause, clock.now())
    start = await reader.call(
        lambda db: _start(Transaction(db, set()), account, report.started_at, ghost_watch)
    )
    try:
        looks = await _look(broker, (*start.working, *start.watched))
        snapshot = await broker.snapshot(start.since)
        absent = await reader.call(lambda db: _called_absent(Transaction(db, set()), account, snapshot))
        looks |= await _look(broker, (cid for cid in absent if cid not in looks))
    except LookupFailed as error:
        report.reason = str(error) or "the broker could not be read"
        report.findings = [Finding("critical", "section_failed", account, report.reason)]
        report.ended_at = clock.now()
        await writer.run(lambda tx: _write(tx, report))
        return report

    def compare(tx: Transaction) -> Report:
        # Made anew each time: the writer may run an operation again.
        return _compare(
            tx, Report(account, cause, report.started_at, clock.now()), start, looks, snapshot, tolerance
        )

    return await writer.run(compare)


async def _look(broker: Broker, client_order_ids: Iterable[str]) -> Looks:
    return {cid: (await broker.find(cid), await broker.fills(cid)) for cid in client_order_ids}


def _start(tx: Transaction, account: str, now: int, ghost_watch: int) -> _Start:
    good = tx.one(
        "SELECT started_at FROM reconciliations WHERE account = ? AND result IN ('OK', 'FINDINGS') "
        "ORDER BY id DESC LIMIT 1",
        (account,),
    )
    working = orders.where(tx, f"{OPEN} AND account = ? AND state = 'WORKING'", (account,))
    return _Start(
        # A clock that was set back must not leave out what was filled since.
        since=0 if good is None else max(0, min(good[0], now) - OVERLAP),
        working=tuple(order.client_order_id for order in working if order.client_order_id),
        watched=_ghost_watch(tx, account, now - ghost_watch),
        last_fill=_last_id(tx, "fills"),
        last_attempt=_last_id(tx, "attempts"),
    )


def _ghost_watch(tx: Transaction, account: str, since: int) -> tuple[str, ...]:
    """Ids of orders that no look has found and that may be there all the same: called absent lately, or a
    person's for want of proof."""
    rows = tx.execute(
        "SELECT DISTINCT o.client_order_id FROM evidence e CROSS JOIN orders o ON o.id = e.order_id "
        "WHERE e.result = 'absent' AND o.account = ? AND o.client_order_id IS NOT NULL AND "
        "(o.state = 'NOT_PLACED' AND o.updated_at >= ? OR o.state = 'NEEDS_OPERATOR' AND o.reason LIKE ?) "
        "ORDER BY o.id DESC LIMIT ?",
        (account, since, f"{DEADLINE}%", MOST_WATCHED),
    )
    return tuple(str(cid) for (cid,) in rows)


def _last_id(tx: Transaction, table: str) -> int:
    row = tx.one(f"SELECT coalesce(max(id), 0) FROM {table}")
    return int(row[0]) if row else 0


def _by_id(tx: Transaction, account: str, client_order_id: str | None) -> Order | None:
    if client_order_id is None:
        return None
    found = orders.where(tx, "account = ? AND client_order_id = ?", (account, client_order_id))
    return found[0] if found else None


def _called_absent(tx: Transaction, account: str, snapshot: Snapshot) -> list[str]:
    """Ids that the broker shows although our orders of that id were proved never to have got there."""
    named = {order.client_order_id for order in snapshot.open_orders}
    named |= {fill.client_order_id for fill in snapshot.fills}
    known = [(cid, _by_id(tx, account, cid)) for cid in sorted(cid for cid in named if cid is not None)]
    gone = (State.NOT_PLACED, State.DENIED)
    return [cid for cid, order in known if order is not None and order.state in gone]


def _compare(
    tx: Transaction, report: Report, start: _Start, looks: Looks, snapshot: Snapshot, tolerance: Decimal
) -> Report:
    active = _active(tx, report.account, start)
    count = "SELECT count(*) FROM fills WHERE account = ? AND id > ?"
    before = tx.execute(count, (report.account, start.last_fill))[0][0]
    for cid, (seen, fills) in looks.items():
        _look_into(tx, report, cid, seen, fills)
    for seen in snapshot.open_orders:
        if _by_id(tx, report.account, seen.client_order_id) is None:
            what = f"{seen.side} {plain(seen.quantity)} {seen.instrument} {seen.status}"
            report.findings.append(Finding("info", "external_order", seen.broker_order_id, what))
    for fill in snapshot.fills:
        _book(tx, report, fill)
    report.fills_added = tx.execute(count, (report.account, start.last_fill))[0][0] - before
    _positions(tx, report, snapshot, active, tolerance)
    report.result = "FINDINGS" if report.findings else "OK"
    _write(tx, report)
    return report


def _active(tx: Transaction, account: str, start: _Start) -> set[str]:
    """Instruments with an order sent or a fill booked since the pass began, or with an order in doubt."""
    marks = ", ".join("?" * len(UNRESOLVED))
    doubt = f"SELECT instrument FROM orders WHERE {OPEN} AND account = ? AND state IN ({marks})"
    rows = tx.execute(doubt, (account, *sorted(state.value for state in UNRESOLVED)))
    for table, last in (("attempts", start.last_attempt), ("fills", start.last_fill)):
        since = f"SELECT o.instrument FROM {table} t CROSS JOIN orders o ON o.id = t.order_id "
        rows += tx.execute(f"{since} WHERE t.id > ? AND o.account = ?", (last, account))
    return {str(instrument) for (instrument,) in rows}


def _look_into(
    tx: Transaction, report: Report, cid: str, seen: BrokerOrder | None, fills: list[Fill]
) -> None:
    order = _by_id(tx, report.account, cid)
    if order is None:
        return
    if order.state in (State.NOT_PLACED, State.DENIED):
        if seen is not None or fills:
            report.findings.append(Finding("critical", "ghost", order.name, "called absent, found after all"))
            if order.state is State.NOT_PLACED:
                there = None if seen is None else seen.broker_order_id
                tx.event(report.ended_at, "reconciler", "ghost found", order.name, {"broker_order_id": there})
        if seen is None or order.state is State.DENIED:
            return
    elif seen is None:
        if order.state is State.WORKING:
            what = "open here, unknown there"
            report.findings.append(Finding("critical", "missing_at_broker", order.name, what))
        return
    replies.merge(tx, order, seen, fills, report.ended_at)
    report.matched += 1


def _book(tx: Transaction, report: Report, fill: Fill) -> None:
    order = _by_id(tx, report.account, fill.client_order_id)
    if order is None:
        what = f"{fill.side} {plain(fill.quantity)} {fill.instrument} at {plain(fill.price)}"
        report.findings.append(Finding("info", "external_fill", fill.exec_id, what))
    elif order.state in (State.WORKING, State.DONE):
        replies.book_fills(tx, order, [fill], report.ended_at)


def _positions(
    tx: Transaction, report: Report, snapshot: Snapshot, active: set[str], tolerance: Decimal
) -> None:
    for book in orders.books(tx, report.account):
        report.expected[book.instrument] = WIDE.add(report.expected.get(book.instrument, ZERO), book.net)
    report.broker = {name: position for name, position in snapshot.positions.items() if position != ZERO}
    for symbol in sorted({*report.expected, *report.broker}):
        expected, actual = report.expected.get(symbol, ZERO), report.broker.get(symbol, ZERO)
        if abs(WIDE.subtract(expected, actual)) <= tolerance:
            continue
        if symbol in active:
            report.active.append(symbol)
            continue
        what = f"expected={plain(expected)} broker={plain(actual)}"
        report.findings.append(Finding("warning", "drift", symbol, what))


def _write(tx: Transaction, report: Report) -> None:
    # By them Needs you sees whether what was found is still what there is.
    last = {"last_fill": _last_id(tx, "fills"), "last_adjustment": _last_id(tx, "adjustments")}
    number = tx.insert(
        "reconciliations",
        {
            "account": report.account,
            "cause": report.cause,
            "started_at": report.started_at,
            "ended_at": report.ended_at,
            "result": report.result,
            "report": msgspec.json.encode({**report.as_json(), **last}).decode(),
        },
    )
    for finding in report.findings:
        row = {"severity": finding.severity, "kind": finding.kind}
        tx.insert(
            "findings",
            {"reconciliation_id": number, **row, "subject": finding.subject, "detail": finding.detail},
        )
