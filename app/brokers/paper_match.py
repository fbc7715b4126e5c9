"""The paper exchange's matching rules: when an order fills, at what price, in which pieces.

Pure. Knows no file, no clock and no account; the book (paper_book.py) keeps what is decided here.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from enum import StrEnum

from app.brokers.base import OrderRequest
from app.domain.signal import OrderType, Side, TimeInForce

MAX_DIGITS = 60
"""Digits and decimal exponent that a quantity or price may have: more than the door lets in."""

EXACT = decimal.Context(
    prec=400,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.DivisionByZero, decimal.FloatOperation],
)
"""Money is exact or an error: products of two allowed numbers, and long sums of them, fit with room."""

ROUNDED = decimal.Context(prec=28, traps=[decimal.InvalidOperation, decimal.DivisionByZero])
"""For average prices only, which are shown and never booked."""


class FillMode(StrEnum):
    """How the exchange fills: `fills` of a paper account (CONTRACT 4)."""

    ASYNC = "async"
    INSTANT = "instant"
    PARTIAL = "partial"


def fault_of(request: OrderRequest) -> str | None:
    """What makes this an order that no exchange could work, in words; None where it is sound."""
    if not request.client_order_id:
        return "no client order id"
    if not request.instrument:
        return "no instrument"
    needs_limit = request.type in (OrderType.LIMIT, OrderType.STOP_LIMIT)
    needs_stop = request.type in (OrderType.STOP, OrderType.STOP_LIMIT)
    if needs_limit != (request.limit_price is not None):
        return f"a {request.type} order {'needs a' if needs_limit else 'has no'} limit price"
    if needs_stop != (request.stop_price is not None):
        return f"a {request.type} order {'needs a' if needs_stop else 'has no'} stop price"
    numbers = {
        "quantity": request.quantity,
        "limit price": request.limit_price,
        "stop price": request.stop_price,
        "reference price": request.reference_price,
    }
    for name, number in numbers.items():
        if number is not None and not is_usable(number):
            return f"{name} {number} is not a finite number above zero of at most {MAX_DIGITS} digits"
    return None


def is_usable(number: Decimal) -> bool:
    """Whether a quantity or price is finite, above zero, and small enough to be booked exactly."""
    if not number.is_finite() or number <= 0:
        return False
    return len(number.as_tuple().digits) <= MAX_DIGITS and abs(number.adjusted()) <= MAX_DIGITS


def is_triggered(side: Side, stop_price: Decimal, price: Decimal) -> bool:
    """Whether a shown price reaches a stop: at or above it for a buy, at or below it for a sell."""
    return price >= stop_price if side is Side.BUY else price <= stop_price


def fills_at(
    order_type: OrderType, side: Side, limit_price: Decimal | None, is_stop_reached: bool, price: Decimal
) -> bool:
    """Whether the order fills at `price`; it then fills at exactly that price: the limit or better."""
    if order_type in (OrderType.STOP, OrderType.STOP_LIMIT) and not is_stop_reached:
        return False
    if limit_price is None:
        return True
    return price <= limit_price if side is Side.BUY else price >= limit_price


def next_piece(quantity: Decimal, filled: Decimal, mode: FillMode, tif: TimeInForce | None) -> Decimal:
    """How much the next fill takes: all that is left, or the first exact half in `partial` mode.

    An `ioc` or `fok` order cannot wait for a second half, so it fills in one piece.
    """
    may_wait = tif not in (TimeInForce.IOC, TimeInForce.FOK)
    if mode is FillMode.PARTIAL and filled == 0 and may_wait:
        return EXACT.divide(quantity, Decimal(2))
    return EXACT.subtract(quantity, filled)


def opening_part(side: Side, quantity: Decimal, position: Decimal) -> Decimal:
    """How much of an order opens or enlarges a position; the rest closes the other side."""
    against = EXACT.minus(position) if side is Side.BUY else position
    return max(Decimal(0), EXACT.subtract(quantity, max(Decimal(0), against)))
