"""What stands around an order when it is decided: books, orders in flight, how much was sent lately.

Reads inside the gate's transaction and counts whatever may still fill as filled: no two orders can pass on
the same room, and a restart resets nothing.
"""

from __future__ import annotations

from decimal import Decimal

from app.clock import SECOND
from app.domain.book import Holdings, Trade
from app.domain.order import UNRESOLVED
from app.domain.risk import Entry
from app.domain.sizing import SMALLEST_STEP
from app.execution.days import day_of, day_start
from app.execution.policy import Policy, View
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
MINUTE = 60 * SECOND
_UNRESOLVED = ", ".join(f"'{state.value}'" for state in sorted(UNRESOLVED))
_IN_FLIGHT = f"state IN ({_UNRESOLVED}, 'WORKING')"
_SENT = "FROM attempts a JOIN orders o ON o.id = a.order_id WHERE o.account = ?"


def of_book(tx: Transaction, order: Order, condition: str, *bindings: int) -> list[Order]:
    """The other orders of the order's book that meet a condition, oldest admission first."""
    own = "account = ? AND instrument = ? AND source_id = ? AND strategy = ? AND id <> ?"
    key = (order.account, order.instrument, order.source_id, order.strategy, order.id)
    return orders.where(tx, f"{own} AND {condition}", (*key, *bindings))


def unresolved(tx: Transaction, order: Order, *, whole_account: bool) -> list[Order]:
    """Other orders on the same account and instrument (or the whole account) whose fate nobody knows."""
    found = orders.where(
        tx, f"account = ? AND id <> ? AND state IN ({_UNRESOLVED})", (order.account, order.id)
    )
    return [other for other in found if whole_account or other.instrument == order.instrument]


def holdings(tx: Transaction, order: Order, view: View) -> Holdings:
    own = (order.source_id, order.strategy)
    open_books = orders.books(tx, order.account, order.instrument)
    working = of_book(tx, order, "state = 'WORKING'")
    return Holdings(
        book=orders.book(tx, order),
        in_flight=sum((other.signed_leaves for other in working), ZERO),
        broker_position=view.position,
        other_books=tuple(net for _, source, strategy, net in open_books if (source, strategy) != own),
    )


def entry(
    tx: Transaction,
    order: Order,
    policy: Policy,
    view: View,
    trade: Trade,
    held: Holdings,
    price: Decimal | None,
    age: int,
    now: int,
) -> Entry:
    """The figures that the limits are asked with. Ages in microseconds."""
    in_flight = orders.where(tx, f"account = ? AND {_IN_FLIGHT}", (order.account,))
    here = [other for other in in_flight if other.instrument == order.instrument]
    open_instruments = {row[0] for row in orders.books(tx, order.account)}
    open_instruments |= {other.instrument for other in in_flight if other.purpose == "entry"}
    last = tx.one(f"SELECT max(a.at) {_SENT} AND o.instrument = ?", (order.account, order.instrument))
    midnight = day_start(now, policy.risk.day_zone)
    return Entry(
        side=trade.side,
        opens=trade.opens,
        exposure=held.book
        + sum(held.other_books, ZERO)
        + sum((other.signed_leaves for other in here), ZERO)
        + trade.side.sign * trade.reduces,
        price=price,
        equity=view.account.equity,
        cash=view.account.cash,
        other_books=held.other_books,
        step=SMALLEST_STEP,
        age=age,
        max_age=policy.max_order_age,
        orders_last_minute=_sent_since(tx, order.account, now - MINUTE),
        orders_today=_sent_since(tx, order.account, midnight - 1),
        open_positions=len(open_instruments),
        is_new_position=order.instrument not in open_instruments,
        day_loss=_day_loss(tx, order.account, day_of(now, policy.risk.day_zone), view.account.equity),
        since_last_order=None if last is None or last[0] is None else now - last[0],
    )


def _sent_since(tx: Transaction, account: str, moment: int) -> int:
    row = tx.one(f"SELECT count(*) {_SENT} AND a.at > ?", (account, moment))
    return int(row[0]) if row else 0


def _day_loss(tx: Transaction, account: str, day: str, equity: Decimal) -> Decimal:
    row = tx.one("SELECT day_equity FROM accounts WHERE name = ? AND day = ?", (account, day))
    return ZERO if row is None or row[0] is None else Decimal(row[0]) - equity
