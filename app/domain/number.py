"""Numbers of a payload: exact decimals, bounded, in ASCII digits, and their one plain spelling.

Nothing here guesses (`0,25` is no number) and nothing here rounds: a Decimal is made from the sender's text.
"""

from __future__ import annotations

import re
from decimal import Decimal

MAX_CHARACTERS = 40
MAX_EXPONENT = 18
"""Both bound what a sender can make us compute: `int(Decimal("1e300000"))` takes seconds."""
MAX_PLAIN = 400
"""Digits that `plain` writes; nothing that is counted here comes near."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity|na)", re.IGNORECASE)


class NumberError(ValueError):
    """`reason` is a word of CONTRACT 3 (`invalid_number`, ...), the message one sentence for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_number(text: str) -> Decimal:
    """The number that `text` spells, without exponent: `2.5e6` is Decimal("2500000").

    Raises NumberError: `non_finite_number`, `number_too_long`, `number_out_of_range` or `invalid_number`.
    """
    if len(text) > MAX_CHARACTERS:
        raise NumberError("number_too_long", f"a number has at most {MAX_CHARACTERS} characters")
    match = _NUMBER.fullmatch(text)
    if match is None:
        if _NOT_FINITE.fullmatch(text):
            raise NumberError(
                "non_finite_number", "not a number; a plot without a value yet is sent like this"
            )
        raise NumberError("invalid_number", f"{text!r} is not a number like 0.25")
    if match["exponent"] is None:
        return Decimal(text)
    if abs(int(match["exponent"])) > MAX_EXPONENT:
        raise NumberError("number_out_of_range", f"an exponent is at most {MAX_EXPONENT}")
    return Decimal(format(Decimal(text), "f"))


def bounded(number: Decimal) -> Decimal:
    """The number, if it is one that may be counted with: finite, below 1E+19, of at most 40 digits.

    For numbers that somebody else's program has sent. Raises NumberError; its words do not repeat the number.
    """
    if not number.is_finite():
        raise NumberError("non_finite_number", "not a number")
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > MAX_CHARACTERS or exponent < -MAX_CHARACTERS or number.adjusted() > MAX_EXPONENT:
        raise NumberError("number_out_of_range", "a number far too large or too long")
    return number


def plain(number: Decimal) -> str:
    """One spelling for one value: no exponent, no trailing zeros. 1, 1.0 and 1.00 are all `1`.

    Not `Decimal.normalize`, which rounds to the precision of the context. Raises NumberError for what
    would be more than MAX_PLAIN digits: `1E+999999999` takes gigabytes.
    """
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and max(number.adjusted(), 0) + max(-exponent, 0) > MAX_PLAIN:
        raise NumberError("number_out_of_range", f"a number of more than {MAX_PLAIN} digits")
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
