"""The reconciler's transaction, for orders and fills: what the broker shows against what the ledger says.

It books fills that the ledger lacks and reports everything else. Orders and fills of another hand are named,
kept in a list of their own, and never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from app.brokers.base import BrokerOrder, Fill, Snapshot
from app.domain.order import State
from app.execution import positions, replies
from app.execution.report import Finding, Report
from app.execution.resolver import DEADLINE, DOUBLE, doubled
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction

log = structlog.get_logger(__name__)

OURS_PATTERN = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?8[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}")
"""A client order id as Onefill makes them: a UUID of version 8, dashed or not."""
TAKEN_UP = (DEADLINE, "MISSING_AT_BROKER", "OTHER_ACCOUNT")
"""Why a person was asked about an order that is simply ours again once it is found."""
LIQUIDATION = re.compile(r"^(autoclose|adl_autoclose|liquidation|margin[_-]?call)", re.IGNORECASE)

Looks = dict[str, tuple[BrokerOrder | None, list[Fill]]]
"""By client order id: what a look at that one order showed."""


def by_id(tx: Transaction, account: str, client_order_id: str | None) -> Order | None:
    if client_order_id is None:
        return None
    found = orders.where(tx, "account = ? AND client_order_id = ?", (account, client_order_id))
    return found[0] if found else None


def by_number(tx: Transaction, account: str, broker_order_id: str) -> Order | None:
    found = orders.where(tx, "account = ? AND broker_order_id = ?", (account, broker_order_id))
    return found[0] if found else None


def compare_orders(tx: Transaction, report: Report, snapshot: Snapshot, looks: Looks) -> None:
    """Every order that the broker shows, and every look at one order."""
    listed = {one.broker_order_id: one for one in (*snapshot.recent_orders, *snapshot.open_orders)}
    _find_doubles(tx, report, listed)
    fills: dict[str, list[Fill]] = {}
    for fill in snapshot.fills:
        if fill.client_order_id is not None:
            fills.setdefault(fill.client_order_id, []).append(fill)
    for cid, (seen, its) in looks.items():
        _look_into(tx, report, cid, seen, its)
    is_open = {one.broker_order_id for one in snapshot.open_orders}
    for number, there in sorted(listed.items()):
        named = there.client_order_id
        if named is None or by_id(tx, report.account, named) is None:
            if by_number(tx, report.account, number) is None:
                _external_order(tx, report, there, is_open=number in is_open)
        elif named not in looks:
            _look_into(tx, report, named, there, fills.get(named, []))


def _find_doubles(tx: Transaction, report: Report, listed: Mapping[str, BrokerOrder]) -> None:
    numbers: dict[str, set[str]] = {}
    for number, there in listed.items():
        if there.client_order_id is not None:
            numbers.setdefault(there.client_order_id, set()).add(number)
    for our_id, found in sorted(numbers.items()):
        order = by_id(tx, report.account, our_id)
        if order is None:
            continue
        if order.broker_order_id is not None:
            found.add(order.broker_order_id)
        if len(found) < 2:
            continue
        said = ",".join(sorted(found))
        report.conflicts.append({"kind": "duplicate_id", "order": order.name, "broker_order_ids": said})
        report.findings.append(Finding("critical", "conflict", order.name, f"under one id: {said}"))
        doubled(tx, order, tuple(sorted(found)), report.ended_at)


def _look_into(
    tx: Transaction, report: Report, cid: str, seen: BrokerOrder | None, fills: list[Fill]
) -> None:
    order = by_id(tx, report.account, cid)
    if order is None:
        return
    if order.state is State.NEEDS_OPERATOR and not (order.reason or "").startswith(TAKEN_UP):
        return  # what bears its id is not it, or one too many: only a person decides (HOLES H12)
    if order.state in (State.NOT_PLACED, State.DENIED):
        if seen is not None or fills:
            _ghost(tx, report, order, seen)
        if seen is None or order.state is State.DENIED:
            return
    elif seen is None:
        if order.state is State.WORKING:
            report.missing_at_broker.append(order.name)
            what = "open here, unknown there"
            report.findings.append(Finding("critical", "missing_at_broker", order.name, what))
        return
    elif order.state is State.PENDING:
        _conflict(report, order, "proved unsent, and the broker has it", seen)
        return
    _merge(tx, report, order, seen, fills)


def _merge(tx: Transaction, report: Report, order: Order, seen: BrokerOrder, fills: list[Fill]) -> None:
    was = order
    if order.state is State.DONE and not seen.status.is_terminal:
        _conflict(report, order, f"over here ({order.ord_status}), {seen.status} there", seen)
        return
    if order.state is State.WORKING and not replies.is_news(order, seen):
        report.matched += 1
        return
    order = replies.merge(tx, order, seen, fills, report.ended_at)
    report.matched += 1
    if was.state in (State.AMBIGUOUS, State.NEEDS_OPERATOR) and order.state in (State.WORKING, State.DONE):
        seconds = (report.ended_at - was.created_at) // 1_000_000
        report.resolved_now.append(
            {
                "order": order.name,
                "to": order.state.value,
                "broker_order_id": seen.broker_order_id,
                "after_s": seconds,
            }
        )
    if (order.reason or "").startswith("COLLISION"):
        _conflict(report, order, order.reason or "", seen)


def _ghost(tx: Transaction, report: Report, order: Order, seen: BrokerOrder | None) -> None:
    report.ghosts.append(order.name)
    report.findings.append(Finding("critical", "ghost", order.name, "called absent, found after all"))
    if order.state is State.NOT_PLACED:
        there = None if seen is None else seen.broker_order_id
        detail = {"broker_order_id": there, "severity": "critical"}
        tx.event(report.ended_at, "reconciler", "ghost found", order.name, detail)
        log.critical("an order that was called absent is at the broker", order=order.name, there=there)


def _conflict(report: Report, order: Order, what: str, seen: BrokerOrder) -> None:
    row = {"kind": "state", "order": order.name, "what": what, "broker_order_id": seen.broker_order_id}
    report.conflicts.append(row)
    report.findings.append(Finding("critical", "conflict", order.name, what))


# ------------------------------------------------------------------------------------------- another hand's


def origin_of(client_order_id: str | None) -> str:
    """A guess at who made an order that is none of ours."""
    if client_order_id is None or not client_order_id:
        return "manual"
    if OURS_PATTERN.fullmatch(client_order_id):
        return "our id pattern but no row"
    if LIQUIDATION.match(client_order_id):
        return "liquidation"
    dashed = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    return "manual" if re.fullmatch(dashed, client_order_id, re.IGNORECASE) else "other app"


def _external_order(tx: Transaction, report: Report, there: BrokerOrder, *, is_open: bool) -> None:
    origin = origin_of(there.client_order_id)
    row: dict[str, Any] = {
        "broker_order_id": there.broker_order_id,
        "client_order_id": there.client_order_id,
        "instrument": there.instrument,
        "side": there.side.value,
        "quantity": plain(there.quantity),
        "status": there.status.value,
        "origin": origin,
    }
    report.unknown_at_us.append(row)
    sql = "UPDATE external_orders SET status = ? WHERE account = ? AND broker_order_id = ?"
    if tx.change("external_orders", sql, (there.status.value, report.account, there.broker_order_id)):
        return  # told before
    tx.insert("external_orders", {"account": report.account, **row, "first_seen": report.ended_at})
    what = f"{there.side} {plain(there.quantity)} {there.instrument} {there.status}"
    if origin.startswith("our id"):
        what += f" {origin}: another machine, or a ledger that went back in time"
        report.findings.append(Finding("warning", "our_id_without_row", there.broker_order_id, what))
    elif is_open:
        report.findings.append(Finding("info", "external_order", there.broker_order_id, what))


def book_fills(tx: Transaction, report: Report, snapshot: Snapshot, *, first: bool) -> None:
    """Ours into their orders and books; another hand's into what is another's, each told once."""
    shown = {one.broker_order_id for one in (*snapshot.recent_orders, *snapshot.open_orders)}
    for fill in snapshot.fills:
        order = by_id(tx, report.account, fill.client_order_id)
        order = order or by_number(tx, report.account, fill.broker_order_id)
        if order is None:
            _external_fill(tx, report, fill, shown, first=first)
        elif order.state in (State.WORKING, State.DONE) and not (order.reason or "").startswith(DOUBLE):
            replies.book_fills(tx, order, [fill], report.ended_at)


def _external_fill(tx: Transaction, report: Report, fill: Fill, shown: Iterable[str], *, first: bool) -> None:
    # On the first pass whatever is held is another's as a whole. What bears an id like ours may
    # be ours, of a ledger that went back in time: it explains nothing, and stays a difference for a person.
    explains = not first and not _may_be_ours(tx, report, fill)
    if not positions.add_external_fill(tx, report.account, fill, report.ended_at, explains=explains):
        report.fills_ignored += 1
        return
    known = "SELECT 1 FROM external_orders WHERE account = ? AND broker_order_id = ?"
    orphan = (
        fill.broker_order_id not in shown and tx.one(known, (report.account, fill.broker_order_id)) is None
    )
    report.fills_orphan += orphan
    what = f"{fill.side} {plain(fill.quantity)} {fill.instrument} at {plain(fill.price)}"
    report.findings.append(Finding("info", "external_fill", fill.exec_id, what))


def _may_be_ours(tx: Transaction, report: Report, fill: Fill) -> bool:
    if fill.client_order_id and OURS_PATTERN.fullmatch(fill.client_order_id):
        return True
    sql = "SELECT 1 FROM external_orders WHERE account = ? AND broker_order_id = ? AND origin LIKE 'our id%'"
    return tx.one(sql, (report.account, fill.broker_order_id)) is not None
