"""How much came in and what became of it, kept in memory so that the status never waits for a read.

Rows of one kind are only added, so a refresh reads what is new; now and then all is counted anew, since a
verdict may still turn into a 503 after it was counted.
"""

from __future__ import annotations

from collections import Counter

import apsw

from app.ledger.reader import read

NAMES = ("signals", "duplicates", "refused", "open", "waiting", "unresolved")


class Counts:
    def __init__(self) -> None:
        self._delivery = 0
        self._claim = 0
        self._signals = 0
        self._verdicts: Counter[str] = Counter()
        self._orders: Counter[str] = Counter()

    def values(self) -> dict[str, int]:
        """`open`: at the broker or on the way; `waiting`: not sent; `unresolved`: nobody knows."""
        verdicts, orders = self._verdicts, self._orders
        unresolved = orders["AMBIGUOUS"] + orders["NEEDS_OPERATOR"]
        numbers = (
            self._signals,
            verdicts["duplicate"],
            verdicts.total() - verdicts["duplicate"] - verdicts["accepted"],
            orders["WORKING"] + orders["SUBMITTING"],
            orders["PENDING"],
            unresolved,
        )
        return dict(zip(NAMES, numbers, strict=True))

    def read(self, connection: apsw.Connection) -> None:
        """Counts what came since the last call; blocking."""
        claims = read(
            connection, "SELECT count(*) AS n, max(id) AS last FROM claims WHERE id > ?", (self._claim,)
        )[0]
        verdicts = read(
            connection,
            "SELECT verdict, count(*) AS n, max(id) AS last FROM deliveries WHERE id > ? GROUP BY verdict",
            (self._delivery,),
        )
        orders = read(
            connection,
            "SELECT state, count(*) AS n FROM orders WHERE state NOT IN ('DONE', 'DENIED', 'NOT_PLACED') "
            "GROUP BY state",
        )
        self._signals += claims["n"]
        self._claim = claims["last"] or self._claim
        self._verdicts.update({row["verdict"]: row["n"] for row in verdicts})
        self._delivery = max((row["last"] for row in verdicts), default=self._delivery)
        self._orders = Counter({row["state"]: row["n"] for row in orders})
