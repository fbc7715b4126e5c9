"""Orders in the ledger: reading a row, moving it along the state table, booking its fills.

Every move is a compare-and-set with its event in the same transaction. No rule about when to move is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from typing import Any, NamedTuple

import structlog

from app.domain import number
from app.domain.order import OrdStatus, State, worst
from app.domain.signal import OrderType, Side, TimeInForce
from app.domain.sizing import WIDE
from app.ledger.transaction import LostUpdate, Transaction, Value

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """One row of `orders`, typed. Times are UTC microseconds; what is not decided yet is None."""

    id: int
    claim_id: int
    account: str
    leg: int
    generation: int
    instrument: str
    source_id: str
    strategy: str
    action: str
    purpose: str
    side: Side | None
    quantity: Decimal | None
    type: OrderType
    limit_price: Decimal | None
    stop_price: Decimal | None
    tif: TimeInForce | None
    state: State
    ord_status: OrdStatus | None
    reason: str | None
    client_order_id: str | None
    broker_order_id: str | None
    filled_quantity: Decimal
    average_price: Decimal | None
    not_after: int | None
    cancel_requested: bool
    price: Decimal | None
    """What one unit was worth when it was decided; what may still fill is reserved at that."""
    closes_book: bool
    """Whether it leaves nothing of what its book held, once it has filled whole."""
    created_at: int
    updated_at: int

    @property
    def name(self) -> str:
        """The id that a person sees."""
        return f"O{self.id}"

    @property
    def leaves(self) -> Decimal:
        """What may still fill: zero once the order is over, was never sent, or has filled all and more."""
        if self.quantity is None or self.state in (State.PENDING, State.DENIED, State.NOT_PLACED, State.DONE):
            return Decimal(0)
        return max(Decimal(0), WIDE.subtract(self.quantity, self.filled_quantity))

    @property
    def signed_leaves(self) -> Decimal:
        return self.leaves.copy_negate() if self.side is Side.SELL else self.leaves


_NAMES = tuple(field.name for field in fields(Order))
_COLUMNS = ", ".join(_NAMES)
_READ: dict[str, Callable[[Any], Any]] = {
    "side": Side,
    "quantity": Decimal,
    "type": OrderType,
    "limit_price": Decimal,
    "stop_price": Decimal,
    "tif": TimeInForce,
    "state": State,
    "ord_status": OrdStatus,
    "filled_quantity": Decimal,
    "average_price": Decimal,
    "price": Decimal,
    "cancel_requested": bool,
    "closes_book": bool,
}


plain = number.plain
"""Decimal text as the ledger keeps it: no exponent, no trailing zeros."""

OPEN = "state NOT IN ('DONE', 'DENIED', 'NOT_PLACED')"
"""Word for word the condition of the partial indices: without it a search reads every order ever made."""

OPERATOR_SOURCE = "(operator)"
"""Name and id of the built-in source that a person's own orders are claimed under."""

AVERAGE = Context(prec=15)
"""Average prices are rounded to this many digits; fills keep every digit."""


def _order(row: Sequence[Any]) -> Order:
    values = dict(zip(_NAMES, row, strict=True))
    for name, read in _READ.items():
        if values[name] is not None:
            values[name] = read(values[name])
    return Order(**values)


def get(tx: Transaction, order_id: int) -> Order:
    """The order with this id. Raises LookupError."""
    row = tx.one(f"SELECT {_COLUMNS} FROM orders WHERE id = ?", (order_id,))
    if row is None:
        raise LookupError(f"there is no order O{order_id}")
    return _order(row)


def where(tx: Transaction, condition: str, bindings: Sequence[Value] = ()) -> list[Order]:
    """Orders that meet a condition of the callers' own text, oldest admission first. See OPEN."""
    sql = f"SELECT {_COLUMNS} FROM orders WHERE {condition} ORDER BY claim_id, leg, generation"
    return [_order(row) for row in tx.execute(sql, bindings)]


def newest(tx: Transaction, claim_id: int) -> list[Order]:
    """The newest generation of each leg of a claim."""
    sql = f"SELECT {_COLUMNS} FROM newest_orders WHERE claim_id = ? ORDER BY account, leg"
    return [_order(row) for row in tx.execute(sql, (claim_id,))]


def move(
    tx: Transaction,
    order: Order,
    to: State,
    *,
    at: int,
    actor: str,
    reason: str | None = None,
    detail: dict[str, Any] | None = None,
    **columns: Value,
) -> Order:
    """Moves an order from the state it was read in, with an event, and returns it as it now is.

    `reason` replaces the row's reason (None clears it); `columns` are set as well. Raises LostUpdate if the
    row is no longer in that state, and the trigger's error if the table has no such move.
    """
    values: dict[str, Value] = {"state": to.value, "reason": reason, "updated_at": at, **columns}
    assignments = ", ".join(f"{name} = ?" for name in values)
    changed = tx.change(
        "orders",
        f"UPDATE orders SET {assignments} WHERE id = ? AND state = ?",
        (*values.values(), order.id, order.state.value),
    )
    if changed != 1:
        raise LostUpdate(f"{order.name} is no longer {order.state}")
    event = {"from": order.state.value, "to": to.value, "reason": reason, **(detail or {})}
    tx.event(at, actor, "order moved", order.name, event)
    return get(tx, order.id)


def note(tx: Transaction, order: Order, *, at: int, **columns: Value) -> None:
    """Sets columns of an order without moving it (a waiting reason, a cancel request)."""
    if all(getattr(order, name) == value for name, value in columns.items()):
        return
    assignments = ", ".join(f"{name} = ?" for name in columns)
    tx.change(
        "orders",
        f"UPDATE orders SET {assignments}, updated_at = ? WHERE id = ?",
        (*columns.values(), at, order.id),
    )


