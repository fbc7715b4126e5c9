"""Needs you: what a person must look at, worst first, with what can be done about each.

One query over the ledger for window and commands; it reads and decides nothing. What comes after settles most
of it (a resend, a later exit, a replay, the next reconciliation); the rest stays until a person puts it away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

import apsw

from app.domain.key import claim_digest
from app.domain.number import plain
from app.domain.repeat import LABEL_SUSPECTED_AFTER, WINDOW
from app.ledger import needs_accounts
from app.ledger.findings import findings
from app.ledger.need import FROM, MOST, OPEN, ORDER, SEVERITIES, Action, Need, Severity, need_of, what_of
from app.ledger.queries import rfc3339
from app.ledger.reader import Row, read

__all__ = ["Action", "Need", "Severity", "needs"]

RESEND = 60_000_000
"""Microseconds in which a sender who was told 503 may still send again (HOLES H10)."""


def needs(connection: apsw.Connection, now: int) -> list[Need]:
    """All of it, worst first. `now` is UTC in microseconds."""
    found = [
        (SEVERITIES.index(need.severity), place, need)
        for place, kind in enumerate(_KINDS)
        for need in kind(connection, now)
    ]
    # Stable: within a kind the newest stays first.
    return [need for _, _, need in sorted(found, key=lambda each: each[:2])]


# ---------------------------------------------------------------------------------------------------- orders

_UNSETTLED = """settled_at IS NULL AND (
    (purpose IN ('exit', 'cancel') OR action = 'reverse') AND cancel_requested = 0
    AND (state IN ('DENIED', 'NOT_PLACED') OR (state = 'DONE' AND ord_status <> 'Filled'))
    OR state = 'DENIED' AND substr(reason, 1, 5) IN ('OTHER', 'DRIFT')
    OR state = 'DENIED' AND substr(reason, 1, 18) = 'POSITION_UNCERTAIN'
    OR state = 'DENIED' AND substr(reason, 1, 16) = 'STALE unanswered'
    OR state = 'NOT_PLACED' AND substr(reason, 1, 16) = 'CONFIRMED_ABSENT'
    OR state IN ('DENIED', 'NOT_PLACED') AND leg > 1 AND purpose = 'entry'
)"""
"""Word for word the condition of the index (schema 004)."""
# Newest of its leg, and no later order has left the book with nothing of what it held then.
_STILL_LOST = """
    coalesce(o.reason, '') NOT LIKE 'SUPERSEDED_BY_EXIT%' AND coalesce(o.reason, '') NOT LIKE 'CANCELED_BY%'
    AND NOT EXISTS (
        SELECT 1 FROM orders n WHERE n.claim_id = o.claim_id AND n.account = o.account AND n.leg = o.leg
        AND n.generation > o.generation
    )
    AND (coalesce(o.reason, '') LIKE 'OTHER_BOOK_OPEN%' OR NOT EXISTS (
        SELECT 1 FROM orders n WHERE n.id > o.id AND n.account = o.account AND n.instrument = o.instrument
        AND n.source_id = o.source_id AND n.strategy = o.strategy AND n.closes_book = 1
        AND n.state = 'DONE' AND (n.ord_status = 'Filled' OR n.reason LIKE 'NOTHING_TO_DO%')
    ))"""


def _lost_orders(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Exits that ended in anything but filled or proved nothing to do, and denials that a person must see."""
    sql = (
        f"SELECT {ORDER} {FROM} WHERE o.id IN (SELECT id FROM orders WHERE {_UNSETTLED} "
        f"ORDER BY id DESC LIMIT {MOST * 5}) AND {_STILL_LOST} ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        yield _lost_order(row, _book(connection, row), _may_still_fill(connection, row))


def _lost_order(row: Row, book: Decimal, may_still_fill: str | None) -> Need:
    reason = row["reason"] or row["ord_status"] or row["state"]
    opens = row["leg"] > 1 and row["purpose"] == "entry"
    is_exit = row["purpose"] in ("exit", "cancel") or (row["action"] == "reverse" and not opens)
    holds = f"its book still holds {plain(book)}" if book else "its book is flat now"
    if may_still_fill:
        holds += f", and {may_still_fill} may still fill"
    what = f"{row['name']} ({what_of(row)})"
    actions = [_replay(row)] if Decimal(row["filled_quantity"]) == 0 else []
    if book:
        actions.append(_close(row))
    actions.append(_dismiss(row["name"]))
    if reason.startswith("OTHER_BOOK_OPEN"):
        text = f"{what} had nothing of its own to close, while something else is open on {row['symbol']}"
        severity: Severity = "critical"
        kind = "other_book_open"
    elif reason.startswith("STALE unanswered"):
        text = f"{what}: its sender was told 503 and has not sent it again; nothing was placed"
        severity, kind = ("critical" if is_exit else "warning"), "unanswered"
    elif reason.startswith(("DRIFT", "POSITION_UNCERTAIN")):
        text = f"{what} was held back: our books and the broker do not agree"
        severity, kind = ("critical" if is_exit else "warning"), "held_back_by_drift"
    elif opens and row["state"] == "DENIED":
        text = f"{what}, the opening half of a turn, was not sent after its closing half; {holds}"
        severity, kind = "warning", "turn_broken"
    elif not is_exit:
        text = f"The entry {what} never got to the broker, and is not sent again by itself; {holds}"
        severity, kind = "warning", "entry_lost"
    elif row["purpose"] == "cancel":
        text = f"The cancel {row['name']} on {row['symbol']} was not carried out"
        severity, kind = "warning", "exit_lost"
    else:
        text = f"The exit {what} was not done; {holds}"
        severity, kind = ("critical" if book or may_still_fill else "warning"), "exit_lost"
    return need_of(row, kind, severity, text, actions, reason=reason)


def _unresolved(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    sql = (
        f"SELECT {ORDER} {FROM} WHERE {OPEN} AND o.state IN ('NEEDS_OPERATOR', 'AMBIGUOUS') "
        f"ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        asks = row["state"] == "AMBIGUOUS"
        text = f"Nobody knows whether the broker has {row['name']} ({what_of(row)}); it is not sent again"
        text += ". The broker is being asked" if asks else ": only you can decide"
        actions = [
            _resolve(row, "look_again", "Look again"),
            _resolve(row, "not_placed", "It was not placed"),
            _resolve(row, "placed", "It is this order…"),
        ]
        severity: Severity = "warning" if asks else "critical"
        yield need_of(row, "ambiguous" if asks else "needs_operator", severity, text, actions)


def _waiting_exits(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    sql = (
        f"SELECT {ORDER} {FROM} WHERE {OPEN} AND o.state = 'PENDING' AND o.purpose = 'exit' "
        f"AND o.reason LIKE 'WAITING_FOR_%' ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        for_whom = row["reason"].removeprefix("WAITING_FOR_").partition(" ")[0]
        words = {"BROKER": "the broker, which cannot be asked now", "RESEND": "its sender, who was told 503"}
        text = f"The exit {row['name']} ({what_of(row)}) waits for {words.get(for_whom, for_whom)}"
        actions = [Action("cancel", {"order": row["name"], "seen": row["state"]}, "Cancel this exit")]
        yield need_of(row, "exit_waits", "critical" if for_whom[:1] == "O" else "warning", text, actions)


def _ghosts(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Orders that were called absent and are at the broker after all, until a person has seen it."""
    sql = (
        f"SELECT {ORDER}, max(r.ended_at) AS seen_at {FROM} JOIN findings f ON f.subject = 'O' || o.id "
        "JOIN reconciliations r ON r.id = f.reconciliation_id WHERE f.kind = 'ghost' AND o.id IN "
        "(SELECT CAST(substr(subject, 2) AS INTEGER) FROM findings WHERE kind = 'ghost') "
        "GROUP BY o.id HAVING sum(f.settled_at IS NULL) > 0 "
        # One that stays DENIED is found anew by every reconciliation.
        "AND (o.state <> 'DENIED' OR max(f.settled_at) IS NULL) "
        f"ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        text = f"{row['name']} ({what_of(row)}) was called absent and is at the broker after all"
        actions = [_dismiss(row["name"])]
        if row["state"] == "WORKING":
            cancel = {"order": row["name"], "seen": row["state"]}
            actions.insert(0, Action("cancel", cancel, "Cancel it"))
        if _book(connection, row):
            actions.insert(0, _close(row))
        yield need_of(row, "ghost", "critical", text, actions, since=row["seen_at"])


def _overfilled(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Orders that the broker filled beyond their quantity, until a person has put them away."""
    sql = (
        f"SELECT {ORDER}, max(e.at) AS seen_at FROM accounts a CROSS JOIN events e ON e.subject = a.name "
        "CROSS JOIN orders o ON o.id = CAST(substr(e.detail ->> '$.order', 2) AS INTEGER) "
        "JOIN claims c ON c.id = o.claim_id JOIN sources s ON s.id = o.source_id "
        "WHERE e.what = 'overfilled' GROUP BY o.id HAVING coalesce(o.settled_at, 0) < max(e.at) "
        f"ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        text = f"The broker filled {row['filled_quantity']} of {row['quantity']} ordered: {row['name']} "
        text += f"({what_of(row)}); our book has it all"
        actions = [Action("reconcile", {"account": row["account"]}, "Compare with the broker")]
        if _book(connection, row):
            actions.append(_close(row))
        if row["state"] == "DONE":
            actions.append(_dismiss(row["name"]))
        yield need_of(row, "overfilled", "critical", text, actions, since=row["seen_at"])


def _book(connection: apsw.Connection, row: Row) -> Decimal:
    sql = "SELECT net FROM books WHERE account = ? AND instrument = ? AND source_id = ? AND strategy = ?"
    key = (row["account"], row["instrument"], row["source_id"], row["strategy"])
    found = read(connection, sql, key)
    return Decimal(found[0]["net"]) if found else Decimal(0)


def _may_still_fill(connection: apsw.Connection, row: Row) -> str | None:
    """An order of the book that may be at the broker and opens: what there is to close is not known yet."""
    sql = (
        f"SELECT 'O' || o.id AS name FROM orders o WHERE {OPEN} AND o.account = ? AND o.instrument = ? "
        "AND o.source_id = ? AND o.strategy = ? AND o.state <> 'PENDING' AND o.purpose = 'entry' "
        "ORDER BY o.id LIMIT 1"
    )
    key = (row["account"], row["instrument"], row["source_id"], row["strategy"])
    found = read(connection, sql, key)
    return found[0]["name"] if found else None


def _resolve(row: Row, answer: str, text: str) -> Action:
    return Action("resolve", {"order": row["name"], "answer": answer, "seen": row["state"]}, text)


def _replay(row: Row) -> Action:
    return Action("replay", {"order": row["name"], "seen": row["state"]}, "Send it again")


def _close(row: Row) -> Action:
    arguments = {"account": row["account"], "symbol": row["instrument"]}
    return Action("close", arguments, f"Close {row['symbol']} in {row['account']}")


def _dismiss(name: str) -> Action:
    return Action("dismiss", {"ids": [name]}, "Put away")


# ------------------------------------------------------------------------------------------------ deliveries


def _deliveries(connection: apsw.Connection, now: int) -> Iterator[Need]:
    """Conflicts, lost exits, and repeats that may be signals of their own."""
    sql = (
        "SELECT 'D' || d.id AS name, d.received_at, d.source_id, s.name AS source, d.verdict, d.reason, "
        "d.detail, d.claim_id, d.key, d.needs, c.symbol FROM deliveries d "
        "JOIN sources s ON s.id = d.source_id LEFT JOIN claims c ON c.id = d.claim_id "
        f"WHERE d.needs IS NOT NULL ORDER BY d.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        need = _delivery(connection, row, now)
        if need is not None:
            yield need


def _delivery(connection: apsw.Connection, row: Row, now: int) -> Need | None:
    reads_as_exit = row["needs"] == "exit"
    severity: Severity = "critical" if reads_as_exit else "warning"
    admit = Action("admit", {"delivery": row["name"]}, "Admit as a new signal")
    actions = [_dismiss(row["name"])]
    exit_ = " that reads as an exit" if reads_as_exit else ""
    came = f"An alert{exit_} from {row['source']}"
    if row["verdict"] == "conflict":
        kind, actions = "conflict", [admit, *actions]
        text = f"{came} bears the key of S{row['claim_id']} and asks for something else; nothing was placed"
    elif row["verdict"] == "duplicate":
        kind, severity, actions = "second_signal", "info", [admit, *actions]
        text = f"A repeat of S{row['claim_id']} from {row['source']} came too late to be a resend"
    elif row["verdict"] == "not_accepted":
        if now - row["received_at"] <= RESEND or _was_claimed(connection, row):
            return None
        kind = "exit_not_accepted"
        text = f"{came} was answered 503 ({row['reason']}) and has not come again; nothing was placed"
    else:
        kind = "exit_refused"
        text = f"{came} was refused ({row['reason'] or row['verdict']}); nothing was placed"
    return Need(
        kind=kind,
        severity=severity,
        subject=row["name"],
        text=f"{text}.",
        since=rfc3339(row["received_at"]),
        symbol=row["symbol"],
        reason=row["detail"] or row["reason"],
        actions=actions,
    )


def _was_claimed(connection: apsw.Connection, row: Row) -> bool:
    """Whether the key was accepted after all, by a resend or before; what stands under it speaks for it.

    The claim of a delivery that went late is itself what waits: its order is among the lost ones.
    """
    if row["claim_id"] is not None:
        return True
    key, source = row["key"], row["source_id"]
    if key is None:
        return False
    digest = claim_digest(source, key, None)
    if read(connection, "SELECT 1 FROM claims WHERE digest = ? AND unanswered = 0", (digest,)):
        return True
    sql = (
        "SELECT 1 FROM claims WHERE source_id = ? AND key = ? AND key_source = 'window' AND unanswered = 0 "
        "AND admitted_at BETWEEN ? AND ? LIMIT 1"
    )
    around = (row["received_at"] - WINDOW, row["received_at"] + LABEL_SUSPECTED_AFTER)
    return bool(read(connection, sql, (source, key, *around)))


_KINDS: tuple[Callable[[apsw.Connection, int], Iterator[Need]], ...] = (
    _lost_orders,
    needs_accounts.flipped,
    needs_accounts.unacknowledged,
    _ghosts,
    _overfilled,
    _deliveries,
    _waiting_exits,
    needs_accounts.queued,
    _unresolved,
    findings,
)
"""In this order where two are equally bad: a lost exit stands first (HOLES H5)."""
