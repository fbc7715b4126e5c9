"""How large an entry is: the signal's own quantity, or what the account says. Always rounded down.

Pure. Exits are never sized here (`book.py`), and no field of a payload can make an entry larger than the
account's rule.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

SMALLEST_STEP = Decimal("0.00000001")
"""The step of an instrument that states none."""


def round_down(quantity: Decimal, step: Decimal = SMALLEST_STEP) -> Decimal:
    """The largest multiple of `step` that is not larger; never up, so that no limit is passed by rounding."""
    return (quantity / step).to_integral_value(rounding=ROUND_DOWN) * step


def worth(amount: Decimal, price: Decimal, step: Decimal = SMALLEST_STEP) -> Decimal:
    """How many units an amount of the account's currency buys at `price`."""
    return round_down(amount / price, step)
