"""A person's correction of one of our books: after a close by hand, a split, a reset of the account.

An adjustment is a row of its own beside the fills, with its reason; no fill is ever changed.
"""

from __future__ import annotations

from decimal import Decimal

from app.domain.number import NumberError, read_number
from app.domain.sizing import WIDE
from app.execution import positions
from app.execution.operator import Answer, Decision, NotDone
from app.ledger import orders
from app.ledger.orders import OPEN, plain
from app.ledger.transaction import Transaction

ZERO = Decimal(0)


def read_quantity(text: str) -> Decimal:
    """A signed quantity as a person types it. Raises NotDone."""
    try:
        return read_number(text.strip())
    except NumberError as error:
        raise NotDone(f"{text[:40]!r} is no quantity: {error}") from None


def set_book(
    tx: Transaction,
    account: str,
    instrument: str,
    wanted: Decimal,
    decision: Decision,
    *,
    source: str | None,
    strategy: str | None,
    seen: str | None,
) -> Answer:
    """Makes a book hold `wanted` (signed) by an adjustment.

    Which book is taken from what there is where it is not said and only one can be meant. `seen` is the
    quantity that the person saw. Raises NotDone, also while an order of the book is open.
    """
    source_id, source_name, strategy = _which(tx, account, instrument, source, strategy)
    was = orders.book_of(tx, account, instrument, source_id, strategy)
    if seen is not None and read_quantity(seen) != was:
        raise NotDone(f"the book holds {plain(was)} now, not {seen}: look at it again")
    condition = f"{OPEN} AND account = ? AND instrument = ? AND source_id = ? AND strategy = ?"
    open_orders = orders.where(tx, condition, (account, instrument, source_id, strategy))
    if open_orders:
        names = ", ".join(f"{order.name} {order.state}" for order in open_orders)
        raise NotDone(f"orders of this book are not over: {names}; what they fill would be counted twice")
    difference = WIDE.subtract(wanted, was)
    if difference == ZERO:
        raise NotDone(f"the book holds {plain(was)} already")
    tx.insert(
        "adjustments",
        {
            "account": account,
            "instrument": instrument,
            "source_id": source_id,
            "strategy": strategy,
            "quantity": plain(difference),
            "at": decision.at,
            "why": decision.why,
        },
    )
    orders.add_to_book(tx, account, instrument, source_id, strategy, difference)
    positions.absorb(tx, account, instrument, difference)
    answer = {
        "account": account,
        "symbol": instrument,
        "source": source_name,
        "strategy": strategy,
        "was": plain(was),
        "quantity": plain(wanted),
        "difference": plain(difference),
    }
    decision.note(tx, "book adjusted", f"{account} {instrument}", **answer)
    return answer


def acknowledge_drift(tx: Transaction, account: str, instrument: str, decision: Decision) -> Answer:
    """A person has seen what nothing explains: it is none of ours, and holds no entry back any more."""
    sql = "SELECT quantity FROM drifts WHERE account = ? AND instrument = ?"
    row = tx.one(sql, (account, instrument))
    if row is None:
        raise NotDone(f"nothing is unexplained on {instrument} in {account}")
    external = positions.add_external(tx, account, instrument, Decimal(row[0]))
    positions.forget(tx, account, instrument)
    answer = {"account": account, "symbol": instrument, "difference": row[0], "external": plain(external)}
    decision.note(tx, "drift acknowledged", f"{account} {instrument}", **answer)
    return answer


def _which(
    tx: Transaction, account: str, instrument: str, source: str | None, strategy: str | None
) -> tuple[str, str, str]:
    """Source id, source name and strategy of the book that is meant. Raises NotDone."""
    if source is not None and strategy is not None:
        row = tx.one("SELECT id FROM sources WHERE name = ?", (source,))
        if row is None:
            raise NotDone(f"there is no source {source!r}")
        return row[0], source, strategy
    known = [
        (source_id, name, its_strategy)
        for source_id, name, its_strategy, net in tx.execute(
            "SELECT b.source_id, s.name, b.strategy, b.net FROM books b JOIN sources s ON s.id = b.source_id "
            "WHERE b.account = ? AND b.instrument = ? AND s.name = coalesce(?, s.name) "
            "AND b.strategy = coalesce(?, b.strategy) ORDER BY s.name, b.strategy",
            (account, instrument, source, strategy),
        )
        if Decimal(net) != ZERO
    ]
    if len(known) == 1:
        return known[0]
    if known:
        books = ", ".join(f"--source {name} --strategy {its or repr('')}" for _, name, its in known)
        raise NotDone(f"several books are open on {instrument} in {account}: say which: {books}")
    if source is not None:
        return _which(tx, account, instrument, source, strategy or "")
    raise NotDone(f"no book is open on {instrument} in {account}: say whose: --source S [--strategy T]")
