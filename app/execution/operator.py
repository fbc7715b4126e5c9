"""A person's decisions as operations of the writer: what they share.

Each is one transaction with its trace in the audit chain, decided on what stands in the ledger then and not
on what a screen has shown; where that has changed since, nothing is done and the person is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.brokers.base import BrokerFacts
from app.execution.policy import Policy
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction

Answer = dict[str, Any]
Seen = str | Mapping[str, str] | None
"""The state that a person saw of an order, or of several by name; None where none was shown."""


class NotDone(Exception):
    """A decision that was not carried out. One line: why not, and what to do. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided, when (UTC microseconds) and why."""

    at: int
    actor: str
    why: str

    def note(self, tx: Transaction, what: str, subject: str, **detail: Any) -> None:
        """Leaves its trace."""
        tx.event(self.at, self.actor, what, subject, {"why": self.why, **detail})


@dataclass(frozen=True, slots=True)
class AccountRules:
    """What a decision needs to know of an account: its rules, and what its broker is."""

    policy: Policy
    facts: BrokerFacts


def number(name: str, letter: str) -> int:
    """The row id in `O12`. Raises NotDone."""
    digits = name[1:]
    if name[:1].upper() != letter or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        kind = {"O": "an order's id is like O12", "D": "a delivery's id is like D12"}[letter]
        raise NotDone(f"{name[:40]!r} is no id: {kind}")
    return int(digits)


def the_order(tx: Transaction, name: str, seen: Seen) -> Order:
    """The order of that name, as it was seen. Raises NotDone."""
    try:
        order = orders.get(tx, number(name, "O"))
    except LookupError as error:
        raise NotDone(str(error)) from None
    check_seen(order, seen)
    return order


def check_seen(order: Order, seen: Seen) -> None:
    """Raises NotDone where the order is no longer what the person decided about."""
    state = seen.get(order.name) if isinstance(seen, Mapping) else seen
    if state is not None and state != order.state.value:
        raise NotDone(f"{order.name} is {order.state} now, not {state}: look at it again")


def described(order: Order) -> str:
    """`buy 10 AAPL`, as far as it is decided."""
    words = (order.side or order.action, "" if order.quantity is None else plain(order.quantity))
    return " ".join(word for word in (*words, order.instrument) if word)


def state_of(order: Order) -> Answer:
    """An order as the answers of a person's commands show it."""
    return {
        "order": order.name,
        "account": order.account,
        "symbol": order.instrument,
        "side": order.side,
        "quantity": None if order.quantity is None else plain(order.quantity),
        "state": order.state.value,
        "ord_status": order.ord_status,
        "filled_quantity": plain(order.filled_quantity),
        "reason": order.reason,
        "broker_order_id": order.broker_order_id,
    }
