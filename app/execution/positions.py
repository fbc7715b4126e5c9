"""Expected against broker position: what explains a difference, and what nothing explains.

Part of the reconciler's transaction. Expected is our books and what is known to be another's; nothing is ever
sent to make the two agree. A difference holds entries back only once two passes in a row have found it (H37).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from decimal import Decimal

from app.brokers.base import Fill, Snapshot
from app.domain.sizing import WIDE, ZERO
from app.execution.report import DUST, EXPLAINED, NONE, PENDING, UNEXPLAINED, UNKNOWN, Finding, Report
from app.ledger import orders
from app.ledger.orders import plain
from app.ledger.transaction import Transaction


def compare(
    tx: Transaction, report: Report, snapshot: Snapshot, active: Set[str], tolerance: Decimal, *, first: bool
) -> None:
    """`active`: instruments on which something happened meanwhile or is in doubt. `first`: no pass was ever
    complete and nothing ever filled, so that whatever is there was there before us."""
    for book in orders.books(tx, report.account):
        report.expected[book.instrument] = WIDE.add(report.expected.get(book.instrument, ZERO), book.net)
    report.broker = {name: position for name, position in snapshot.positions.items() if position != ZERO}
    known = report.is_known("positions", "fills")
    if first and known:
        _adopt(tx, report)
    report.external = _externals(tx, report.account)
    for symbol in sorted({*report.expected, *report.broker, *report.external}):
        if not known:
            report.drift[symbol] = UNKNOWN
            continue
        _judge(tx, report, symbol, symbol in active, tolerance)


def add_external_fill(tx: Transaction, account: str, fill: Fill, now: int, *, explains: bool) -> bool:
    """Keeps a fill of another hand, once; whether it is new. It moves what is another's, never our books."""
    known = "SELECT 1 FROM external_fills WHERE account = ? AND exec_id = ?"
    if tx.one(known, (account, fill.exec_id)) is not None:
        return False
    tx.insert(
        "external_fills",
        {
            "account": account,
            "exec_id": fill.exec_id,
            "instrument": fill.instrument,
            "side": fill.side.value,
            "quantity": plain(fill.quantity),
            "price": plain(fill.price),
            "at": fill.at,
            "first_seen": now,
        },
    )
    if explains:
        add_external(tx, account, fill.instrument, fill.side.sign * fill.quantity)
    return True


def add_external(tx: Transaction, account: str, instrument: str, signed: Decimal) -> Decimal:
    """Adds to what is another's on an instrument; returns what it is then."""
    row = tx.one("SELECT quantity FROM externals WHERE account = ? AND instrument = ?", (account, instrument))
    total = WIDE.add(ZERO if row is None else Decimal(row[0]), signed)
    sql = "UPDATE externals SET quantity = ? WHERE account = ? AND instrument = ?"
    if not tx.change("externals", sql, (plain(total), account, instrument)):
        values = {"account": account, "instrument": instrument, "quantity": plain(total)}
        tx.insert("externals", {**values})
    return total


def absorb(tx: Transaction, account: str, instrument: str, change: Decimal) -> None:
    """A person has changed our book by that: as far as it had been called another's, it is no longer."""
    row = tx.one("SELECT quantity FROM externals WHERE account = ? AND instrument = ?", (account, instrument))
    external = ZERO if row is None else Decimal(row[0])
    if external * change > ZERO:
        taken = min(abs(external), abs(change)).copy_sign(change)
        add_external(tx, account, instrument, -taken)
    forget(tx, account, instrument)


def forget(tx: Transaction, account: str, instrument: str) -> None:
    """The difference was seen, explained or corrected: it holds nothing back any more."""
    tx.change("drifts", "DELETE FROM drifts WHERE account = ? AND instrument = ?", (account, instrument))


def _adopt(tx: Transaction, report: Report) -> None:
    for symbol in sorted({*report.broker, *report.expected}):
        held = WIDE.subtract(report.broker.get(symbol, ZERO), report.expected.get(symbol, ZERO))
        if held != ZERO:
            add_external(tx, report.account, symbol, held)
            what = f"{plain(held)} were there before Onefill traded, and are not touched"
            report.findings.append(Finding("info", "held_before", symbol, what))


def _judge(tx: Transaction, report: Report, symbol: str, is_active: bool, tolerance: Decimal) -> None:
    expected, actual = report.expected.get(symbol, ZERO), report.broker.get(symbol, ZERO)
    external = report.external.get(symbol, ZERO)
    off = WIDE.subtract(actual, WIDE.add(expected, external))
    what = f"expected={plain(expected)} broker={plain(actual)}"
    if abs(off) > tolerance and is_active:
        report.drift[symbol] = PENDING
        report.active.append(symbol)
        return
    if abs(off) > tolerance:
        report.drift[symbol] = UNEXPLAINED
        _count(tx, report, symbol, off)
        what += f" external={plain(external)}" if external else ""
        report.findings.append(Finding("warning", "drift", symbol, what))
        return
    forget(tx, report.account, symbol)
    report.drift[symbol] = EXPLAINED if external else DUST if off else NONE
    on_our_side = max(ZERO, actual.copy_abs() if actual * expected > ZERO else ZERO)
    if abs(expected) - on_our_side > tolerance and not is_active:
        # Somebody has sold what our book holds: it is explained, and the book is wrong all the same.
        report.findings.append(Finding("warning", "drift", symbol, what))


def _count(tx: Transaction, report: Report, symbol: str, off: Decimal) -> None:
    key = (report.account, symbol)
    sql = (
        "UPDATE drifts SET quantity = ?, passes = passes + 1, last_seen = ? "
        "WHERE account = ? AND instrument = ?"
    )
    if not tx.change("drifts", sql, (plain(off), report.ended_at, *key)):
        names = ("account", "instrument", "quantity", "passes", "first_seen", "last_seen")
        values = (*key, plain(off), 1, report.ended_at, report.ended_at)
        tx.insert("drifts", dict(zip(names, values, strict=True)))


def _externals(tx: Transaction, account: str) -> dict[str, Decimal]:
    rows = tx.execute("SELECT instrument, quantity FROM externals WHERE account = ?", (account,))
    found: Mapping[str, Decimal] = {str(name): Decimal(quantity) for name, quantity in rows}
    return {name: quantity for name, quantity in found.items() if quantity != ZERO}
