"""How large an entry is: the signal's own quantity, or what the account says. Always rounded down.

Pure. Exits are never sized here (`book.py`), and no field of a payload can make an entry larger than the
account's rule.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal

ZERO = Decimal(0)

SMALLEST_STEP = Decimal("0.00000001")
"""The step of an instrument that states none."""

WIDE = Context(prec=100, rounding=ROUND_DOWN)
"""For quantities and money: a payload's number has up to 40 digits, the default context rounds at 28."""


def round_down(quantity: Decimal, step: Decimal = SMALLEST_STEP) -> Decimal:
    """The largest multiple of `step` that is not larger; never up, so that no limit is passed by rounding.

    Zero for what is below zero.
    """
    return WIDE.multiply(WIDE.divide_int(max(ZERO, quantity), step), step)


def worth(amount: Decimal, price: Decimal, step: Decimal = SMALLEST_STEP) -> Decimal:
    """How many units an amount of the account's currency buys at `price`, which is above zero."""
    return round_down(WIDE.divide(amount, price), step)


def at_least_a_step(net: Decimal, step: Decimal = SMALLEST_STEP) -> Decimal:
    """A position as it is traded on: less than one step is zero (CONTRACT 3)."""
    return net if abs(net) >= step else ZERO
