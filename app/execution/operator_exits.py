"""A person's own orders: cancel, close, flatten. Exits only, each of one of our books, by the ordinary way.

They are claimed like a signal, under the person's request, and go through ledger, ids and lanes like any
other exit; only a halt does not hold them back. What is not ours is named and never touched (HOLES H2, H30).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import msgspec

from app.claims import rows
from app.claims.base import Admission, Delivery
from app.claims.rows import Case, Context
from app.domain.key import ChosenKey, claim_digest, raw_fingerprint
from app.domain.order import State
from app.domain.signal import Action, KeySource, OrderType, Side, Signal
from app.domain.sizing import WIDE, at_least_a_step
from app.execution import resend
from app.execution.operator import Answer, Decision, NotDone, Seen, state_of, the_order
from app.ledger import orders
from app.ledger.orders import OPEN, OPERATOR_SOURCE, Order, plain
from app.ledger.queries import rfc3339
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
_NOT_SENT_YET = (State.PENDING, State.SUBMITTING)


@dataclass(frozen=True, slots=True)
class Press:
    """One request of a person: its id makes the keys of what it claims, so that it can act only once."""

    request_id: str
    context: Context
    boot: int


class _Key(NamedTuple):
    """Whose book: on which instrument, of which source and strategy."""

    instrument: str
    source_id: str
    strategy: str


# ---------------------------------------------------------------------------------------------------- cancel


def cancel(tx: Transaction, name: str, seen: Seen, decision: Decision) -> Answer:
    """Ends an order: at once where it was not sent yet, else the broker is asked to, as soon as it has it."""
    order = the_order(tx, name, seen)
    if order.state in (State.DONE, State.DENIED, State.NOT_PLACED):
        raise NotDone(f"{order.name} is {order.state}: there is nothing to cancel")
    was = order
    decision.note(tx, resend.CANCEL_ASKED, order.name, was=order.state.value)
    if order.state is State.PENDING:
        reason = "CANCELED_BY_OPERATOR"
        order = resend.end(tx, order, State.DENIED, reason, at=decision.at, actor=decision.actor)
    else:
        orders.note(tx, order, at=decision.at, cancel_requested=1)
        order = orders.get(tx, order.id)
    return {"was": was.state.value, "asked_the_broker": not _is_over(order), **state_of(order)}


def _is_over(order: Order) -> bool:
    return order.state in (State.DONE, State.DENIED, State.NOT_PLACED)


# ------------------------------------------------------------------------------------------- close, flatten


SeenBooks = Mapping[str, str]
"""What a person saw that would be closed: what each book held, by `name_of`."""


def name_of(shown: Answer) -> str:
    """How a book is named in what a person saw: symbol, source and strategy."""
    return " ".join(shown[part] for part in ("symbol", "source", "strategy") if shown[part])


def close(
    tx: Transaction,
    account: str,
    instrument: str,
    press: Press,
    decision: Decision,
    seen: SeenBooks | None = None,
) -> Answer:
    """Closes each of our books on one instrument. Raises NotDone where there is none, or not as seen."""
    answer = _close(tx, account, instrument, press, decision, "close asked", f"{account} {instrument}", seen)
    if not answer["orders"] and not answer["already"]:
        held = sorted({book.instrument for book in _books(tx, account, None)})
        ours = f"ours are open on {', '.join(held)}" if held else "no book of ours is open there at all"
        others = "".join(f"; {one['quantity']} there are not ours" for one in answer["not_ours"])
        raise NotDone(f"nothing of ours is open on {instrument} in {account}: {ours}{others}")
    return answer


def flatten(
    tx: Transaction, account: str, press: Press, decision: Decision, seen: SeenBooks | None = None
) -> Answer:
    """Closes every book of ours in the account; with none open there is nothing to do."""
    return _close(tx, account, None, press, decision, "flatten asked", account, seen)


def _close(
    tx: Transaction,
    account: str,
    instrument: str | None,
    press: Press,
    decision: Decision,
    what: str,
    subject: str,
    seen: SeenBooks | None,
) -> Answer:
    made, already = [], []
    for place, key in enumerate(_books(tx, account, instrument), start=1):
        under_way = _under_way(tx, account, key)
        if under_way is None:
            made.append(_exit(tx, account, key, f"{press.request_id}:{place}", press, decision))
        else:
            already.append(_shown(tx, under_way))
    now = {name_of(one): one["book"] for one in made}
    if seen is not None and now != seen:
        held = ", ".join(f"{book} {name}" for name, book in now.items()) or "nothing"
        raise NotDone(f"what there is to close has changed: it is {held} now. Look at it again")
    names = [one["order"] for one in made]
    decision.note(tx, what, subject, orders=names, already=[one["order"] for one in already])
    return {
        "account": account,
        "symbol": instrument,
        "orders": made,
        "already": already,
        "not_ours": _not_ours(tx, account, instrument),
    }


def _books(tx: Transaction, account: str, instrument: str | None) -> list[_Key]:
    """Our books that are open, or that an order of ours may still open."""
    held = {
        _Key(book.instrument, book.source_id, book.strategy)
        for book in orders.books(tx, account, instrument)
        if at_least_a_step(book.net)
    }
    condition = f"{OPEN} AND account = ? AND instrument = coalesce(?, instrument) AND purpose <> 'cancel'"
    under_way = orders.where(tx, condition, (account, instrument))
    return sorted(held | {_Key(order.instrument, order.source_id, order.strategy) for order in under_way})


def _under_way(tx: Transaction, account: str, key: _Key) -> Order | None:
    """An exit of a person's for that book that was not sent yet: it sizes itself when it goes."""
    sql = f"{OPEN} AND account = ? AND instrument = ? AND source_id = ? AND strategy = ? AND purpose = 'exit'"
    for order in orders.where(tx, sql, (account, *key)):
        row = tx.one("SELECT source_id FROM claims WHERE id = ?", (order.claim_id,))
        if order.state in _NOT_SENT_YET and row is not None and row[0] == OPERATOR_SOURCE:
            return order
    return None


