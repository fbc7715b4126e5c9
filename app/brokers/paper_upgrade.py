"""Brings the paper exchange's file of an earlier Onefill up to date, in place: all of it, or nothing.

The statements here stay as they were released; `schema_paper.sql` says what a new file has.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import apsw

from app.brokers.paper_match import EXACT
from app.domain.number import plain
from app.domain.signal import Side


def upgrade(connection: apsw.Connection) -> None:
    """Raises apsw.Error, and then has changed nothing. The file's content was checked before."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again: another program may have been quicker.
        version = connection.pragma("user_version")
        for number, step in _STEPS.items():
            if number > version:
                step(connection)
                connection.pragma("user_version", number)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def added_since(version: int) -> frozenset[str]:
    """What a file of that version need not have yet, in the words of paper_file."""
    return frozenset(part for number, parts in _ADDED.items() if number > version for part in parts)


def _keep_positions(connection: apsw.Connection) -> None:
    """Version 2: positions are kept, not added up at each look."""
    connection.execute(
        "CREATE TABLE positions (account TEXT NOT NULL REFERENCES accounts (name), symbol TEXT NOT NULL, "
        "quantity TEXT NOT NULL, PRIMARY KEY (account, symbol)) STRICT"
    )
    sums: dict[tuple[str, str], Decimal] = {}
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT account, symbol, side, quantity FROM fills"
    ).fetchall()
    for account, symbol, side, text in rows:
        quantity = Decimal(text) if side == Side.BUY else EXACT.minus(Decimal(text))
        sums[account, symbol] = EXACT.add(sums.get((account, symbol), Decimal(0)), quantity)
    for (account, symbol), quantity in sums.items():
        connection.execute("INSERT INTO positions VALUES (?, ?, ?)", (account, symbol, plain(quantity)))


_STEPS: dict[int, Callable[[apsw.Connection], None]] = {2: _keep_positions}
"""Version -> what makes it of the one before."""

_ADDED = {
    2: (
        "table positions",
        "column positions.account",
        "column positions.symbol",
        "column positions.quantity",
    )
}
