"""What we expect to hold and what the broker said last, side by side. Reads only, and decides nothing.

A section that the broker did not give is unknown, never flat.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import apsw
import msgspec

from app.domain.number import plain
from app.domain.sizing import WIDE
from app.ledger.queries import rfc3339
from app.ledger.reader import Row, read

RUNS = 50
"""So many runs of an account are looked through for the last one whose positions were read."""

STATES = ("differs", "unknown", "moved", "agrees")
"""Worst first. `moved`: our books have changed since the broker was asked."""


def positions(connection: apsw.Connection) -> list[Row]:
    """One row an account and symbol where either side holds something, worst first.

    `{"account", "symbol", "expected", "broker", "difference", "state", "as_of", "run", "books", "external",
    "class"}`:
    decimal texts, `broker` and `difference` None where they are not known. `external` is what is known to be
    another's.
    """
    rows: list[Row] = []
    for account in [row["name"] for row in read(connection, "SELECT name FROM accounts ORDER BY name")]:
        rows += _of_account(connection, account)
    return sorted(rows, key=lambda row: (STATES.index(row["state"]), row["account"], row["symbol"]))


def _of_account(connection: apsw.Connection, account: str) -> list[Row]:
    books: dict[str, list[Row]] = {}
    sql = (
        "SELECT symbol, source, strategy, quantity FROM v_positions WHERE account = ? "
        "ORDER BY source, strategy"
    )
    for book in read(connection, sql, (account,)):
        books.setdefault(book["symbol"], []).append(book)
    run, said = _last_run(connection, account)
    found = []
    for symbol in sorted({*books, *said}):
        held = books.get(symbol, [])
        ours = Decimal(0)
        for book in held:
            ours = WIDE.add(ours, Decimal(book["quantity"]))
        theirs = None if run is None else Decimal(str(said.get(symbol, {}).get("broker") or 0))
        if ours or theirs:
            found.append(_row(account, symbol, held, ours, theirs, run, said.get(symbol, {})))
    return found


def _row(
    account: str,
    symbol: str,
    held: list[Row],
    ours: Decimal,
    theirs: Decimal | None,
    run: Row | None,
    said: dict[str, Any],
) -> Row:
    then, others = (Decimal(str(said.get(name) or 0)) for name in ("expected", "external"))
    if theirs is None or run is None:
        state, difference = "unknown", None
    elif ours != then:
        # What the broker held then is not what it holds now.
        state, difference = "moved", None
    else:
        difference = WIDE.subtract(theirs, WIDE.add(ours, others))
        state = "differs" if difference else "agrees"
    return {
        "account": account,
        "symbol": symbol,
        "expected": plain(ours),
        "broker": None if theirs is None else plain(theirs),
        "difference": None if difference is None else plain(difference),
        "state": state,
        "as_of": None if run is None else rfc3339(run["ended_at"]),
        "run": None if run is None else f"R{run['id']}",
        "books": [
            {"source": book["source"], "strategy": book["strategy"], "quantity": book["quantity"]}
            for book in held
            if Decimal(book["quantity"])
        ],
        "external": said.get("external"),
        "class": said.get("drift"),
    }


def _last_run(connection: apsw.Connection, account: str) -> tuple[Row | None, dict[str, dict[str, Any]]]:
    """The last run in which the broker told its positions, and what it said by symbol."""
    sql = (
        "SELECT id, ended_at, result, report FROM reconciliations WHERE account = ? AND result <> 'FAILED' "
        f"ORDER BY id DESC LIMIT {RUNS}"
    )
    for run in read(connection, sql, (account,)):
        report: dict[str, Any] = msgspec.json.decode(run["report"])
        if section_failed(report, "positions") is None:
            return run, {str(each["symbol"]): each for each in report.get("positions") or []}
    return None, {}


def section_failed(report: dict[str, Any], name: str) -> str | None:
    """Why a section of a run is not known, or None where it was read."""
    sections = report.get("sections")
    if not isinstance(sections, dict) or name not in sections:
        return None
    said = sections[name]
    if isinstance(said, dict):
        good = said.get("ok", said.get("state", said.get("status", "ok")))
        return None if good in (True, "ok", "complete") else str(said.get("reason") or good)
    return None if said in (True, "ok", "complete") else str(said)


def position(connection: apsw.Connection, account: str, symbol: str) -> Row | None:
    """One of them, with its newest fills and corrections; None where neither side holds anything."""
    row = next((one for one in _of_account(connection, account) if one["symbol"] == symbol), None)
    if row is None:
        return None
    row["fills"] = read(
        connection,
        "SELECT * FROM v_fills WHERE number IN (SELECT f.id FROM orders o CROSS JOIN fills f "
        "ON f.order_id = o.id WHERE o.account = ? AND o.instrument = ? ORDER BY f.id DESC LIMIT 20) "
        "ORDER BY number DESC",
        (account, symbol),
    )
    row["adjustments"] = [
        {**one, "at": rfc3339(one["at"])}
        for one in read(
            connection,
            "SELECT a.at, coalesce(s.name, a.source_id) AS source, a.strategy, a.quantity, a.why "
            "FROM adjustments a LEFT JOIN sources s ON s.id = a.source_id "
            "WHERE a.account = ? AND a.instrument = ? ORDER BY a.id DESC LIMIT 20",
            (account, symbol),
        )
    ]
    return row
