"""The reconciler: ledger against broker, section by section; the broker's word is shown, never guessed.

One pass reads the broker and then, in one transaction, writes down what it means. A section that could not be
read is UNKNOWN, never empty or flat; what we did ourselves meanwhile makes it read again, and void at last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import apsw
import msgspec

from app.brokers.base import Account, Broker, LookupFailed, RateLimited, Snapshot
from app.clock import SECOND, Clock
from app.domain.order import UNRESOLVED, State
from app.domain.sizing import ZERO
from app.execution import comparing, positions
from app.execution.comparing import Looks, by_id
from app.execution.ids import must_look_first
from app.execution.policy import Policy
from app.execution.report import Finding, Report
from app.execution.resolver import DEADLINE
from app.ledger import orders
from app.ledger.orders import OPEN
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

__all__ = ["Finding", "Report", "reconcile"]

MOST_WATCHED = 50
"""Orders called absent that a pass looks for one by one, the newest; a snapshot shows the others."""
WATCHED_A_PASS = 5
"""So many of them where the venue counts requests, in turn."""
OVERLAP = 120 * SECOND
"""Fills are asked for from this long before the last good pass, so that none falls between two."""
LOOKBACK = 24 * 3_600 * SECOND
"""How far back the first pass of an account behind a wire reads."""
TRIES = 3
"""So often a pass is made anew when something moved meanwhile; then that instrument is void (HOLES H37)."""


@dataclass(frozen=True, slots=True)
class _Start:
    """What the ledger held when the pass began; row ids only ever grow, so they tell what came since."""

    since: int
    working: tuple[str, ...]
    watched: tuple[str, ...]
    last_fill: int
    last_attempt: int
    first: bool
    """No pass was ever complete, and nothing of ours ever filled there."""


async def reconcile(
    writer: Writer,
    reader: Reader,
    broker: Broker,
    policy: Policy,
    account: Account,
    clock: Clock,
    cause: str,
) -> Report:
    """Reads the broker and records what it means. A failed read is a FAILED report, not an exception.

    `account` is who the session is. Raises RateLimited, which counts as nothing.
    """
    name, started_at, number = policy.name, clock.now(), 0
    while True:
        number += 1
        start = await reader.call(lambda db: _start(Transaction(db, set()), policy, broker, clock.now()))
        try:
            looks, snapshot = await _read(reader, broker, name, start)
            if snapshot.account.identity != account.identity:
                raise LookupFailed(f"another account answers: {snapshot.account.identity}")
        except RateLimited:
            raise
        except LookupFailed as error:
            failed = Report(name, cause, started_at, clock.now(), tries=number)
            failed.reason = str(error) or "the broker could not be read"
            failed.findings = [Finding("critical", "section_failed", name, failed.reason)]
            await writer.run(partial(_write, report=failed))
            return failed
        if number >= TRIES or not await reader.call(_moved(name, start, snapshot)):
            break

    def compare(tx: Transaction) -> Report:
        # Made anew each time: the writer may run an operation again.
        report = Report(name, cause, started_at, clock.now(), tries=number)
        return _compare(tx, report, start, looks, snapshot, policy)

    return await writer.run(compare)


# ------------------------------------------------------------------------------------------- what is read


async def _read(reader: Reader, broker: Broker, account: str, start: _Start) -> tuple[Looks, Snapshot]:
    looks = await _look(broker, start.watched)
    snapshot = await broker.snapshot(start.since)
    shown = {one.client_order_id: one for one in (*snapshot.recent_orders, *snapshot.open_orders)}
    absent = await reader.call(lambda db: _called_absent(Transaction(db, set()), account, snapshot))
    further = [cid for cid in (*start.working, *absent) if cid not in looks]
    # A list that shows an order with all its fills says what a look at it would.
    complete = {cid for cid, one in shown.items() if cid is not None and _has_all_fills(cid, snapshot)}
    looks |= await _look(broker, (cid for cid in further if cid not in complete))
    return looks, snapshot


async def _look(broker: Broker, client_order_ids: Iterable[str]) -> Looks:
    found: Looks = {}
    for cid in client_order_ids:
        seen = await broker.find(cid)
        if seen is not None and seen.client_order_id != cid:
            raise LookupFailed(f"asked for one order, another came back: {seen.client_order_id}")
        found[cid] = (seen, await broker.fills(cid))
    return found


def _has_all_fills(client_order_id: str, snapshot: Snapshot) -> bool:
    if "fills" in snapshot.failed:
        return False
    listed = [one for one in snapshot.recent_orders if one.client_order_id == client_order_id]
    listed += [one for one in snapshot.open_orders if one.client_order_id == client_order_id]
    filled = sum((fill.quantity for fill in snapshot.fills if fill.client_order_id == client_order_id), ZERO)
    return all(one.filled_quantity == filled for one in listed)


def _start(tx: Transaction, policy: Policy, broker: Broker, now: int) -> _Start:
    account = policy.name
    good = tx.one(
        "SELECT started_at FROM reconciliations WHERE account = ? AND result IN ('OK', 'FINDINGS') "
        "ORDER BY id DESC LIMIT 1",
        (account,),
    )
    working = orders.where(tx, f"{OPEN} AND account = ? AND state = 'WORKING'", (account,))
    # A clock that was set back must not leave out what was filled since.
    since = 0 if good is None else max(0, min(good[0], now) - OVERLAP)
    if good is None and not broker.facts.absence_is_immediate:
        since = max(0, now - LOOKBACK)
    watched = _ghost_watch(tx, account, now - policy.ghost_watch)
    if broker.facts.requests_per_minute is not None and len(watched) > WATCHED_A_PASS:
        turn = (_last_id(tx, "reconciliations") * WATCHED_A_PASS) % len(watched)
        watched = (watched[turn:] + watched[:turn])[:WATCHED_A_PASS]
    filled = tx.one("SELECT 1 FROM fills WHERE account = ? LIMIT 1", (account,))
    return _Start(
        since=since,
        working=tuple(order.client_order_id for order in working if order.client_order_id),
        watched=watched,
        last_fill=_last_id(tx, "fills"),
        last_attempt=_last_id(tx, "attempts"),
        # What a ledger that went back in time has lost is not another's.
        first=good is None and filled is None and not must_look_first(tx),
    )


def _ghost_watch(tx: Transaction, account: str, since: int) -> tuple[str, ...]:
    """Ids of orders that no look has found and that may be there all the same: called absent lately, or a
    person's for want of proof."""
    absent = tx.execute(
        "SELECT DISTINCT o.id, o.client_order_id FROM evidence e CROSS JOIN orders o ON o.id = e.order_id "
        "WHERE e.result = 'absent' AND o.account = ? AND o.client_order_id IS NOT NULL AND "
        "o.state = 'NOT_PLACED' AND o.updated_at >= ? ORDER BY o.id DESC LIMIT ?",
        (account, since, MOST_WATCHED),
    )
    undecided = tx.execute(
        f"SELECT id, client_order_id FROM orders WHERE {OPEN} AND account = ? "
        "AND client_order_id IS NOT NULL AND state = 'NEEDS_OPERATOR' AND reason LIKE ? "
        "ORDER BY id DESC LIMIT ?",
        (account, f"{DEADLINE}%", MOST_WATCHED),
    )
    newest = sorted({*map(tuple, absent), *map(tuple, undecided)}, reverse=True)[:MOST_WATCHED]
    return tuple(str(cid) for _, cid in newest)


