"""How much came in and what became of it, kept in memory so that the status never waits for a read.

Rows of one kind are only added, so a refresh reads what is new; now and then all is counted anew, since a
verdict may still turn into a 503 after it was counted.
"""

from __future__ import annotations

from collections import Counter

import apsw

from app.ledger.reader import read

NAMES = (
    "signals",
    "duplicates",
    "refused",
    "denied",
    "not_placed",
    "open",
    "waiting",
    "unresolved",
    "turned_away",
)

HOUR = 3_600_000_000
DAY = 24 * HOUR
_OVER = "('DONE', 'DENIED', 'NOT_PLACED')"
_LOST = (
    "SELECT state, count(*) AS n FROM orders WHERE {} AND state IN ('DENIED', 'NOT_PLACED') GROUP BY state"
)

STRANGE = {
    "source_or_token": "a wrong token or an unknown source",
    "bad_secret": "a wrong secret",
    "missing_secret": "no secret",
    "unreadable": "an unreadable body where the secret is in the body",
}
"""Reasons of a request without a row that a mistake in the sender's address or message has."""


class Counts:
    def __init__(self) -> None:
        self.strange: dict[str, int] = {}
        """Of this and the last full hour, by reason: requests that may have been meant for a source."""
        self.turned_away: dict[str, int] = {}
        """Of the last day, by reason: all requests that failed authentication or were none for a hook."""
        self._delivery = 0
        self._claim = 0
        self._order = 0
        """Up to this one all orders are over; those that ended without being placed are in `_lost`."""
        self._signals = 0
        self._verdicts: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._orders: Counter[str] = Counter()

    def values(self) -> dict[str, int]:
        """`open`: at the broker or on the way; `waiting`: not sent; `unresolved`: nobody knows;
        `turned_away`: requests of the last day that failed authentication and have no row."""
        verdicts, orders = self._verdicts, self._orders
        unresolved = orders["AMBIGUOUS"] + orders["NEEDS_OPERATOR"]
        numbers = (
            self._signals,
            verdicts["duplicate"],
            verdicts.total() - verdicts["duplicate"] - verdicts["accepted"],
            orders["DENIED"],
            orders["NOT_PLACED"],
            orders["WORKING"] + orders["SUBMITTING"],
            orders["PENDING"],
            unresolved,
            sum(self.turned_away.values()),
        )
        return dict(zip(NAMES, numbers, strict=True))

    def read(self, connection: apsw.Connection, now: int) -> None:
        """Counts what came since the last call, in one read transaction of the caller's; blocking."""
        claims = read(
            connection, "SELECT count(*) AS n, max(id) AS last FROM claims WHERE id > ?", (self._claim,)
        )[0]
        verdicts = read(
            connection,
            "SELECT verdict, count(*) AS n, max(id) AS last FROM deliveries WHERE id > ? GROUP BY verdict",
            (self._delivery,),
        )
        self._signals += claims["n"]
        self._claim = claims["last"] or self._claim
        self._verdicts.update({row["verdict"]: row["n"] for row in verdicts})
        self._delivery = max((row["last"] for row in verdicts), default=self._delivery)
        self._read_orders(connection)
        self.read_strangers(connection, now)

    def _read_orders(self, connection: apsw.Connection) -> None:
        still = read(
            connection,
            "SELECT state, count(*) AS n, min(id) AS first FROM orders "
            f"WHERE state NOT IN {_OVER} GROUP BY state",
        )
        newest = read(connection, "SELECT coalesce(max(id), 0) AS id FROM orders")[0]["id"]
        over_until = min([newest, *(row["first"] - 1 for row in still)])
        if over_until > self._order:
            rows = read(connection, _LOST.format("id > ? AND id <= ?"), (self._order, over_until))
            self._lost.update({row["state"]: row["n"] for row in rows})
            self._order = over_until
        rest = read(connection, _LOST.format("id > ?"), (self._order,))
        self._orders = Counter({row["state"]: row["n"] for row in still}) + self._lost
        self._orders.update({row["state"]: row["n"] for row in rest})

    def read_strangers(self, connection: apsw.Connection, now: int) -> None:
        """Only who was turned away; blocking."""
        rows = read(
            connection,
            "SELECT hour, reason, count FROM unauthenticated WHERE hour > ? ORDER BY hour, reason",
            (now - DAY,),
        )
        day, lately = Counter[str](), Counter[str]()
        for row in rows:
            day[row["reason"]] += row["count"]
            if row["hour"] > now - 2 * HOUR and row["reason"] in STRANGE:
                lately[row["reason"]] += row["count"]
        self.turned_away, self.strange = dict(day), dict(lately)


def turned_away_since(connection: apsw.Connection, since: int) -> dict[str, int]:
    """Requests that failed authentication, by reason, most first: nothing else of them is kept."""
    rows = read(
        connection,
        "SELECT reason, sum(count) AS n FROM unauthenticated WHERE hour > ? GROUP BY reason ORDER BY n DESC",
        (since,),
    )
    return {row["reason"]: row["n"] for row in rows}
