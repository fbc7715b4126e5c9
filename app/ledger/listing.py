"""Finding rows of a view by words, by condition, by time, and in any order: their ids, as one short read.

What a person filters and sorts by is looked up on the tables, since the views' own text columns cost a call
each; the rows themselves come from the views. Reads only.
"""

from __future__ import annotations

import shlex
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from app.ledger.queries import shape_of
from app.ledger.reader import Row, read

CHUNK = 65_536
"""Characters of the list of ids that are read at once: the interpreter is free for others in between."""
BATCH = 500
"""Ids asked for in one statement."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a person asks of a view. `since` and `until` (excluded) are UTC microseconds.

    `sort` is a column of the listing; without one the newest comes first.
    """

    text: str = ""
    chips: frozenset[str] = field(default=frozenset())
    since: int | None = None
    until: int | None = None
    sort: str | None = None
    descending: bool = True

    @property
    def is_plain(self) -> bool:
        """All rows, newest first."""
        return not self.narrows and self.sort is None

    @property
    def narrows(self) -> bool:
        """Whether it leaves out rows."""
        return bool(self.text.strip() or self.chips) or self.since is not None or self.until is not None


@dataclass(frozen=True, slots=True)
class Listing:
    """Where a view's rows are looked for. `words` are what free text is looked for in, `columns` what a
    `name:value` or a sort may name, `chips` the named conditions: a row must meet one of those asked for."""

    view: str
    tables: str
    id: str
    time: str
    words: tuple[str, ...]
    columns: Mapping[str, str]
    chips: Mapping[str, str]
    condition: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    """For `name:value`, where a column sorts by something else than its text."""


def _number(text: str) -> str:
    # For the order of a list alone: nothing is reckoned with it.
    return f"CAST({text} AS REAL)"


_CLAIMS = "claims c JOIN sources s ON s.id = c.source_id"
_RANK = (
    "CASE o.state WHEN 'NEEDS_OPERATOR' THEN 0 WHEN 'AMBIGUOUS' THEN 1 WHEN 'SUBMITTING' THEN 2 "
    "WHEN 'PENDING' THEN 3 WHEN 'WORKING' THEN 4 WHEN 'DENIED' THEN 5 WHEN 'NOT_PLACED' THEN 6 ELSE 7 END"
)
_WORST = f"(SELECT min({_RANK}) FROM newest_orders o WHERE o.claim_id = c.id)"
"""As `v_signals` ranks the outcome of a signal."""


def _outcome(*ranks: int, states: str) -> str:
    """Few orders are in any state but DONE: they are found first, and ranked then."""
    wanted = ", ".join(str(rank) for rank in ranks)
    return f"(c.id IN (SELECT claim_id FROM orders WHERE state IN ({states})) AND {_WORST} IN ({wanted}))"


_UNRESOLVED = "'NEEDS_OPERATOR', 'AMBIGUOUS'"
_LOST = "'DENIED', 'NOT_PLACED'"

