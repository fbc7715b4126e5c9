"""Of accounts, for Needs you: who answers, what is queued at the broker, exits that turned a position.

Reads only, as `needs.py` does; split off by subject.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from app.ledger.need import FROM, MOST, ORDER, Action, Need, need_of, what_of
from app.ledger.queries import rfc3339
from app.ledger.reader import Row, read


def unacknowledged(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Accounts that send nothing until a person has said who they are, or has taken one name away (H13)."""
    sql = (
        "SELECT name, identity, answering, answering_live, answering_since, same_as FROM accounts "
        "WHERE answering IS NOT NULL ORDER BY name"
    )
    for row in read(connection, sql):
        name, number = row["name"], row["answering"]
        acknowledge = Action("acknowledge", {"account": name, "identity": number}, f"This is {number}…")
        if row["same_as"] is not None:
            text = f"{name} and {row['same_as']} are one broker account ({number}): {name} sends nothing."
            text += " Take one of the two out of config.toml and start again"
            yield _account(row, "account_named_twice", text, [])
        elif row["identity"] is not None:
            text = f"Another account answers as {name}: {number}, not {row['identity']}. It sends nothing"
            text += " until you have put the keys or the address back, or acknowledge the new number"
            yield _account(row, "account_changed", text, [acknowledge])
        else:
            text = f"{name} is account {number} and trades money. It is read and sends nothing"
            text += " until you acknowledge it"
            yield _account(row, "account_unacknowledged", text, [acknowledge])


def _account(row: Row, kind: str, text: str, actions: list[Action]) -> Need:
    return Need(
        kind=kind,
        severity="critical",
        subject=row["name"],
        text=f"{text}.",
        since=rfc3339(row["answering_since"] or 0),
        account=row["name"],
        actions=actions,
    )


def queued(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Exits that were sent outside the session: the broker keeps them, and nothing is closed yet (H33)."""
    sql = (
        f"SELECT {ORDER}, o.queued_until {FROM} WHERE o.queued_until IS NOT NULL AND o.state = 'WORKING' "
        f"AND o.purpose = 'exit' ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        until = f" until {rfc3339(row['queued_until'])[:16]} UTC" if row["queued_until"] else ""
        text = f"The exit {row['name']} ({what_of(row)}) is queued by the broker: its market is closed{until}"
        actions = [Action("cancel", {"order": row["name"], "seen": row["state"]}, "Cancel this exit")]
        yield need_of(row, "exit_queued", "warning", text, actions)


def flipped(connection: apsw.Connection, _now: int) -> Iterator[Need]:
    """Exits after which the position was on the other side, until a person has put them away (H5)."""
    sql = (
        f"SELECT {ORDER}, max(e.at) AS seen_at, e.detail ->> '$.position' AS position "
        "FROM accounts a CROSS JOIN events e ON e.subject = a.name "
        "CROSS JOIN orders o ON o.id = CAST(substr(e.detail ->> '$.order', 2) AS INTEGER) "
        "JOIN claims c ON c.id = o.claim_id JOIN sources s ON s.id = o.source_id "
        "WHERE e.what = 'flipped' GROUP BY o.id HAVING coalesce(o.settled_at, 0) < max(e.at) "
        f"ORDER BY o.id DESC LIMIT {MOST}"
    )
    for row in read(connection, sql):
        text = f"The exit {row['name']} ({what_of(row)}) has turned the position: the broker held "
        text += f"{row['position']} after it. Something else had closed it meanwhile: close it at the broker"
        actions = [
            Action("reconcile", {"account": row["account"]}, "Compare with the broker"),
            Action("dismiss", {"ids": [row["name"]]}, "Put away"),
        ]
        yield need_of(row, "flipped", "critical", text, actions, since=row["seen_at"])
