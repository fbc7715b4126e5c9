"""What the window and the commands read: the auditors' views by page, and one thing's whole story.

Reads only, and decides nothing. Every call is short and copies its rows out; several calls that must see one
moment go into one read transaction (`Reader.call`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw

from app.ledger.reader import Row, read

Filter = None | str | int | Collection[str]
"""None asks for an empty column, a text or number for that value, a collection for one of its values."""

STORY_ROWS = 500
"""At most so many deliveries (newest), events, attempts and looks (oldest) are read for one story."""


@dataclass(frozen=True, slots=True)
class View:
    """`columns` are those of CONTRACT 5, in its order; a row may hold more behind them."""

    name: str
    columns: tuple[str, ...]
    time: str | None = None
    """The column that `since` looks at."""
    condition: str | None = None
    numbered: bool = True
    also: frozenset[str] = field(default=frozenset())
    """Columns behind the contract's that a filter may name."""


_DELIVERIES = (
    "id",
    "received_at",
    "source",
    "verdict",
    "http_status",
    "reason",
    "signal",
    "key",
    "ack_ms",
)
_SIGNALS = (
    "id",
    "source",
    "key",
    "key_source",
    "symbol",
    "action",
    "quantity",
    "first_seen",
    "deliveries",
    "outcome",
)
_ORDERS = (
    "id",
    "signal",
    "account",
    "generation",
    "leg",
    "client_order_id",
    "broker_order_id",
    "symbol",
    "side",
    "quantity",
    "state",
    "ord_status",
    "filled_quantity",
    "average_price",
    "reason",
    "created_at",
    "updated_at",
)
_FILLS = ("account", "exec_id", "order_id", "symbol", "side", "quantity", "price", "fee", "at")
_EVENTS = ("id", "at", "actor", "what", "subject", "detail")
_POSITIONS = ("account", "symbol", "source", "strategy", "quantity")
_RECONCILIATIONS = ("id", "account", "cause", "started_at", "ended_at", "result", "report", "findings")

VIEWS: Mapping[str, View] = {
    "signals": View("v_signals", _SIGNALS, "first_seen", also=frozenset({"unanswered"})),
    "deliveries": View("v_deliveries", _DELIVERIES, "received_at"),
    "refused": View("v_deliveries", _DELIVERIES, "received_at", "verdict <> 'accepted'"),
    "orders": View("v_orders", _ORDERS, "updated_at", also=frozenset({"type", "action", "purpose"})),
    "fills": View("v_fills", _FILLS, "at"),
    "positions": View("v_positions", _POSITIONS, None, "quantity NOT IN ('0', '-0')", numbered=False),
    "events": View("v_events", _EVENTS, "at"),
    "reconciliations": View("v_reconciliations", _RECONCILIATIONS, "started_at"),
}
"""What can be listed. `refused` is every delivery that was not accepted, duplicates included."""


WINDOW_VIEWS: Mapping[str, View] = {
    # The price that the signal named: what a fill is measured against.
    "priced_fills": View(
        "(SELECT f.*, (SELECT c.signal ->> '$.price' FROM orders o JOIN claims c ON c.id = o.claim_id "
        "WHERE o.id = CAST(substr(f.order_id, 2) AS INTEGER)) AS reference FROM v_fills f)",
        _FILLS,
        "at",
    ),
}
"""What only the window lists: the auditors' views with a column more."""


