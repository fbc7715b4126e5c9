"""Whether the simulated exchange takes an order: the rules that Alpaca documents, as a pure check.

Knows no file. What is refused here was looked at and will never be worked; the codes are the venue's own.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

ZERO = Decimal(0)
OPEN = ("new", "accepted", "pending_new", "partially_filled", "held", "pending_cancel")
TYPES = ("market", "limit", "stop", "stop_limit")
STOCK_TIFS = ("day", "gtc", "opg", "cls", "ioc", "fok")
COIN_TIFS = ("gtc", "ioc")

UNPROCESSABLE, FORBIDDEN = 422, 403
INVALID = 40010001
BLOCKED = 40310000
NOT_FOUND = 40410000
NOT_IN_STATE = 42210000


class Rejected(Exception):
    """The exchange says no. `status` is HTTP's, `code` the venue's; `more` is said beside the message."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.more = status, code, message, more

    @property
    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **self.more}


def duplicate_id() -> Rejected:
    return Rejected(UNPROCESSABLE, INVALID, "client_order_id must be unique")


@dataclass(frozen=True)
class Order:
    """An order as it was asked for, read and sound in itself."""

    client_order_id: str
    symbol: str
    side: str
    qty: Decimal
    type: str
    tif: str
    limit_price: Decimal | None
    stop_price: Decimal | None
    extended_hours: bool

    @property
    def sign(self) -> int:
        return 1 if self.side == "buy" else -1


@dataclass(frozen=True)
class Standing:
    """What the account has as the order comes in. Quantities are signed."""

    position: Decimal
    cash: Decimal
    buying_power: int
    shorting: bool
    open_orders: Sequence[Mapping[str, Any]] = field(default=())
    """Those of the same symbol."""


def read_order(body: Mapping[str, Any], fresh_id: str) -> Order:
    """Raises Rejected. `fresh_id` is the id of an order whose sender gave none."""
    if "notional" in body and body["notional"] is not None:
        raise Rejected(UNPROCESSABLE, INVALID, "notional orders are not simulated")
    order_type, side, tif = (str(body.get(name) or "") for name in ("type", "side", "time_in_force"))
    client_order_id = str(body.get("client_order_id") or fresh_id)
    if side not in ("buy", "sell"):
        raise Rejected(UNPROCESSABLE, INVALID, "side must be buy or sell")
    if order_type not in TYPES:
        raise Rejected(UNPROCESSABLE, INVALID, f"invalid type {order_type!r}")
    if len(client_order_id) > 128:
        raise Rejected(UNPROCESSABLE, INVALID, "client_order_id must be no more than 128 characters")
    limit, stop = _number(body, "limit_price"), _number(body, "stop_price")
    for name, price, types in (("limit", limit, TYPES[1::2]), ("stop", stop, TYPES[2:])):
        if (price is None) == (order_type in types):
            need = "require" if price is None else "cannot have"
            raise Rejected(UNPROCESSABLE, INVALID, f"{order_type} orders {need} {name} price")
    qty = _number(body, "qty")
    if qty is None:
        raise Rejected(UNPROCESSABLE, INVALID, "qty is required")
    symbol = str(body.get("symbol") or "")
    extended = bool(body.get("extended_hours"))
    return Order(client_order_id, symbol, side, qty, order_type, tif, limit, stop, extended)


def check_terms(order: Order, asset: Mapping[str, Any] | None) -> None:
    """The order against the symbol's own rules. Raises Rejected."""
    if asset is None:
        raise Rejected(UNPROCESSABLE, INVALID, f'asset "{order.symbol}" not found')
    if not asset["tradable"]:
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, f"asset {order.symbol} is not tradable")
    is_coin = asset["class"] == "crypto"
    if order.tif not in (COIN_TIFS if is_coin else STOCK_TIFS):
        kind = "crypto " if is_coin else ""
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, f"invalid {kind}time_in_force")
    if is_coin and order.type == "stop":
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, "invalid order type for crypto order")
    if order.qty % 1 and not is_coin:
        if not asset["fractionable"]:
            raise Rejected(FORBIDDEN, BLOCKED, f"asset {order.symbol} is not fractionable")
        if order.tif != "day":
            raise Rejected(UNPROCESSABLE, NOT_IN_STATE, "fractional orders must be DAY orders")
    if order.extended_hours and (order.type != "limit" or order.tif not in ("day", "gtc")):
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, "extended hours order must be DAY or GTC limit orders")


def check_standing(order: Order, asset: Mapping[str, Any], standing: Standing) -> None:
    """The order against what the account has. Raises Rejected."""
    opposite = [row for row in standing.open_orders if row["side"] != order.side]
    if any(_washes(order, row) for row in opposite):
        ids = [row["id"] for row in opposite]
        message = "potential wash trade detected. use complex orders"
        reason = "opposite side market/stop order exists"
        raise Rejected(FORBIDDEN, BLOCKED, message, existing_order_id=ids[0], reject_reason=reason)
    against = -order.sign * standing.position
    if against > 0:
        _check_held(order, against, standing.open_orders)
        return
    if order.side == "buy":
        price = order.limit_price or order.stop_price or Decimal(asset["price"])
        power = standing.cash * standing.buying_power
        if order.qty * price > power:
            cost = format(order.qty * price, "f")
            message = "insufficient buying power"
            raise Rejected(FORBIDDEN, BLOCKED, message, buying_power=format(power, "f"), cost_basis=cost)
        return
    if asset["class"] == "crypto":
        message = f"insufficient balance for {order.symbol} (requested: {order.qty}, available: 0)"
        raise Rejected(FORBIDDEN, BLOCKED, message)
    if order.qty % 1:
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, "fractional orders cannot be sold short")
    if not standing.shorting:
        raise Rejected(FORBIDDEN, BLOCKED, "account is not allowed to short")
    if not asset["shortable"]:
        raise Rejected(UNPROCESSABLE, NOT_IN_STATE, f'asset "{order.symbol}" cannot be sold short')


def _check_held(order: Order, against: Decimal, open_orders: Sequence[Mapping[str, Any]]) -> None:
    """No order turns a position, and what open orders of the same side hold can not be asked for twice."""
    holding = [row for row in open_orders if row["side"] == order.side]
    held = sum((Decimal(row["qty"]) - Decimal(row["filled_qty"]) for row in holding), ZERO)
    free = max(ZERO, against - held)
    if order.qty <= free:
        return
    asked, left = format(order.qty, "f"), format(free, "f")
    raise Rejected(
        FORBIDDEN,
        BLOCKED,
        f"insufficient qty available for order (requested: {asked}, available: {left})",
        available=left,
        existing_qty=format(against, "f"),
        held_for_orders=format(held, "f"),
        related_orders=[row["id"] for row in holding],
        symbol=order.symbol,
    )


def _washes(order: Order, resting: Mapping[str, Any]) -> bool:
    """Whether the account could trade with itself."""
    if order.type != "limit" or resting["type"] != "limit":
        return True
    assert order.limit_price is not None
    return (order.limit_price - Decimal(resting["limit_price"])) * order.sign >= 0


def _number(body: Mapping[str, Any], name: str) -> Decimal | None:
    value = body.get(name)
    if value is None:
        return None
    try:
        number = Decimal(str(value))
    except decimal.InvalidOperation:
        number = ZERO
    if not number.is_finite() or number <= 0:
        raise Rejected(UNPROCESSABLE, INVALID, f"{name} must be > 0")
    return number
