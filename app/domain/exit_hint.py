"""What of a delivery that nothing is placed for may be told all the same: is it an exit (CONTRACT 3)?

Lenient where `alert.py` is strict, and for telling a person alone: no order may ever be read from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from app.domain import values
from app.domain.fields import each_field, field_of
from app.domain.signal import Action, Direction, InvalidSignal, Side, Signal
from app.domain.symbols import is_symbol, split_delayed, split_symbol
from app.domain.values import Sent
from app.domain.vocabulary import ACTIONS, DIRECTIONS, fold

T = TypeVar("T")

_SIDES = {Action.BUY: Side.BUY, Action.SELL: Side.SELL}


@dataclass(frozen=True, slots=True)
class ExitHint:
    """An order that is an exit if a book stands against one of its sides.

    `symbols` and `strategies` say which books; None where that could not be read, so that any may be meant.
    `exchanges` are those that the symbols may be mapped with.
    """

    sides: frozenset[Side]
    symbols: tuple[str, ...] | None
    exchanges: tuple[str | None, ...] = (None,)
    strategies: tuple[str, ...] | None = ("",)

    def is_against(self, book: Decimal) -> bool:
        """`book` is signed."""
        return any(book * side.sign < 0 for side in self.sides)


def hint_of_signal(signal: Signal) -> ExitHint | None:
    """None where the book makes no difference."""
    side = _SIDES.get(signal.action)
    if side is None:
        return None
    return ExitHint(frozenset({side}), (signal.symbol,), (signal.exchange,), (signal.strategy or "",))


def hint_of(fields: Mapping[str, object]) -> ExitHint | None:
    """The same of fields that were refused. Never raises. None where they name no side."""
    found = _Found(fields)
    sides = frozenset(_SIDES[action] for action in found.words("action", ACTIONS) if action in _SIDES)
    if not sides:
        return None
    symbols, exchanges = found.instruments()
    return ExitHint(sides, symbols, exchanges, found.strategies())


def seems_an_exit(fields: Mapping[str, object]) -> bool:
    """Do refused fields look like an exit, whatever the book says? Never raises.

    A lost exit has to be told to a person, whatever was wrong with it.
    """
    found = _Found(fields)
    if any(action in (Action.EXIT, Action.CANCEL) for action in found.words("action", ACTIONS)):
        return True
    stated = (*found.words("market_position", DIRECTIONS), *found.words("sentiment", DIRECTIONS))
    if Direction.FLAT in stated or any(not values.is_off(sent.value) for sent in found["reduce_only"]):
        return True
    return found.nears_zero()


def text_seems_an_exit(text: str) -> bool:
    """The same of a text that is no message of one order: broken JSON, a list, an alert's default words."""
    return _EXIT_IN_TEXT.search(text) is not None


_EXIT_WORDS = (
    *(word for word, action in ACTIONS.items() if action in (Action.EXIT, Action.CANCEL)),
    *(word for word, direction in DIRECTIONS.items() if direction is Direction.FLAT),
)
_EXIT_IN_TEXT = re.compile(
    # A value and never a name: "close" is what most templates call a price.
    rf""":\s*["']?\s*(?:{"|".join(map(re.escape, _EXIT_WORDS))})\s*["']?\s*(?:[,}}\]\r\n]|\Z)"""
    # What TradingView writes where the message was left as it is.
    r"|\bstrategy position is 0(?:\.0+)?(?![.\d])",
    re.IGNORECASE,
)


class _Found:
    """The fields that were sent, by what their names mean; what cannot be read is passed over."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._sent: dict[str, list[Sent]] = {}
        for sent, folded in each_field(fields):
            field = field_of(sent, folded)
            if field is not None and not values.is_absent(sent.value):
                self._sent.setdefault(field, []).append(sent)

    def __getitem__(self, field: str) -> list[Sent]:
        return self._sent.get(field, [])

    def words(self, field: str, table: Mapping[str, T]) -> tuple[T, ...]:
        said = (fold(sent.value) for sent in self[field] if isinstance(sent.value, str))
        return tuple(table[word] for word in said if word in table)

    def strategies(self) -> tuple[str, ...] | None:
        read = list(self._texts("strategy"))
        if len(read) < len(self["strategy"]):
            return None
        return tuple(dict.fromkeys(read)) or ("",)

    def instruments(self) -> tuple[tuple[str, ...] | None, tuple[str | None, ...]]:
        """Symbols and exchanges, as alert.py splits them."""
        split = [split_symbol(text) for text in self._texts("symbol")]
        symbols = tuple(dict.fromkeys(symbol for _, symbol in split if symbol and is_symbol(symbol)))
        names = [*(prefix for prefix, _ in split if prefix), *map(str.upper, self._texts("exchange"))]
        exchanges = tuple(dict.fromkeys(split_delayed(name)[0] for name in names))
        is_whole = symbols and all(is_symbol(symbol) for _, symbol in split if symbol)
        is_whole = is_whole and len(split) == len(self["symbol"])
        return (symbols if is_whole else None), exchanges or (None,)

    def nears_zero(self) -> bool:
        """The stated position after the order is nearer to zero than before, or zero, on no other side."""
        after = self._position("market_position", "market_position_size")
        for signed in self._read("position_size", values.number):
            after = signed
        if after is None:
            return False
        before = self._position("prev_market_position", "prev_market_position_size")
        return after == 0 or (before is not None and abs(after) < abs(before) and after * before >= 0)

    def _position(self, side: str, size: str) -> Decimal | None:
        """Signed; without a readable side as if it were long."""
        sizes = list(self._read(size, values.number))
        directions = self.words(side, DIRECTIONS)
        if Direction.FLAT in directions:
            return Decimal(0)
        if not sizes:
            return None
        return -abs(sizes[0]) if Direction.SHORT in directions else abs(sizes[0])

    def _texts(self, field: str) -> Iterator[str]:
        for sent in self[field]:
            if not values.placeholders({sent.name: sent.value}):
                yield from self._read_one(sent, values.text)

    def _read(self, field: str, reader: Callable[[Sent], T]) -> Iterator[T]:
        for sent in self[field]:
            yield from self._read_one(sent, reader)

    @staticmethod
    def _read_one(sent: Sent, reader: Callable[[Sent], T]) -> Iterator[T]:
        try:
            yield reader(sent)
        except InvalidSignal:
            return
