"""The limits that stop an entry, in the contract's order, each with its numbers.

Pure. An order that only reduces our own book never comes here but for the halt (HOLES H10). A limit that
cannot be checked because a figure is missing denies (facts/libraries-and-proof.md 3, rule 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum

from app.domain.signal import Side

ZERO = Decimal(0)
CENT = Decimal("0.01")


class TradingState(StrEnum):
    ACTIVE = "active"
    EXITS_ONLY = "exits_only"
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal of ours: nothing was sent. `text` is the code and its numbers as `key=value`."""

    code: str
    numbers: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        return " ".join([self.code, *(f"{name}={value}" for name, value in self.numbers)])


def denial(code: str, **numbers: object) -> Denial:
    shown = {
        name: format(value, "f") if isinstance(value, Decimal) else str(value)
        for name, value in numbers.items()
    }
    return Denial(code, tuple(shown.items()))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the configuration sets. 0 is no limit; a `max_order_notional` of 0 is the position ceiling."""

    position_divisor: int
    max_order_notional: Decimal
    max_orders_per_minute: int
    max_orders_per_day: int
    max_open_positions: int
    max_daily_loss: Decimal
    cooldown: int
    capital: Decimal
    allow_short: bool
    symbol_allowed: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it would be sent, and what stands around it.

    Signed quantities; money in the account's currency; times and durations in microseconds. `exposure` is
    what all our books on the instrument would hold if everything in flight filled, this entry not included.
    `price` is the broker's, None where there is none.
    """

    side: Side
    opens: Decimal
    exposure: Decimal
    price: Decimal | None
    equity: Decimal
    cash: Decimal
    other_books: tuple[Decimal, ...]
    step: Decimal
    age: int
    max_age: int
    orders_last_minute: int
    orders_today: int
    open_positions: int
    is_new_position: bool
    day_loss: Decimal
    since_last_order: int | None


def first_denial(entry: Entry, limits: Limits, trading: TradingState) -> Denial | None:
    """The first limit that stops this entry, or None (order of CONTRACT 3, 'Denials')."""
    for check in _CHECKS:
        found = check(entry, limits, trading)
        if found is not None:
            return found
    return None


def ceiling(limits: Limits, equity: Decimal) -> Decimal:
    """The largest position in money: capital / divisor, rounded down to cents. Capital is the smaller of
    what is configured and what the broker says the account is worth."""
    capital = min(limits.capital, equity) if limits.capital > ZERO else equity
    return (max(ZERO, capital) / limits.position_divisor).quantize(CENT, rounding=ROUND_DOWN)


def _halted(_entry: Entry, _limits: Limits, trading: TradingState) -> Denial | None:
    return None if trading is TradingState.ACTIVE else denial("TRADING_HALTED", state=trading.value)


def _stale(entry: Entry, _limits: Limits, _trading: TradingState) -> Denial | None:
    if entry.age <= entry.max_age:
        return None
    return denial("STALE", age=f"{entry.age / 1e6:.1f}s", limit=f"{entry.max_age / 1e6:g}s")


def _symbol(_entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    return None if limits.symbol_allowed else denial("SYMBOL_NOT_ALLOWED")


def _short(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    if entry.side is Side.BUY or limits.allow_short:
        return None
    return denial("SHORT_NOT_ALLOWED", quantity=entry.opens)


def _opposing(entry: Entry, _limits: Limits, _trading: TradingState) -> Denial | None:
    opposing = [other for other in entry.other_books if other * entry.side.sign < ZERO]
    return denial("OPPOSING_BOOK", other_book=opposing[0]) if opposing else None


def _no_price(entry: Entry, _limits: Limits, _trading: TradingState) -> Denial | None:
    return denial("REFERENCE_PRICE_UNAVAILABLE") if entry.price is None else None


def _too_small(entry: Entry, _limits: Limits, _trading: TradingState) -> Denial | None:
    if entry.opens >= entry.step:
        return None
    return denial("QUANTITY_BELOW_MINIMUM", quantity=entry.opens, minimum=entry.step)


def _position(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    assert entry.price is not None
    most = ceiling(limits, entry.equity)
    projected = abs(entry.exposure + entry.side.sign * entry.opens) * entry.price
    if projected <= most:
        return None
    return denial(
        "POSITION_EXCEEDS_CAPITAL_FRACTION",
        projected=projected,
        ceiling=most,
        divisor=limits.position_divisor,
    )


def _notional(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    assert entry.price is not None
    most = limits.max_order_notional if limits.max_order_notional > ZERO else ceiling(limits, entry.equity)
    notional = entry.opens * entry.price
    return (
        None if notional <= most else denial("NOTIONAL_EXCEEDS_MAX_PER_ORDER", notional=notional, limit=most)
    )


def _positions(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    if (
        limits.max_open_positions == 0
        or not entry.is_new_position
        or entry.open_positions < limits.max_open_positions
    ):
        return None
    return denial("MAX_OPEN_POSITIONS", open=entry.open_positions, limit=limits.max_open_positions)


def _loss(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    if limits.max_daily_loss == ZERO or entry.day_loss < limits.max_daily_loss:
        return None
    return denial("DAILY_LOSS_LIMIT", loss=entry.day_loss, limit=limits.max_daily_loss)


def _cooldown(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    if limits.cooldown == 0 or entry.since_last_order is None or entry.since_last_order >= limits.cooldown:
        return None
    return denial(
        "COOLDOWN", since=f"{entry.since_last_order / 1e6:.1f}s", limit=f"{limits.cooldown / 1e6:g}s"
    )


def _rate(entry: Entry, limits: Limits, _trading: TradingState) -> Denial | None:
    if limits.max_orders_per_minute and entry.orders_last_minute >= limits.max_orders_per_minute:
        return denial(
            "RATE_LIMIT_EXCEEDED",
            window="60s",
            sent=entry.orders_last_minute,
            limit=limits.max_orders_per_minute,
        )
    if limits.max_orders_per_day and entry.orders_today >= limits.max_orders_per_day:
        return denial(
            "RATE_LIMIT_EXCEEDED", window="day", sent=entry.orders_today, limit=limits.max_orders_per_day
        )
    return None


def _funds(entry: Entry, _limits: Limits, _trading: TradingState) -> Denial | None:
    assert entry.price is not None
    needed = entry.opens * entry.price
    if entry.side is Side.SELL or needed <= entry.cash:
        return None
    return denial("INSUFFICIENT_FUNDS", needed=needed, cash=entry.cash)


_CHECKS: tuple[Callable[[Entry, Limits, TradingState], Denial | None], ...] = (
    _halted,
    _stale,
    _symbol,
    _short,
    _opposing,
    _no_price,
    _too_small,
    _position,
    _notional,
    _positions,
    _loss,
    _cooldown,
    _rate,
    _funds,
)
