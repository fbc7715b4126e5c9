"""Accounts that the ledger knows and the settings do not name any more. Reads only.

Nobody would close what is open there, or even look at it: such a start is refused (HOLES H13).
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from app.engine.status import StartRefused
from app.ledger.orders import OPEN, books, plain
from app.ledger.transaction import Transaction
from app.settings import Account

log = structlog.get_logger(__name__)

SHOWN = 4
"""So much of what is open is named in the one line."""


def refuse_orphans(tx: Transaction, configured: Mapping[str, Account]) -> None:
    """`configured` by name. Raises StartRefused where something is open in an account that is not named."""
    known = tx.execute("SELECT name, broker, identity, endpoint FROM accounts ORDER BY name")
    names = {str(row[0]) for row in known}
    for name, broker, identity, endpoint in known:
        if name in configured:
            continue
        still_open = _still_open(tx, name)
        if not still_open:
            log.info("an account is not in config.toml any more; nothing is open there", account=name)
            continue
        same = [
            str(other)
            for other, _, its, at in known
            if other in configured and identity is not None and (its, at) == (identity, endpoint)
        ]
        new = [one.name for one in configured.values() if one.name not in names and one.broker == broker]
        raise StartRefused(_line(name, still_open, same, new))


def _still_open(tx: Transaction, account: str) -> list[str]:
    """Books first, then orders that are not over; each as a person reads it."""
    sql = f"SELECT id, instrument, state FROM orders WHERE {OPEN} AND account = ? ORDER BY id"
    working = tx.execute(sql, (account,))
    return [
        *(f"{plain(book.net)} {book.instrument}" for book in books(tx, account)),
        *(f"order O{number} {instrument} {state}" for number, instrument, state in working),
    ]


def _line(name: str, still_open: list[str], same: list[str], new: list[str]) -> str:
    said = ", ".join(still_open[:SHOWN])
    if len(still_open) > SHOWN:
        said += f" and {len(still_open) - SHOWN} more"
    line = f'config.toml has no [[accounts]] "{name}" any more, and the ledger has open there: {said}. '
    if same:
        line += f'"{same[0]}" is the same account at the broker, renamed. '
    elif new:
        line += f'An account cannot be renamed to "{new[0]}" while something is open in it. '
    return (
        f'{line}Put the name "{name}" back (also under accounts of its sources). To give it up, first close '
        f"and cancel what is open, or set it to nothing with `onefill book {name} SYMBOL --set 0`"
    )