def _last_id(tx: Transaction, table: str) -> int:
    row = tx.one(f"SELECT coalesce(max(id), 0) FROM {table}")
    return int(row[0]) if row else 0


def _called_absent(tx: Transaction, account: str, snapshot: Snapshot) -> list[str]:
    """Ids that the broker shows although our orders of that id were proved never to have got there."""
    named = {order.client_order_id for order in (*snapshot.open_orders, *snapshot.recent_orders)}
    named |= {fill.client_order_id for fill in snapshot.fills}
    known = [(cid, by_id(tx, account, cid)) for cid in sorted(cid for cid in named if cid is not None)]
    gone = (State.NOT_PLACED, State.DENIED)
    return [cid for cid, order in known if order is not None and order.state in gone]


# ------------------------------------------------------------------------------------------- what moved


def _moved(account: str, start: _Start, snapshot: Snapshot) -> Callable[[apsw.Connection], bool]:
    """Whether a position changed during the pass, or we traded: then it is made anew."""
    return lambda db: bool(_changed(snapshot) or _traded(Transaction(db, set()), account, start))


def _changed(snapshot: Snapshot) -> set[str]:
    """Instruments whose position was another before orders and fills were read than after."""
    if "positions" in snapshot.failed:
        return set()
    before, after = snapshot.positions_before, snapshot.positions
    return {name for name in {*before, *after} if before.get(name, ZERO) != after.get(name, ZERO)}


