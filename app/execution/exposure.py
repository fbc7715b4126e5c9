"""What stands around an order when it is decided: books, orders in flight, how much was sent lately.

Reads inside the gate's transaction and counts whatever may still fill as filled: no two orders can pass on
the same room, and a restart resets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from app.clock import SECOND
from app.domain.book import Holdings, Trade, open_elsewhere
from app.domain.order import UNRESOLVED, State
from app.domain.risk import Age, Entry
from app.domain.signal import Side, Signal
from app.domain.sizing import WIDE, ZERO, at_least_a_step
from app.execution.days import day_of, day_start
from app.execution.policy import Policy, View
from app.ledger import orders
from app.ledger.orders import OPEN, Order
from app.ledger.transaction import Transaction

MINUTE = 60 * SECOND
SKEW_BLOCKS = 2 * SECOND
"""How far clock and venue may differ before nobody can tell how old an entry is (facts 4.9)."""
_UNRESOLVED = f"state IN ({', '.join(repr(state.value) for state in sorted(UNRESOLVED))})"
_MAY_HAVE_LEFT = (
    "EXISTS (SELECT 1 FROM attempts a WHERE a.order_id = orders.id AND coalesce(a.bytes_left, 1) = 1)"
)
"""An order of which every attempt is proved unsent, or that has none, cannot be at the broker."""


def of_book(tx: Transaction, order: Order, condition: str, *bindings: int) -> list[Order]:
    """The other open orders of the order's book that meet a condition, oldest admission first."""
    own = "account = ? AND instrument = ? AND source_id = ? AND strategy = ? AND id <> ?"
    key = (order.account, order.instrument, order.source_id, order.strategy, order.id)
    return orders.where(tx, f"{OPEN} AND {own} AND {condition}", (*key, *bindings))


def unresolved(tx: Transaction, order: Order, *, whole_account: bool, earlier: bool) -> list[Order]:
    """Other orders of the account that may be at the broker without our knowing.

    On the order's instrument, or on all; where `earlier`, of other books only those admitted before it.
    """
    condition = f"{OPEN} AND account = ? AND id <> ? AND {_UNRESOLVED} AND {_MAY_HAVE_LEFT}"
    found = orders.where(tx, condition, (order.account, order.id))
    if not whole_account:
        found = [other for other in found if other.instrument == order.instrument]
    if earlier:
        found = [other for other in found if other.claim_id < order.claim_id or _same_book(other, order)]
    return found


def reach(tx: Transaction, order: Order) -> tuple[Decimal, Decimal, Decimal]:
    """The own book as it is, and the lowest and highest that its orders in flight may make of it (H1)."""
    book = at_least_a_step(orders.book(tx, order))
    in_flight = of_book(tx, order, f"(state = 'WORKING' OR {_UNRESOLVED} AND {_MAY_HAVE_LEFT})")
    return book, book - _leaves(in_flight, Side.SELL), book + _leaves(in_flight, Side.BUY)


def holdings(tx: Transaction, order: Order, position: Decimal) -> Holdings:
    working = of_book(tx, order, "state = 'WORKING'")
    return Holdings(
        book=at_least_a_step(orders.book(tx, order)),
        broker_position=at_least_a_step(position),
        buys=_leaves(working, Side.BUY),
        sells=_leaves(working, Side.SELL),
        other_books=tuple(
            net
            for book in orders.books(tx, order.account, order.instrument)
            if (book.source_id, book.strategy) != (order.source_id, order.strategy)
            and (net := at_least_a_step(book.net))
        ),
    )


def entry(
    tx: Transaction,
    order: Order,
    signal: Signal,
    policy: Policy,
    view: View,
    trade: Trade,
    held: Holdings,
    price: Decimal | None,
    age: Age,
    now: int,
) -> Entry:
    """The figures that the limits are asked with."""
    account = order.account
    in_flight = orders.where(
        tx,
        f"{OPEN} AND account = ? AND (state = 'WORKING' OR {_UNRESOLVED} AND {_MAY_HAVE_LEFT})",
        (account,),
    )
    here = [other for other in in_flight if other.instrument == order.instrument]
    entries = [other for other in in_flight if other.purpose == "entry"]
    open_instruments = {book.instrument for book in orders.books(tx, account) if at_least_a_step(book.net)}
    open_instruments |= {other.instrument for other in entries}
    on_this_side = trade.side.sign * (_leaves(here, trade.side) + trade.reduces)
    begin_day(tx, account, policy, view.account.equity, now)
    return Entry(
        symbol=signal.symbol,
        side=trade.side,
        opens=trade.opens,
        exposure=held.book + sum(held.other_books, ZERO) + on_this_side,
        price=price,
        equity=view.account.equity,
        cash=view.account.cash,
        step=view.rules.step,
        minimum=view.rules.minimum,
        not_tradable="" if view.rules.is_tradable else view.rules.reason or "not tradable",
        market_closed="" if view.market.is_open else view.market.reason or "closed",
        is_shortable=view.rules.is_shortable,
        stated_price=signal.price,
        venue_price=None if view.priced_by_payload else view.price,
        reserved=reserved(tx, order, view.last_fill),
        drift=drift(tx, order),
        clock_offset=view.clock_offset if abs(view.clock_offset) > SKEW_BLOCKS else 0,
        age=age,
        has_brackets=signal.take_profit is not None or signal.stop_loss is not None,
        other_books=(
            *held.other_books,
            *(
                other.signed_leaves
                for other in entries
                if other.instrument == order.instrument and not _same_book(other, order)
            ),
        ),
        elsewhere=open_elsewhere(held),
        orders_last_minute=_sent_since(tx, account, now - MINUTE, policy.risk.max_orders_per_minute),
        orders_today=_sent_since(
            tx, account, day_start(now, policy.risk.day_zone), policy.risk.max_orders_per_day
        ),
        open_positions=len(open_instruments),
        is_new_position=order.instrument not in open_instruments,
        day_loss=_day_loss(tx, account, view.account.equity),
        since_last_order=_since_last_order(tx, order, now) if policy.risk.cooldown else None,
    )


