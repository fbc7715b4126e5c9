"""One sent value -> one typed value, or InvalidSignal with the field named as it was sent.

Nothing here knows which fields there are or what they mean together; that is `alert.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from app.domain.canonical import Canonical, canonical_json
from app.domain.number import NumberError, plain, read_number
from app.domain.signal import InvalidSignal
from app.domain.times import TimeError, read_interval, read_time
from app.domain.vocabulary import FALSE_WORDS, TRUE_WORDS, fold

MAX_TEXT = 255
"""Characters of a symbol, a strategy's name, an order id."""

T = TypeVar("T")


class Sent(NamedTuple):
    """A field as it was sent: its name (`strategy.order_action` inside a nested object) and its value."""

    name: str
    value: object
    nested: bool = False


def is_absent(value: object) -> bool:
    """`null` and text of nothing but spaces are as good as not sent."""
    return value is None or (isinstance(value, str) and not value.strip())


def placeholders(fields: Mapping[str, object]) -> tuple[str, ...]:
    """Names of every field, at any depth, that still has a `{{...}}` in it."""
    found = [n for name, value in fields.items() for n in _placeholders_in(name, value)]
    return tuple(dict.fromkeys(found))


def long_text(sent: Sent) -> str:
    """Text without surrounding spaces, in NFC. A number is its text."""
    if isinstance(sent.value, str):
        return unicodedata.normalize("NFC", sent.value.strip())
    if isinstance(sent.value, Decimal | int) and not isinstance(sent.value, bool):
        return format(Decimal(sent.value), "f")
    raise InvalidSignal("invalid_value", (sent.name,), "must be text or a number")


def text(sent: Sent) -> str:
    """As long_text, of one line and at most MAX_TEXT characters."""
    value = long_text(sent)
    if len(value) > MAX_TEXT:
        raise InvalidSignal("value_too_long", (sent.name,), f"at most {MAX_TEXT} characters")
    # Printable text, as nearly all is, has none of these.
    if not value.isprintable() and any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in value):
        raise InvalidSignal(
            "control_character", (sent.name,), "a line break or another control character in it"
        )
    return value


def word(table: Mapping[str, T]) -> Callable[[Sent], T]:
    """A reader for one of the words of `table`, whose keys are folded."""

    def read(sent: Sent) -> T:
        value = text(sent)
        found = table.get(fold(value))
        if found is None:
            detail = f"{value[:40]!r} is not one of {', '.join(table)}"
            raise InvalidSignal("invalid_value", (sent.name,), detail)
        return found

    return read


def number(sent: Sent) -> Decimal:
    """A finite decimal; see number.read_number for its bounds."""
    if isinstance(sent.value, bool) or not isinstance(sent.value, str | Decimal | int):
        raise InvalidSignal("invalid_number", (sent.name,), "must be a number")
    try:
        return read_number(str(sent.value).strip())
    except NumberError as error:
        raise InvalidSignal(error.reason, (sent.name,), str(error)) from error


def quantity(sent: Sent) -> Decimal:
    value = number(sent)
    if value <= 0:
        raise InvalidSignal("non_positive_quantity", (sent.name,), "a quantity is above zero")
    return value


def price(sent: Sent) -> Decimal:
    value = number(sent)
    if value <= 0:
        raise InvalidSignal("non_positive_price", (sent.name,), "a price is above zero")
    return value


def size(sent: Sent) -> Decimal:
    """A position's size without its side: zero or more."""
    value = number(sent)
    if value < 0:
        raise InvalidSignal("negative_size", (sent.name,), "a size has no sign; the side is market_position")
    return abs(value)


def time(sent: Sent) -> int:
    """UTC microseconds since 1970."""
    value = sent.value
    if isinstance(value, bool) or not isinstance(value, str | Decimal | int):
        raise InvalidSignal("invalid_time", (sent.name,), "must be a time")
    try:
        return read_time(value.strip() if isinstance(value, str) else Decimal(value))
    except TimeError as error:
        raise InvalidSignal(error.reason, (sent.name,), str(error)) from error


def interval(sent: Sent) -> str:
    """TradingView's spelling; see times.read_interval."""
    try:
        return read_interval(text(sent))
    except TimeError as error:
        raise InvalidSignal(error.reason, (sent.name,), str(error)) from error


def is_off(value: object) -> bool:
    """False, null, nothing, zero, and the words for them: what a field says that asks for nothing."""
    if isinstance(value, str):
        return value.strip().lower() in FALSE_WORDS or _is_zero(value)
    if isinstance(value, Decimal | int | bool):
        return value == 0
    return value is None or (isinstance(value, Sequence | Mapping) and not value)


def is_no_value(sent: Sent) -> bool:
    """What a plot without a value yet is sent like."""
    return isinstance(sent.value, str) and sent.value.strip().lower() in ("nan", "na", "n/a")


def switch(sent: Sent) -> bool:
    """A flag that must be understood: true or false in one of the usual spellings."""
    if is_off(sent.value):
        return False
    if (
        sent.value is True
        or sent.value == 1
        or (isinstance(sent.value, str) and fold(sent.value) in TRUE_WORDS)
    ):
        return True
    raise InvalidSignal("invalid_value", (sent.name,), "must be true or false")


def bracket(sent: Sent) -> str | None:
    """Canonical JSON of a take profit or stop loss, numbers by value; None where it asks for nothing."""
    if is_off(sent.value):
        return None
    if isinstance(sent.value, Mapping):
        return canonical_json(_by_value(sent.value))
    return canonical_json(plain(price(sent)))


def _has_placeholder(text: str) -> bool:
    return "{{" in text and "}}" in text.partition("{{")[2]


def _placeholders_in(name: str, value: object) -> list[str]:
    if _has_placeholder(name):
        return [name]
    if isinstance(value, str):
        return [name] if _has_placeholder(value) else []
    if isinstance(value, Mapping):
        return [n for inner, v in value.items() for n in _placeholders_in(f"{name}.{inner}", v)]
    if isinstance(value, list):
        return [n for item in value for n in _placeholders_in(name, item)]
    return []


def _is_zero(value: str) -> bool:
    try:
        return read_number(value.strip()) == 0
    except NumberError:
        return False


def _by_value(value: object) -> Canonical:
    """Numbers and numbers in text in their plain spelling; names folded, so that aliases are equal."""
    if isinstance(value, Mapping):
        return {fold(str(name)): _by_value(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_by_value(v) for v in value]
    if isinstance(value, bool) or value is None:
        return value
    try:
        return plain(read_number(str(value).strip()))
    except NumberError:
        return str(value).strip()