def rfc3339(microseconds: int) -> str:
    """UTC microseconds since 1970 as the views spell them."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    days, rest = divmod(seconds, 86_400)
    return f"{_date(days)}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.{fraction:06}Z"


def _date(days: int) -> str:
    from datetime import date

    return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()


def select(
    connection: apsw.Connection,
    view: str,
    *,
    limit: int = 50,
    before: int | None = None,
    since: int | None = None,
    filters: Mapping[str, Filter] | None = None,
) -> list[Row]:
    """Rows of a view, newest first (positions: by account and symbol), each with its `number` to page by.

    `before` asks for rows with a smaller number, `since` (UTC microseconds) for rows of that time or later.
    ValueError for a view or a filter's column that does not exist.
    """
    shape = shape_of(view)
    conditions, bindings = _conditions(shape, filters)
    if since is not None and shape.time is not None:
        conditions.append(f"{shape.time} >= ?")
        bindings.append(rfc3339(since))
    if shape.numbered:
        if before is not None:
            conditions.append("number < ?")
            bindings.append(before)
        where = _where(conditions)
        sql = f"SELECT * FROM {shape.name}{where} ORDER BY number DESC LIMIT ?"
        return read(connection, sql, (*bindings, limit))
    # Books are few and have no row number: they are numbered by their order, the first highest.
    where = _where(conditions)
    sql = f"SELECT * FROM {shape.name}{where} ORDER BY account, symbol, source, strategy"
    rows = read(connection, sql, bindings)
    for number, row in zip(range(len(rows), 0, -1), rows, strict=True):
        row["number"] = number
    return [row for row in rows if before is None or row["number"] < before][:limit]


def count(connection: apsw.Connection, view: str, filters: Mapping[str, Filter] | None = None) -> int:
    """How many rows `select` would find without a limit."""
    shape = shape_of(view)
    conditions, bindings = _conditions(shape, filters)
    rows = read(connection, f"SELECT count(*) AS n FROM {shape.name}{_where(conditions)}", bindings)
    return int(rows[0]["n"])


def shape_of(view: str) -> View:
    try:
        return VIEWS.get(view) or WINDOW_VIEWS[view]
    except KeyError:
        raise ValueError(f"there is no view {view!r}: {', '.join(VIEWS)}") from None


def _conditions(shape: View, filters: Mapping[str, Filter] | None) -> tuple[list[str], list[Any]]:
    conditions = [shape.condition] if shape.condition else []
    bindings: list[Any] = []
    for column, wanted in (filters or {}).items():
        if column not in shape.columns and column not in shape.also:
            raise ValueError(f"{shape.name} has no column {column!r}")
        if wanted is None:
            conditions.append(f"{column} IS NULL")
        elif isinstance(wanted, str | int):
            conditions.append(f"{column} = ?")
            bindings.append(wanted)
        else:
            conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            bindings += wanted
    return conditions, bindings


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


# ---------------------------------------------------------------------------------------- one thing's story


def story(connection: apsw.Connection, name: str) -> dict[str, Any]:
    """Everything about a signal (`S12`), an order (`O12`) or a delivery (`D12`).

    `{"id", "kind", "signal", "deliveries", "orders": [{..., "attempts", "evidence", "fills"}], "events",
    "body"}`: rows as the views spell them, newest delivery first, orders and events oldest first. `signal`
    has the parsed alert as JSON under `parsed`, and is None for a delivery that claimed nothing. `body` is
    the stored body (of the delivery, else of the signal's first one), None once it was purged; `first_body`,
    for a delivery, that of the one that was accepted.
    LookupError if there is no such thing.
    """
    kind, number = _parse(name)
    name = f"{name[0]}{number}"
    table, column = _TABLES[kind]
    rows = read(connection, f"SELECT {column} AS claim FROM {table} WHERE id = ?", (number,))
    if not rows:
        raise LookupError(f"there is no {kind} {name}")
    claim: int | None = rows[0]["claim"]
    body_of = number
    if kind != "delivery":
        first = "SELECT min(id) AS id FROM deliveries WHERE claim_id = ?"
        body_of = read(connection, first, (claim,))[0]["id"]
    deliveries = _deliveries(connection, claim, number if kind == "delivery" else None)
    orders = [] if claim is None else _orders(connection, claim)
    subjects = {name, *(order["id"] for order in orders)}
    if claim is not None:
        subjects.add(f"S{claim}")
    return {
        "id": name,
        "kind": kind,
        "signal": None if claim is None else _signal(connection, claim),
        "deliveries": deliveries,
        "orders": orders,
        "events": _events(connection, sorted(subjects)),
        "body": _body(connection, body_of),
        "first_body": _first_body(connection, claim) if kind == "delivery" else None,
    }


_KINDS = {"S": "signal", "O": "order", "D": "delivery"}
_TABLES = {
    "signal": ("claims", "id"),
    "order": ("orders", "claim_id"),
    "delivery": ("deliveries", "claim_id"),
}


def _parse(name: str) -> tuple[str, int]:
    kind = _KINDS.get(name[:1])
    digits = name[1:]
    if kind is None or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise LookupError(f"{name!r} is no id: a signal's is like S12, an order's O12, a delivery's D12")
    return kind, int(digits)


def _signal(connection: apsw.Connection, claim: int) -> Row:
    row = read(connection, "SELECT * FROM v_signals WHERE number = ?", (claim,))[0]
    row["parsed"] = read(connection, "SELECT signal FROM claims WHERE id = ?", (claim,))[0]["signal"]
    return row


def _deliveries(connection: apsw.Connection, claim: int | None, delivery: int | None) -> list[Row]:
    if claim is None:
        return read(connection, "SELECT * FROM v_deliveries WHERE number = ?", (delivery,))
    sql = (
        "SELECT * FROM v_deliveries WHERE number IN (SELECT id FROM deliveries WHERE claim_id = ?1 "
        "ORDER BY id DESC LIMIT ?2) OR number IN (SELECT min(id) FROM deliveries WHERE claim_id = ?1) "
        "OR number = ?3 ORDER BY number DESC"
    )
    return read(connection, sql, (claim, STORY_ROWS, delivery))


def _orders(connection: apsw.Connection, claim: int) -> list[Row]:
    ids = [
        row["id"]
        for row in read(
            connection, "SELECT id FROM orders WHERE claim_id = ? ORDER BY account, leg, generation", (claim,)
        )
    ]
    orders = []
    for order_id in ids:
        row = read(connection, "SELECT * FROM v_orders WHERE number = ?", (order_id,))[0]
        row["attempts"] = _timed(
            connection,
            "SELECT number, at, identity, endpoint, request, arrival_deadline, ended_at, bytes_left, reply "
            "FROM attempts WHERE order_id = ? ORDER BY number LIMIT ?",
            order_id,
        )
        row["evidence"] = _timed(
            connection,
            "SELECT at, identity, look, result, detail FROM evidence WHERE order_id = ? ORDER BY id LIMIT ?",
            order_id,
        )
        row["fills"] = read(
            connection,
            "SELECT * FROM v_fills WHERE number IN (SELECT id FROM fills WHERE order_id = ?) ORDER BY number",
            (order_id,),
        )
        orders.append(row)
    return orders


_TIMES = ("at", "arrival_deadline", "ended_at")


def _timed(connection: apsw.Connection, sql: str, order_id: int) -> list[Row]:
    rows = read(connection, sql, (order_id, STORY_ROWS))
    for row in rows:
        for name in _TIMES:
            if row.get(name) is not None:
                row[name] = rfc3339(row[name])
    return rows


def _events(connection: apsw.Connection, subjects: list[str]) -> list[Row]:
    marks = ", ".join("?" * len(subjects))
    sql = (
        f"SELECT * FROM v_events WHERE number IN (SELECT id FROM events WHERE subject IN ({marks}) "
        "ORDER BY id LIMIT ?) ORDER BY number"
    )
    return read(connection, sql, (*subjects, STORY_ROWS))


def _first_body(connection: apsw.Connection, claim: int | None) -> str | None:
    """Of what was accepted under the key of a delivery."""
    sql = "SELECT min(id) AS id FROM deliveries WHERE claim_id = ? AND verdict = 'accepted'"
    return _body(connection, read(connection, sql, (claim,))[0]["id"])


def _body(connection: apsw.Connection, delivery: int | None) -> str | None:
    rows = read(connection, "SELECT body FROM bodies WHERE delivery_id = ?", (delivery,))
    return rows[0]["body"] if rows else None