def book(tx: Transaction, order: Order) -> Decimal:
    """The signed net of the order's own book: account, instrument, source and strategy."""
    return book_of(tx, order.account, order.instrument, order.source_id, order.strategy)


def book_of(tx: Transaction, account: str, instrument: str, source_id: str, strategy: str) -> Decimal:
    row = tx.one(
        "SELECT net FROM books WHERE account = ? AND instrument = ? AND source_id = ? AND strategy = ?",
        (account, instrument, source_id, strategy),
    )
    return Decimal(row[0]) if row else Decimal(0)


class Book(NamedTuple):
    instrument: str
    source_id: str
    strategy: str
    net: Decimal


def books(tx: Transaction, account: str, instrument: str | None = None) -> list[Book]:
    """Every open book of an account, on one instrument or on all; `net` is signed."""
    rows = tx.execute(
        "SELECT instrument, source_id, strategy, net FROM books "
        "WHERE account = ? AND instrument = coalesce(?, instrument)",
        (account, instrument),
    )
    found = [Book(row[0], row[1], row[2], Decimal(row[3])) for row in rows]
    return [book for book in found if book.net != 0]


def add_to_book(
    tx: Transaction, account: str, instrument: str, source_id: str, strategy: str, signed: Decimal
) -> Decimal:
    """Adds a signed quantity to a book and returns the new net."""
    net = WIDE.add(book_of(tx, account, instrument, source_id, strategy), signed)
    key = (account, instrument, source_id, strategy)
    updated = tx.change(
        "books",
        "UPDATE books SET net = ? WHERE account = ? AND instrument = ? AND source_id = ? AND strategy = ?",
        (plain(net), *key),
    )
    if not updated:
        names = ("account", "instrument", "source_id", "strategy")
        tx.insert("books", {**dict(zip(names, key, strict=True)), "net": plain(net)})
    return net


@dataclass(frozen=True, slots=True)
class BookedFill:
    exec_id: str
    quantity: Decimal
    price: Decimal
    fee: Decimal
    at: int


def add_fills(tx: Transaction, order: Order, fills: Iterable[BookedFill], *, at: int) -> Order:
    """Books the fills that are new, updates the order's filled quantity and average, and its book.

    A fill is known by (account, exec id), so that seeing one twice changes nothing. One of nothing, or at a
    price below zero, is no fill: it is not booked and said in the log.
    """
    if order.side is None:
        raise ValueError(f"{order.name} has no side and cannot fill")
    new = False
    for fill in fills:
        if not _is_fill(fill):
            log.critical("a fill that is none was not booked", order=order.name, exec_id=fill.exec_id)
            continue
        known = "SELECT 1 FROM fills WHERE account = ? AND exec_id = ?"
        if tx.one(known, (order.account, fill.exec_id)) is None:
            _add_fill(tx, order, order.side, fill, at)
            new = True
    if not new:
        return get(tx, order.id)
    rows = tx.execute("SELECT quantity, price FROM fills WHERE order_id = ?", (order.id,))
    filled = paid = Decimal(0)
    for quantity, price in rows:
        filled = WIDE.add(filled, Decimal(quantity))
        paid = WIDE.add(paid, WIDE.multiply(Decimal(quantity), Decimal(price)))
    tx.change(
        "orders",
        "UPDATE orders SET filled_quantity = ?, average_price = ?, updated_at = ? WHERE id = ?",
        (plain(filled), plain(AVERAGE.divide(paid, filled)), at, order.id),
    )
    return get(tx, order.id)


def _is_fill(fill: BookedFill) -> bool:
    numbers = (fill.quantity, fill.price, fill.fee)
    return all(number.is_finite() for number in numbers) and fill.quantity > 0 and fill.price >= 0


def _add_fill(tx: Transaction, order: Order, side: Side, fill: BookedFill, at: int) -> None:
    numbers = {"quantity": plain(fill.quantity), "price": plain(fill.price), "fee": plain(fill.fee)}
    whose: dict[str, Value] = {"account": order.account, "exec_id": fill.exec_id, "order_id": order.id}
    tx.insert("fills", {**whose, "side": side.value, **numbers, "at": fill.at})
    signed = fill.quantity.copy_negate() if side is Side.SELL else fill.quantity
    net = add_to_book(tx, order.account, order.instrument, order.source_id, order.strategy, signed)
    detail = {"exec_id": fill.exec_id, **numbers, "at": fill.at, "book": plain(net)}
    tx.event(at, f"broker:{order.account}", "filled", order.name, detail)


def outcome(tx: Transaction, claim_id: int) -> dict[str, Any]:
    """A signal's outcome as the hook answers it (CONTRACT 3)."""
    rows = newest(tx, claim_id)
    symbol = tx.one("SELECT symbol FROM claims WHERE id = ?", (claim_id,))
    return {
        "state": worst([order.state for order in rows]).value,
        "orders": [
            {
                "client_order_id": order.client_order_id,
                "broker_order_id": order.broker_order_id,
                "account": order.account,
                "symbol": symbol[0] if symbol else order.instrument,
                "side": order.side,
                "quantity": None if order.quantity is None else plain(order.quantity),
                "state": order.state.value,
                "ord_status": order.ord_status,
                "filled_quantity": plain(order.filled_quantity),
                "average_price": None if order.average_price is None else plain(order.average_price),
                "reason": order.reason,
            }
            for order in rows
        ],
    }
