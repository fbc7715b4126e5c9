"""Who an account is at its broker, and whether it may send as that (HOLES H13).

The number that answers is compared with the one that was accepted before. Another number, a number that two
names of config.toml share, or money that nobody has acknowledged yet: such an account sends nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.brokers.base import Account
from app.domain.order import State
from app.execution import exposure, replies
from app.execution.operator import Answer, Decision, NotDone
from app.execution.policy import Policy
from app.ledger import orders
from app.ledger.orders import OPEN
from app.ledger.transaction import Transaction

Word = Literal["cleared", "changed", "unacknowledged", "same_account"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`changed`: nothing that is seen there says anything about our orders. `unacknowledged`: it may be read
    and reconciled. Only `cleared` sends. `reason` is a sentence, with the words to type where there are any.
    """

    word: Word
    reason: str = ""

    @property
    def may_send(self) -> bool:
        return self.word == "cleared"

    @property
    def may_read(self) -> bool:
        return self.word in ("cleared", "unacknowledged")


CLEARED = Standing("cleared")


def take(tx: Transaction, policy: Policy, account: Account, peers: Sequence[str], now: int) -> Standing:
    """Keeps who answers and what the account was worth when the day began, and says what it may do.

    `peers` are the other configured accounts.
    """
    row = tx.one(
        "SELECT identity, endpoint, answering, answering_at FROM accounts WHERE name = ?", (policy.name,)
    )
    known, at, answering, answering_at = row or (None, None, None, None)
    is_new = (answering, answering_at) != (account.identity, account.endpoint)
    other = _other_name(tx, policy, account, peers)
    if other is not None:
        return _same_account(tx, policy, account, other, now)
    if known is not None and (known, at) != (account.identity, account.endpoint):
        if is_new:
            detail = {"was": known, "was_at": at, "is": account.identity, "is_at": account.endpoint}
            tx.event(now, f"broker:{policy.name}", "another account", policy.name, detail)
        _put(tx, policy, account, now, is_new=is_new)
        _to_a_person(tx, policy.name, account, now)
        reason = (
            f"another account answers than before: {account.identity}, not {known}: put the keys, the "
            f"address or the paper exchange's file back, or type `{words(policy.name, account.identity)}`"
        )
        return Standing("changed", reason)
    if policy.account.live and not _is_acknowledged(tx, policy.name, account):
        _put(tx, policy, account, now, is_new=is_new)
        _begin_day(tx, policy, account, now)
        reason = (
            f"account {account.identity} trades money and is not acknowledged yet: it is read and sends "
            f"nothing; type `{words(policy.name, account.identity)}`"
        )
        return Standing("unacknowledged", reason)
    _accept(tx, policy.name, account.identity, account.endpoint)
    _begin_day(tx, policy, account, now)
    return CLEARED


def words(account: str, identity: str) -> str:
    """The command that acknowledges an account's number."""
    return f"onefill acknowledge {shlex.quote(account)} --identity {shlex.quote(identity)} --why TEXT"


def acknowledge(tx: Transaction, account: str, identity: str, decision: Decision) -> Answer:
    """A person has typed the number of the account that answers: it is accepted, and may send."""
    row = tx.one(
        "SELECT answering, answering_at, answering_live, identity, same_as FROM accounts WHERE name = ?",
        (account,),
    )
    if row is not None and row[4] is not None:
        raise NotDone(f"{row[0]} is the account of {row[4]} already: take one out of config.toml first")
    if row is None or row[0] is None:
        number = row[3] if row is not None and row[3] else "none yet"
        raise NotDone(f"{account} has nothing to acknowledge: its account is {number}")
    if row[0] != identity.strip():
        raise NotDone(
            f"the account that answers is {row[0]}, not {identity[:60].strip()!r}: type its own number"
        )
    values = {"account": account, "identity": row[0], "endpoint": row[1], "live": row[2]}
    tx.insert("acknowledgements", {**values, "at": decision.at, "actor": decision.actor, "why": decision.why})
    if row[3] is not None and row[3] != row[0]:
        # What was another's in the old account says nothing about the new one.
        tx.change("externals", "DELETE FROM externals WHERE account = ?", (account,))
        tx.change("drifts", "DELETE FROM drifts WHERE account = ?", (account,))
    _accept(tx, account, row[0], row[1])
    decision.note(tx, "account acknowledged", account, identity=row[0], was=row[3], live=bool(row[2]))
    return {"account": account, "identity": row[0], "was": row[3], "live": bool(row[2])}


def _other_name(tx: Transaction, policy: Policy, account: Account, peers: Sequence[str]) -> str | None:
    rows = tx.execute(
        "SELECT name FROM accounts WHERE broker = ? AND (identity = ? OR answering = ?) AND same_as IS NULL "
        "ORDER BY name",
        (policy.account.broker, account.identity, account.identity),
    )
    return next((str(name) for (name,) in rows if name in peers), None)


def _same_account(tx: Transaction, policy: Policy, account: Account, other: str, now: int) -> Standing:
    sql = (
        "UPDATE accounts SET same_as = ?, answering = ?, answering_at = ?, answering_live = NULL, "
        "answering_since = ? WHERE name = ? AND same_as IS NOT ?"
    )
    values = (other, account.identity, account.endpoint, now, policy.name, other)
    if tx.change("accounts", sql, values):
        detail = {"identity": account.identity, "same_as": other}
        tx.event(now, f"broker:{policy.name}", "account named twice", policy.name, detail)
    return Standing(
        "same_account",
        f"{account.identity} is the account of {other} already: one broker account under two names would "
        f"split its limits and books; take {policy.name} or {other} out of config.toml and start again",
    )


def _put(tx: Transaction, policy: Policy, account: Account, now: int, *, is_new: bool) -> None:
    sql = (
        "UPDATE accounts SET answering = ?, answering_at = ?, answering_live = ?, "
        "answering_since = coalesce(CASE WHEN ? THEN NULL ELSE answering_since END, ?), same_as = NULL "
        "WHERE name = ?"
    )
    live = int(policy.account.live)
    tx.change("accounts", sql, (account.identity, account.endpoint, live, int(is_new), now, policy.name))


def _accept(tx: Transaction, name: str, identity: str, endpoint: str) -> None:
    sql = (
        "UPDATE accounts SET identity = ?, endpoint = ?, answering = NULL, answering_at = NULL, "
        "answering_live = NULL, answering_since = NULL, same_as = NULL WHERE name = ? "
        "AND (identity IS NOT ? OR endpoint IS NOT ? OR answering IS NOT NULL OR same_as IS NOT NULL)"
    )
    tx.change("accounts", sql, (identity, endpoint, name, identity, endpoint))


def _begin_day(tx: Transaction, policy: Policy, account: Account, now: int) -> None:
    exposure.begin_day(tx, policy.name, policy, account.equity, now)


def _is_acknowledged(tx: Transaction, name: str, account: Account) -> bool:
    sql = (
        "SELECT 1 FROM acknowledgements "
        "WHERE account = ? AND identity = ? AND endpoint = ? AND live = 1 LIMIT 1"
    )
    return tx.one(sql, (name, account.identity, account.endpoint)) is not None


def _to_a_person(tx: Transaction, name: str, account: Account, now: int) -> None:
    """Looks from here are no evidence of what was sent there: only a person can go on."""
    for order in orders.where(tx, f"{OPEN} AND account = ? AND state IN ('AMBIGUOUS', 'WORKING')", (name,)):
        elsewhere = replies.sent_elsewhere(tx, order, account)
        if elsewhere is not None:
            orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=elsewhere)