LISTINGS: Mapping[str, Listing] = {
    each.view: each
    for each in (
        Listing(
            view="signals",
            tables=_CLAIMS,
            id="c.id",
            time="c.first_received_at",
            words=("'S' || c.id", "s.name", "c.symbol", "c.action", "c.key"),
            columns={
                "time": "c.first_received_at",
                "id": "c.id",
                "source": "s.name",
                "action": "c.action",
                "quantity": _number("c.quantity"),
                "symbol": "c.symbol",
                "outcome": _WORST,
                "key": "c.key",
                "deliveries": "c.deliveries",
            },
            chips={
                "unresolved": _outcome(0, 1, states=_UNRESOLVED),
                "waiting": _outcome(2, 3, states="'SUBMITTING', 'PENDING'"),
                "working": _outcome(4, states="'WORKING'"),
                "denied": _outcome(5, 6, states=_LOST),
                "done": f"coalesce({_WORST}, 7) = 7",
                "repeated": "c.deliveries > 1",
            },
            texts={
                "outcome": "coalesce((SELECT o.state FROM newest_orders o WHERE o.claim_id = c.id "
                f"ORDER BY {_RANK} LIMIT 1), 'DONE')"
            },
        ),
        Listing(
            view="refused",
            tables="deliveries d JOIN sources s ON s.id = d.source_id",
            id="d.id",
            time="d.received_at",
            words=(
                "'D' || d.id",
                "s.name",
                "d.verdict",
                "coalesce('S' || d.claim_id, '')",
                "coalesce(d.reason, '')",
                "coalesce(d.detail, '')",
                "coalesce(d.key, '')",
            ),
            columns={
                "time": "d.received_at",
                "id": "d.id",
                "source": "s.name",
                "verdict": "d.verdict",
                "status": "d.http_status",
                "signal": "d.claim_id",
                "why": "coalesce(d.reason, '') || coalesce(d.detail, '')",
                "key": "d.key",
                "ms": "d.ack_us",
            },
            chips={
                name: f"d.verdict = '{name}'"
                for name in ("duplicate", "conflict", "stale", "invalid", "not_accepted")
            },
            condition="d.verdict <> 'accepted'",
        ),
        Listing(
            view="orders",
            tables="orders o JOIN claims c ON c.id = o.claim_id",
            id="o.id",
            time="o.created_at",
            words=(
                "'O' || o.id",
                "'S' || o.claim_id",
                "o.account",
                "c.symbol",
                "coalesce(o.side, o.action)",
                # As the row shows it: NOT_PLACED is "Not placed" there.
                "replace(o.state, '_', ' ')",
                "coalesce(o.ord_status, '')",
                "coalesce(o.reason, '')",
                "coalesce(o.client_order_id, '')",
                "coalesce(o.broker_order_id, '')",
            ),
            columns={
                "time": "o.created_at",
                "id": "o.id",
                "account": "o.account",
                "side": "coalesce(o.side, o.action)",
                "quantity": _number("o.quantity"),
                "symbol": "c.symbol",
                "price": "o.type",
                "state": "o.state || coalesce(o.ord_status, '')",
                "filled": _number("o.filled_quantity"),
                "average": _number("o.average_price"),
                "reason": "o.reason",
            },
            chips={
                "unresolved": f"o.state IN ({_UNRESOLVED})",
                "open": "o.state NOT IN ('DONE', 'DENIED', 'NOT_PLACED')",
                "filled": "o.state = 'DONE' AND o.ord_status = 'Filled'",
                "denied": f"o.state IN ({_LOST})",
                "exits": "o.purpose IN ('exit', 'cancel')",
            },
        ),
        Listing(
            view="priced_fills",
            tables="fills f JOIN orders o ON o.id = f.order_id JOIN claims c ON c.id = o.claim_id",
            id="f.id",
            time="f.at",
            words=("f.account", "'O' || f.order_id", "c.symbol", "f.side", "f.exec_id"),
            columns={
                "time": "f.at",
                "order": "f.order_id",
                "account": "f.account",
                "side": "f.side",
                "quantity": _number("f.quantity"),
                "symbol": "c.symbol",
                "price": _number("f.price"),
                "fee": _number("f.fee"),
                "exec": "f.exec_id",
            },
            chips={"buy": "f.side = 'buy'", "sell": "f.side = 'sell'"},
        ),
        Listing(
            view="events",
            tables="events e",
            id="e.id",
            time="e.at",
            words=("'E' || e.id", "e.actor", "e.what", "e.subject", "e.detail"),
            columns={
                "time": "e.at",
                "id": "e.id",
                "actor": "e.actor",
                "what": "e.what",
                "subject": "e.subject",
                "detail": "e.detail",
            },
            chips={
                "person": "(e.actor LIKE 'window%' OR e.actor LIKE 'command%')",
                "moves": "e.what = 'order moved'",
                "reconciled": "e.what = 'reconciled'",
            },
        ),
        Listing(
            view="reconciliations",
            tables="reconciliations r",
            id="r.id",
            time="r.started_at",
            words=("'R' || r.id", "r.account", "r.cause", "r.result"),
            columns={
                "time": "r.started_at",
                "id": "r.id",
                "account": "r.account",
                "result": "r.result",
                "findings": "(SELECT count(*) FROM findings f WHERE f.reconciliation_id = r.id)",
                "took": "r.ended_at - r.started_at",
                "cause": "r.cause",
            },
            chips={
                "differences": "r.result = 'FINDINGS'",
                "incomplete": "r.result IN ('PARTIAL', 'FAILED')",
            },
        ),
    )
}
"""By the name of the view."""


