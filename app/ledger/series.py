"""What happened over time, as numbers to draw: what came in, how fast it was answered, what was made.

Reads only. Times are UTC microseconds. Each call reads only what is newer than the last one, since a year
is a million rows and is drawn again and again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar

import apsw

from app.domain.sizing import WIDE
from app.ledger.reader import read

MINUTE = 60_000_000
"""What is counted is kept by the minute."""
LATENCIES = 20_000
"""So many of the newest answers are measured."""
FILLS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True)
class Bars:
    """`counts` by name, one number for each span of `width` from `start` on."""

    start: int
    width: int
    counts: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Latency:
    """Of each span: when it begins, how many answers, and milliseconds: median, 99 of 100, longest."""

    at: int
    number: int
    median: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class Money:
    """After one fill: what was made since the first, and what is at stake, at our last prices."""

    at: int
    profit: Decimal
    exposure: Decimal


class Activity:
    """Signals, duplicates, refused deliveries and orders by the minute."""

    NAMES = ("signals", "duplicates", "refused", "orders")
    _QUERIES: ClassVar[dict[str, str]] = {
        "claims": "SELECT 'signals' AS name, first_received_at / {m} AS minute, count(*) AS n FROM claims "
        "WHERE id > ? AND id <= ? GROUP BY minute",
        "deliveries": "SELECT CASE verdict WHEN 'duplicate' THEN 'duplicates' ELSE 'refused' END AS name, "
        "received_at / {m} AS minute, count(*) AS n FROM deliveries WHERE id > ? AND id <= ? "
        "AND verdict <> 'accepted' GROUP BY 1, 2",
        "orders": "SELECT 'orders' AS name, created_at / {m} AS minute, count(*) AS n FROM orders "
        "WHERE id > ? AND id <= ? GROUP BY minute",
    }

    def __init__(self) -> None:
        self._last = dict.fromkeys(self._QUERIES, 0)
        self._minutes: dict[str, Counter[int]] = {name: Counter() for name in self.NAMES}

    def read(self, connection: apsw.Connection) -> None:
        """Counts what came since the last call."""
        for table, sql in self._QUERIES.items():
            newest = read(connection, f"SELECT coalesce(max(id), 0) AS id FROM {table}")[0]["id"]
            if newest <= self._last[table]:
                continue
            for row in read(connection, sql.format(m=MINUTE), (self._last[table], newest)):
                self._minutes[row["name"]][row["minute"]] += row["n"]
            self._last[table] = newest

    def bars(self, since: int, until: int, spans: int) -> Bars:
        """So many spans of whole minutes that end with `until`."""
        width = max(MINUTE, -(-(until - since) // spans // MINUTE) * MINUTE)
        start = (until // width + 1) * width - spans * width
        counts = {name: [0] * spans for name in self.NAMES}
        for name, minutes in self._minutes.items():
            first, end = start // MINUTE, (start + spans * width) // MINUTE
            many = len(minutes) > end - first
            chosen = ((m, minutes[m]) for m in range(first, end) if m in minutes) if many else minutes.items()
            for minute, number in chosen:
                if first <= minute < end:
                    counts[name][(minute - first) * MINUTE // width] += number
        return Bars(start, width, counts)


def latencies(connection: apsw.Connection, since: int, until: int, spans: int) -> list[Latency]:
    """Of the newest answers since then; spans without one are left out."""
    width = max(1, (until - since) // spans)
    rows = read(
        connection,
        "SELECT received_at, ack_us FROM (SELECT received_at, ack_us FROM deliveries ORDER BY id DESC "
        f"LIMIT {LATENCIES}) WHERE received_at >= ? AND received_at <= ? AND ack_us IS NOT NULL",
        (since, until),
    )
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(min(spans - 1, (row["received_at"] - since) // width), []).append(row["ack_us"])
    made = []
    for place, taken_in in sorted(found.items()):
        taken_in.sort()
        last = len(taken_in) - 1
        made.append(
            Latency(
                since + place * width,
                len(taken_in),
                taken_in[last // 2] / 1e3,
                taken_in[min(last, len(taken_in) * 99 // 100)] / 1e3,
                taken_in[last] / 1e3,
            )
        )
    return made


@dataclass
class MoneyOfAccount:
    """One account's money, fill by fill, from its first one on."""

    account: str
    cash: Decimal = Decimal(0)
    held: dict[str, Decimal] = field(default_factory=dict)
    prices: dict[str, Decimal] = field(default_factory=dict)
    points: list[Money] = field(default_factory=list)
    last: int = 0

    def read(self, connection: apsw.Connection) -> bool:
        """Takes in some of the fills that came since the last call; whether there are more."""
        rows = read(
            connection,
            "SELECT f.id, f.at, o.instrument, f.side, f.quantity, f.price, f.fee FROM fills f "
            "JOIN orders o ON o.id = f.order_id WHERE f.id > ? AND f.account = ? ORDER BY f.id "
            f"LIMIT {FILLS_AT_ONCE}",
            (self.last, self.account),
        )
        for row in rows:
            self.last = row["id"]
            self._take(row["at"], row["instrument"], row["side"], row["quantity"], row["price"], row["fee"])
        return len(rows) == FILLS_AT_ONCE

    def _take(self, at: int, symbol: str, side: str, quantity: str, price: str, fee: str) -> None:
        amount = Decimal(quantity) if side == "buy" else -Decimal(quantity)
        each = Decimal(price)
        self.cash = WIDE.subtract(WIDE.subtract(self.cash, WIDE.multiply(amount, each)), Decimal(fee))
        self.held[symbol] = WIDE.add(self.held.get(symbol, Decimal(0)), amount)
        if not self.held[symbol]:
            del self.held[symbol]
        self.prices[symbol] = each
        worth = exposure = Decimal(0)
        for name, number in self.held.items():
            value = WIDE.multiply(number, self.prices[name])
            worth, exposure = WIDE.add(worth, value), WIDE.add(exposure, abs(value))
        self.points.append(Money(at, WIDE.add(self.cash, worth), exposure))


def day_equity(connection: apsw.Connection, account: str) -> tuple[str, Decimal] | None:
    """The trading day whose first equity the ledger keeps, and that equity; None where there is none yet."""
    rows = read(connection, "SELECT day, day_equity FROM accounts WHERE name = ?", (account,))
    if not rows or rows[0]["day"] is None or rows[0]["day_equity"] is None:
        return None
    return str(rows[0]["day"]), Decimal(rows[0]["day_equity"])