def _exit(tx: Transaction, account: str, key: _Key, text: str, press: Press, decision: Decision) -> Answer:
    """One order that closes one book, claimed under the person's request."""
    tx.change("sources", "INSERT OR IGNORE INTO sources (id, name) VALUES (?, ?)", (OPERATOR_SOURCE,) * 2)
    signal = Signal(symbol=key.instrument, action=Action.EXIT, strategy=key.strategy or None)
    body = msgspec.json.encode(signal)
    case = Case(
        context=press.context,
        admission=_ADMISSION,
        delivery=Delivery(OPERATOR_SOURCE, decision.at, press.boot, "", raw_fingerprint(body)),
        signal=signal,
        key=ChosenKey(key=text, source=KeySource.HEADER, from_header=True),
        exits={account: True},
    )
    digest = claim_digest(OPERATOR_SOURCE, text, None)
    claim = rows.insert_claim(tx, case, digest, None)
    order = tx.insert(
        "orders",
        {
            "claim_id": claim,
            "account": account,
            "leg": 1,
            "generation": 1,
            "instrument": key.instrument,
            "source_id": key.source_id,
            "strategy": key.strategy,
            "action": Action.EXIT.value,
            "purpose": "exit",
            "type": OrderType.MARKET.value,
            "state": State.PENDING.value,
            "created_at": decision.at,
            "updated_at": decision.at,
        },
    )
    made = _shown(tx, orders.get(tx, order))
    decision.note(tx, "claimed", f"S{claim}", digest=digest.hex(), order=made["order"], book=made["book"])
    return made


_ADMISSION = Admission(
    source_id=OPERATOR_SOURCE,
    source=OPERATOR_SOURCE,
    accounts=(),
    max_age=0,
    max_exit_age=0,
    max_order_age=0,
    admit_exits=False,
    entries_per_minute=0,
)


def _shown(tx: Transaction, order: Order) -> Answer:
    """An order that closes a book, and what there is to close now; the order sizes itself when it goes."""
    net = orders.book(tx, order)
    source = tx.one("SELECT name FROM sources WHERE id = ?", (order.source_id,))
    open_orders = [
        other.name
        for other in _open_of_book(tx, order)
        if other.id != order.id and other.state is not State.PENDING
    ]
    return {
        "order": order.name,
        "account": order.account,
        "symbol": order.instrument,
        "source": source[0] if source else order.source_id,
        "strategy": order.strategy,
        "side": None if net == ZERO else (Side.SELL if net > ZERO else Side.BUY).value,
        "book": plain(net),
        "waits_for": open_orders,
    }


def _open_of_book(tx: Transaction, order: Order) -> list[Order]:
    sql = f"{OPEN} AND account = ? AND instrument = ? AND source_id = ? AND strategy = ?"
    return orders.where(tx, sql, (order.account, order.instrument, order.source_id, order.strategy))


def _not_ours(tx: Transaction, account: str, instrument: str | None) -> list[Answer]:
    """What the broker held beyond our books at the last reconciliation: named, never touched."""
    row = tx.one(
        "SELECT ended_at, report FROM reconciliations WHERE account = ? AND result IN ('OK', 'FINDINGS') "
        "ORDER BY id DESC LIMIT 1",
        (account,),
    )
    if row is None:
        return []
    found = []
    for position in msgspec.json.decode(row[1])["positions"]:
        beyond = WIDE.subtract(Decimal(position["broker"]), Decimal(position["expected"]))
        if instrument in (None, position["symbol"]) and at_least_a_step(beyond):
            found.append({"symbol": position["symbol"], "quantity": plain(beyond), "as_of": rfc3339(row[0])})
    return found