def matching(connection: apsw.Connection, view: str, search: Search) -> array[int]:
    """The numbers of the rows that the search finds, in its order. Blocking; may take a second.

    ValueError for a sort or a chip that the listing does not have.
    """
    listing = LISTINGS[view]
    conditions, bindings = _conditions(listing, search)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = f"{listing.id} DESC"
    if search.sort is not None:
        if search.sort not in listing.columns:
            raise ValueError(f"{view} has no column {search.sort!r}")
        down = "DESC" if search.descending else "ASC"
        order = f"{listing.columns[search.sort]} {down}, {listing.id} {down}"
    # One text instead of many rows: a step of a cursor holds the interpreter, and there may be a million.
    sql = (
        f"SELECT group_concat(id) AS ids FROM (SELECT {listing.id} AS id FROM {listing.tables}{where} "
        f"ORDER BY {order})"
    )
    return _numbers(read(connection, sql, bindings)[0]["ids"] or "")


def _numbers(text: str) -> array[int]:
    found: array[int] = array("q")
    place = 0
    while place < len(text):
        end = text.find(",", place + CHUNK)
        end = len(text) if end < 0 else end
        found.extend(map(int, text[place:end].split(",")))
        place = end + 1
    return found


def rows_of(connection: apsw.Connection, view: str, numbers: Sequence[int]) -> list[Row]:
    """The rows with these numbers, in this order; one that is gone is left out."""
    shape = shape_of(view)
    found: dict[int, Row] = {}
    for start in range(0, len(numbers), BATCH):
        part = numbers[start : start + BATCH]
        sql = f"SELECT * FROM {shape.name} WHERE number IN ({', '.join('?' * len(part))})"
        found |= {row["number"]: row for row in read(connection, sql, tuple(part))}
    return [found[number] for number in numbers if number in found]


def chip_counts(connection: apsw.Connection, view: str) -> dict[str, int]:
    """How many rows each chip of a view stands for; one pass over its table. Blocking."""
    listing = LISTINGS[view]
    sums = ", ".join(f"coalesce(sum({condition}), 0) AS {name}" for name, condition in listing.chips.items())
    where = f" WHERE {listing.condition}" if listing.condition else ""
    return dict(read(connection, f"SELECT {sums} FROM {listing.tables}{where}")[0])


def _conditions(listing: Listing, search: Search) -> tuple[list[str], list[Any]]:
    conditions = [listing.condition] if listing.condition else []
    bindings: list[Any] = []
    for condition, values in _terms(listing, search.text):
        conditions.append(condition)
        bindings += values
    if search.chips:
        unknown = search.chips - listing.chips.keys()
        if unknown:
            raise ValueError(f"{listing.view} has no chip {', '.join(sorted(unknown))}")
        wanted = [f"({listing.chips[name]})" for name in sorted(search.chips)]
        conditions.append(f"({' OR '.join(wanted)})")
    for moment, sign in ((search.since, ">="), (search.until, "<")):
        if moment is not None:
            conditions.append(f"{listing.time} {sign} ?")
            bindings.append(moment)
    return conditions, bindings


def _terms(listing: Listing, text: str) -> Iterator[tuple[str, list[str]]]:
    for term in words_of(text):
        name, colon, value = term.partition(":")
        if colon and name.lower() in listing.columns and value:
            column = listing.texts.get(name.lower()) or listing.columns[name.lower()]
            yield f"CAST({column} AS TEXT) LIKE ? ESCAPE '\\'", [_pattern(value)]
        else:
            alternatives = " OR ".join(f"{word} LIKE ? ESCAPE '\\'" for word in listing.words)
            yield f"({alternatives})", [_pattern(term)] * len(listing.words)


def words_of(text: str) -> list[str]:
    """The words of a filter; what stands in quotes is one. An open quote is a character like any other."""
    try:
        return shlex.split(text.replace("\\", "\\\\").replace("'", "\\'"))
    except ValueError:
        return text.split()


def _pattern(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