def reserved(tx: Transaction, order: Order, last_fill: int) -> Decimal:
    """Money that other buys of the account may still take, or have taken since the fill `last_fill` (H6).

    What the gate has let pass and is not out yet counts as well. A row of before schema 004 says no price:
    its own limit or stop speaks for it.
    """
    approved = (
        f"state = 'WORKING' OR {_UNRESOLVED} AND {_MAY_HAVE_LEFT} OR state = 'PENDING' AND side = 'buy'"
    )
    others = orders.where(
        tx, f"{OPEN} AND account = ? AND id <> ? AND ({approved})", (order.account, order.id)
    )
    total = ZERO
    for other in others:
        if other.side is not Side.BUY or other.purpose != "entry":
            continue
        left = other.quantity if other.state is State.PENDING else other.leaves
        price = other.price or other.limit_price or other.stop_price or ZERO
        total += (left or ZERO) * price
    newer = tx.execute(
        "SELECT quantity, price FROM fills WHERE id > ? AND account = ? AND side = 'buy'",
        (last_fill, order.account),
    )
    return sum((Decimal(quantity) * Decimal(price) for quantity, price in newer), total)


BLOCKING_PASSES = 2
"""So often in a row a difference must be found unexplained to hold entries back (HOLES H37)."""


def drift(tx: Transaction, order: Order) -> dict[str, str]:
    """A difference on the order's instrument that reconciliation could not explain, until it is seen."""
    sql = "SELECT quantity, passes FROM drifts WHERE account = ? AND instrument = ?"
    row = tx.one(sql, (order.account, order.instrument))
    if row is None or row[1] < BLOCKING_PASSES:
        return {}
    return {"unexplained": str(row[0]), "passes": str(row[1])}


def external(tx: Transaction, account: str, instrument: str) -> Decimal:
    """What the account holds there that is none of ours and is explained; signed."""
    sql = "SELECT quantity FROM externals WHERE account = ? AND instrument = ?"
    row = tx.one(sql, (account, instrument))
    return ZERO if row is None else Decimal(row[0])


def unexplained(tx: Transaction, order: Order, position: Decimal) -> Decimal:
    """What the broker holds on the order's instrument beyond our books and what is known to be another's."""
    expected = external(tx, order.account, order.instrument)
    for book in orders.books(tx, order.account, order.instrument):
        expected = WIDE.add(expected, book.net)
    return WIDE.subtract(position, expected)


def still_to_fill(tx: Transaction, order: Order) -> tuple[Decimal, Decimal]:
    """How far down and up orders of ours in flight on the instrument, of any book, may still move it."""
    condition = f"{OPEN} AND account = ? AND instrument = ? AND id <> ?"
    in_flight = orders.where(tx, condition, (order.account, order.instrument, order.id))
    return -_leaves(in_flight, Side.SELL), _leaves(in_flight, Side.BUY)


def begin_day(tx: Transaction, account: str, policy: Policy, equity: Decimal, now: int) -> None:
    """Keeps what the account was worth when a day was first seen: the day's loss counts from there."""
    day = day_of(now, policy.risk.day_zone)
    tx.change(
        "accounts",
        "UPDATE accounts SET day = ?, day_equity = ? WHERE name = ? AND day IS NOT ?",
        (day, orders.plain(equity), account, day),
    )


def _same_book(one: Order, other: Order) -> bool:
    return (one.account, one.instrument, one.source_id, one.strategy) == (
        other.account,
        other.instrument,
        other.source_id,
        other.strategy,
    )


def _leaves(found: Iterable[Order], side: Side) -> Decimal:
    return sum((order.leaves for order in found if order.side is side), ZERO)


# What is proved unsent never counts: an order that is tried again must not be stopped by its own first try.
_SENT = (
    "SELECT a.at FROM attempts a CROSS JOIN orders o ON o.id = a.order_id "
    "WHERE coalesce(a.bytes_left, 1) = 1 AND o.account = ?"
)


def _sent_since(tx: Transaction, account: str, moment: int, most: int) -> int:
    """How many of the account's `most` newest sends are not older than a moment; the newest are read only."""
    if not most:
        return 0
    rows = tx.execute(f"{_SENT} ORDER BY a.id DESC LIMIT ?", (account, most))
    return sum(at >= moment for (at,) in rows)


def _since_last_order(tx: Transaction, order: Order, now: int) -> int | None:
    sql = f"{_SENT} AND o.instrument = ? ORDER BY a.id DESC LIMIT 1"
    row = tx.one(sql, (order.account, order.instrument))
    return None if row is None else now - row[0]


def _day_loss(tx: Transaction, account: str, equity: Decimal) -> Decimal:
    row = tx.one("SELECT day_equity FROM accounts WHERE name = ?", (account,))
    return ZERO if row is None or row[0] is None else WIDE.subtract(Decimal(row[0]), equity)
