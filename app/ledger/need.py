"""One thing in Needs you, and an order of the ledger as it is named there: shapes and words, no decisions."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from app.ledger.queries import rfc3339
from app.ledger.reader import Row

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")

MOST = 200
"""Rows of one kind that are read, the newest: where there are more, there is one cause to look for."""


class Action(msgspec.Struct, frozen=True):
    """A command that makes sense here, with its arguments as far as they are known; `why` is the person's."""

    command: str
    arguments: dict[str, Any]
    text: str


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a person must look at. `since` is RFC 3339; `subject` an id, or account and symbol."""

    kind: str
    severity: Severity
    subject: str
    text: str
    since: str
    account: str | None = None
    symbol: str | None = None
    reason: str | None = None
    actions: list[Action] = []


ORDER = """o.id, 'O' || o.id AS name, o.leg, o.account, o.instrument, o.source_id, o.strategy, o.action,
    o.purpose, o.side, o.quantity, o.filled_quantity, o.state, o.ord_status, o.reason, o.claim_id,
    o.cancel_requested, o.updated_at, c.symbol, s.name AS source"""
FROM = "FROM orders o JOIN claims c ON c.id = o.claim_id JOIN sources s ON s.id = o.source_id"
OPEN = "o.state NOT IN ('DONE', 'DENIED', 'NOT_PLACED')"


def need_of(
    row: Row,
    kind: str,
    severity: Severity,
    text: str,
    actions: list[Action],
    *,
    reason: str | None = None,
    since: int | None = None,
) -> Need:
    return Need(
        kind=kind,
        severity=severity,
        subject=row["name"],
        text=f"{text}.",
        since=rfc3339(since or row["updated_at"]),
        account=row["account"],
        symbol=row["symbol"],
        reason=reason or row["reason"],
        actions=actions,
    )


def what_of(row: Row) -> str:
    words = (row["side"] or row["action"], row["quantity"], row["symbol"], f"from {row['source']}")
    return " ".join(word for word in words if word)