def _traded(tx: Transaction, account: str, start: _Start) -> set[str]:
    """Instruments with an order sent or a fill booked since the pass began."""
    found: set[str] = set()
    for table, last in (("attempts", start.last_attempt), ("fills", start.last_fill)):
        since = f"SELECT o.instrument FROM {table} t CROSS JOIN orders o ON o.id = t.order_id "
        rows = tx.execute(f"{since} WHERE t.id > ? AND o.account = ?", (last, account))
        found |= {str(instrument) for (instrument,) in rows}
    return found


def _in_doubt(tx: Transaction, account: str) -> set[str]:
    marks = ", ".join("?" * len(UNRESOLVED))
    doubt = f"SELECT instrument FROM orders WHERE {OPEN} AND account = ? AND state IN ({marks})"
    rows = tx.execute(doubt, (account, *sorted(state.value for state in UNRESOLVED)))
    return {str(instrument) for (instrument,) in rows}


# ------------------------------------------------------------------------------------------- what it means


def _compare(
    tx: Transaction, report: Report, start: _Start, looks: Looks, snapshot: Snapshot, policy: Policy
) -> Report:
    report.since, report.clock_offset = start.since, snapshot.clock_offset
    report.pages, report.requests = snapshot.pages, snapshot.requests
    report.note_sections(snapshot.failed)
    active = _traded(tx, report.account, start) | _in_doubt(tx, report.account) | _changed(snapshot)
    count = "SELECT count(*) FROM fills WHERE account = ? AND id > ?"
    before = tx.execute(count, (report.account, start.last_fill))[0][0]
    comparing.compare_orders(tx, report, snapshot, looks)
    comparing.book_fills(tx, report, snapshot, first=start.first)
    report.fills_added = tx.execute(count, (report.account, start.last_fill))[0][0] - before
    _unresolved(tx, report, policy)
    positions.compare(tx, report, snapshot, active, policy.drift_tolerance, first=start.first)
    report.result = "PARTIAL" if report.is_partial else "FINDINGS" if report.findings else "OK"
    if report.is_partial:
        report.reason = "; ".join(f"{name}: {said}" for name, said in report.sections.items() if said != "ok")
    _write(tx, report)
    return report


def _unresolved(tx: Transaction, report: Report, policy: Policy) -> None:
    states = "state IN ('AMBIGUOUS', 'NEEDS_OPERATOR')"
    for order in orders.where(tx, f"{OPEN} AND account = ? AND {states}", (report.account,)):
        seen = tx.one("SELECT count(*), max(at) FROM attempts WHERE order_id = ?", (order.id,))
        looks = tx.one(
            "SELECT sum(result = 'absent'), sum(result = 'failed') FROM evidence WHERE order_id = ?",
            (order.id,),
        )
        age = (report.ended_at - order.created_at) // SECOND
        report.ambiguous.append(
            {
                "order": order.name,
                "state": order.state.value,
                "age_s": age,
                "attempts": seen[0] if seen else 0,
                "looks_absent": (looks[0] or 0) if looks else 0,
                "looks_failed": (looks[1] or 0) if looks else 0,
                "reason": order.reason,
            }
        )


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
