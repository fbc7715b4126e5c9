"""What the ledger needs before this run may touch it: doubt named as doubt, refusals kept refused.

One transaction, before the door opens. Nothing is sent from here and nothing is resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.claims.voided import apply_voided
from app.domain.order import State
from app.ledger import orders
from app.ledger.restore import LOOKUP_BEFORE_SEND
from app.ledger.transaction import Transaction
from app.settings import Account, Source

WALL_MARK = "wall_mark"
"""Newest wall time that any run has seen, in microseconds (HOLES H32)."""
ACTOR = "onefill"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the last run left behind. `wall_mark` is the newest wall time that it had seen."""

    in_doubt: tuple[str, ...]
    voided: int
    wall_mark: int
    trading_state: str


def recover(tx: Transaction, now: int) -> Recovered:
    """Every SUBMITTING becomes AMBIGUOUS, its attempt left open; claims that were answered 503 stay so.

    Returns the wall time that earlier runs had seen, and marks the one of this run.
    """
    interrupted = orders.where(tx, "state = ?", (State.SUBMITTING.value,))
    for order in interrupted:
        reason = "INTERRUPTED the program ended while the order was being sent"
        orders.move(tx, order, State.AMBIGUOUS, at=now, actor=ACTOR, reason=reason)
    voided = apply_voided(tx)
    mark = int(tx.meta(WALL_MARK) or 0)
    mark_wall_time(tx, now, now)
    if interrupted or voided:
        detail = {"in_doubt": [order.name for order in interrupted], "unanswered": voided}
        tx.event(now, ACTOR, "recovered", "ledger", detail)
    return Recovered(
        tuple(order.name for order in interrupted), voided, mark, tx.meta("trading_state") or "active"
    )


def known_sources(tx: Transaction) -> dict[str, str]:
    """Name to id of every source that the ledger has seen."""
    rows = tx.execute("SELECT name, id FROM sources")
    return {str(name): str(source_id) for name, source_id in rows}


def register(tx: Transaction, sources: Iterable[Source], accounts: Iterable[Account]) -> None:
    """Writes the configured sources and accounts where other rows can refer to them.

    A source that a restored ledger does not know may have had claims in the time that was lost (HOLES H39).
    """
    restored_at = tx.meta(LOOKUP_BEFORE_SEND)
    watermark = None if restored_at is None else int(restored_at)
    for source in sources:
        sql = "UPDATE sources SET name = ? WHERE id = ?"
        if not tx.change("sources", sql, (source.name, source.id)):
            tx.insert("sources", {"id": source.id, "name": source.name, "watermark": watermark})
    for account in accounts:
        sql = "UPDATE accounts SET broker = ? WHERE name = ?"
        if not tx.change("accounts", sql, (account.broker, account.name)):
            tx.insert("accounts", {"name": account.name, "broker": account.broker})


def mark_wall_time(tx: Transaction, now: int, run_began_at: int) -> None:
    """Keeps the newest wall time seen. It goes back only when no order of an earlier run waits on it.

    Else a clock that once stood in the far future would hold back every later run (HOLES H32).
    """
    mark = int(tx.meta(WALL_MARK) or 0)
    if now < mark:
        sql = "SELECT 1 FROM orders WHERE state = 'PENDING' AND (created_at < ? OR created_at > ?) LIMIT 1"
        if tx.one(sql, (run_began_at, now)) is not None:
            return
    tx.set_meta(WALL_MARK, str(now))
