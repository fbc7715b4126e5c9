"""How each account stands with its broker, as the ledger was told last: drift, ghosts, another account.

Reads only. What is shown here stays until a later pass is clean, or a person has settled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import apsw
import msgspec

from app.ledger.needs import Need
from app.ledger.reader import read

DAY = 86_400_000_000
SHOWN = 3
"""So many findings are named in one sentence."""
_WORDS = {"drift": "drift", "missing_at_broker": "findings", "ghost": "findings"}
OTHER_ACCOUNT = "other account"


class Trouble(msgspec.Struct, frozen=True):
    """`word` is `drift`, `findings` or `other account`; `reason` says what differs and what to do."""

    word: str
    reason: str


def troubles(connection: apsw.Connection, needs: Iterable[Need], now: int) -> dict[str, Trouble]:
    """By account, those only that have one. `needs` as just read from the same ledger; `now` in UTC µs."""
    found: dict[str, list[Need]] = {}
    for need in needs:
        if need.kind in _WORDS and need.account is not None:
            found.setdefault(need.account, []).append(need)
    told = {account: _of_findings(account, theirs) for account, theirs in found.items()}
    for row in read(connection, "SELECT name FROM accounts"):
        changed = _other_account(connection, row["name"], now)
        if changed is not None:
            also = told.get(row["name"])
            reason = f"{changed}. {also.reason}" if also else changed
            told[row["name"]] = Trouble(OTHER_ACCOUNT, reason)
    return told


def _of_findings(account: str, needs: list[Need]) -> Trouble:
    words = {_WORDS[need.kind] for need in needs}
    texts = " ".join(need.text for need in needs[:SHOWN])
    if len(needs) > SHOWN:
        texts += f" And {len(needs) - SHOWN} more."
    todo = f"`onefill needs` has what can be done; `onefill reconcile {account}` compares again"
    return Trouble("drift" if words == {"drift"} else "findings", f"{texts} {todo}")


def _other_account(connection: apsw.Connection, account: str, now: int) -> str | None:
    """The account behind the name changed (HOLES H13): told for a day, and until a pass is clean."""
    rows = read(
        connection,
        "SELECT at, detail FROM events WHERE subject = ? AND what = 'another account' "
        "ORDER BY id DESC LIMIT 1",
        (account,),
    )
    if not rows:
        return None
    (row,) = rows
    clean = read(
        connection,
        "SELECT started_at FROM reconciliations WHERE account = ? AND result = 'OK' ORDER BY id DESC LIMIT 1",
        (account,),
    )
    if clean and clean[0]["started_at"] >= row["at"] and now - row["at"] > DAY:
        return None
    detail: Mapping[str, str] = msgspec.json.decode(row["detail"])
    return (
        f"another account answers than before: {detail.get('is')}, not {detail.get('was')}. If that was not "
        "meant, stop and put back the keys or the paper exchange's file; if it was, set our books to what it "
        f"holds with `onefill book {account} SYMBOL --set QUANTITY`"
    )
