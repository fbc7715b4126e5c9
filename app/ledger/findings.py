"""What reconciliation could not explain, for Needs you: drift until a later run is clean, and missing orders.

Reads only. A run's figures are its own: what has happened since is said, and never mixed into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import apsw
import msgspec

from app.domain.number import plain
from app.ledger.need import FROM, MOST, ORDER, Action, Need, need_of, what_of
from app.ledger.queries import rfc3339
from app.ledger.reader import Row, read


def findings(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """What the last complete reconciliation of each account could not explain, and drift of one before it
    that no later one has looked at: one during which we traded says nothing of that symbol (HOLES H37)."""
    for account in [row["name"] for row in read(connection, "SELECT name FROM accounts ORDER BY name")]:
        unsaid: set[str] | None = None
        for run in _newest_first(connection, account):
            report: dict[str, Any] = msgspec.json.decode(run["report"])
            wanted = "SELECT kind, subject, detail FROM findings WHERE reconciliation_id = ? ORDER BY id"
            for finding in read(connection, wanted, (run["id"],)):
                symbol = finding["subject"]
                if finding["kind"] == "drift" and (unsaid is None or symbol in unsaid):
                    yield from _drift(connection, account, run, report, finding)
                elif finding["kind"] == "missing_at_broker" and unsaid is None:
                    yield from _missing(connection, account, run, finding)
            void = set(report.get("active", ()))
            unsaid = void if unsaid is None else unsaid & void
            if not unsaid:
                break


def _newest_first(connection: apsw.Connection, account: str) -> Iterator[Row]:
    """The complete runs of an account, read one by one: nearly always the first is enough."""
    sql = (
        "SELECT id, started_at, ended_at, report FROM reconciliations "
        "WHERE account = ? AND result IN ('OK', 'FINDINGS') ORDER BY id DESC LIMIT 1 OFFSET ?"
    )
    for place in range(MOST):
        yield from read(connection, sql, (account, place))


def _drift(
    connection: apsw.Connection, account: str, run: Row, report: dict[str, Any], finding: Row
) -> Iterator[Need]:
    symbol = finding["subject"]
    if _since(connection, "adjustments", account, symbol, run, report.get("last_adjustment")):
        return  # a person has corrected it; the next run says whether it was right
    if _is_acknowledged(connection, account, symbol, run):
        return
    figures: dict[str, str] = next((p for p in report["positions"] if p["symbol"] == symbol), {})
    expected, held = Decimal(figures.get("expected") or "0"), Decimal(figures.get("broker") or "0")
    at = datetime.fromtimestamp(run["ended_at"] // 1_000_000, UTC)
    text = (
        f"At {at:%H:%M} UTC our books held {plain(expected)} {symbol} in {account}, the broker {plain(held)}"
    )
    actions = [Action("reconcile", {"account": account}, "Compare again")]
    if _since(connection, "fills", account, symbol, run, report.get("last_fill")):
        # What the broker held then is not what our book should hold now.
        text += "; we have traded it since: compare again before anything is corrected"
    else:
        actions.insert(0, _correction(connection, account, symbol, held))
        if figures.get("drift") == "unexplained":
            seen = {"account": account, "drift": symbol}
            actions.append(Action("acknowledge", seen, "It is none of ours"))
    yield Need(
        kind="drift",
        severity="warning",
        subject=f"{account} {symbol}",
        text=f"{text}.",
        since=rfc3339(run["ended_at"]),
        account=account,
        symbol=symbol,
        reason=finding["detail"],
        actions=actions,
    )


def _since(
    connection: apsw.Connection, table: str, account: str, symbol: str, run: Row, last: int | None
) -> bool:
    """Whether the table has a row of this account and symbol that is newer than the run.

    `last` is the table's last row when the run ended; a run that did not keep it is told by its time.
    """
    join, instrument = "", "t.instrument"
    if table == "fills":
        join, instrument = "CROSS JOIN orders o ON o.id = t.order_id ", "o.instrument"
    newer = ("t.at >= ?", run["started_at"]) if last is None else ("t.id > ?", last)
    sql = f"SELECT 1 FROM {table} t {join}WHERE {newer[0]} AND t.account = ? AND {instrument} = ? LIMIT 1"
    return bool(read(connection, sql, (newer[1], account, symbol)))


def _is_acknowledged(connection: apsw.Connection, account: str, symbol: str, run: Row) -> bool:
    sql = "SELECT 1 FROM events WHERE subject = ? AND what = 'drift acknowledged' AND at >= ? LIMIT 1"
    return bool(read(connection, sql, (f"{account} {symbol}", run["ended_at"])))


def _correction(connection: apsw.Connection, account: str, symbol: str, held: Decimal) -> Action:
    """Sets the book so that the sum is the broker's; where there are several, which one is the person's."""
    sql = (
        "SELECT s.name AS source, b.strategy, b.net FROM books b JOIN sources s ON s.id = b.source_id "
        "WHERE b.account = ? AND b.instrument = ? ORDER BY s.name, b.strategy"
    )
    books = read(connection, sql, (account, symbol))
    ours = sum((Decimal(book["net"]) for book in books), Decimal(0))
    candidates = [book for book in books if Decimal(book["net"])] or books
    arguments: dict[str, Any] = {"account": account, "symbol": symbol}
    if len(candidates) == 1:
        (book,) = candidates
        rest = ours - Decimal(book["net"])
        arguments |= {"source": book["source"], "strategy": book["strategy"], "seen": book["net"]}
        arguments["quantity"] = plain(held - rest)
    return Action("book", arguments, "Correct our book…")


def _missing(connection: apsw.Connection, account: str, run: Row, finding: Row) -> Iterator[Need]:
    sql = f"SELECT {ORDER} {FROM} WHERE o.id = CAST(substr(?, 2) AS INTEGER) AND o.state = 'WORKING'"
    for row in read(connection, sql, (finding["subject"],)):
        text = f"{row['name']} ({what_of(row)}) is open here, and the broker does not know it"
        actions = [Action("reconcile", {"account": account}, "Compare again")]
        yield need_of(row, "missing_at_broker", "critical", text, actions, since=run["ended_at"])
