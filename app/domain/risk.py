"""The limits that stop an entry, in the contract's order, each with its numbers.

Pure. An order that only reduces our own book is asked for nothing here but the halt (HOLES H10). A limit
that cannot be checked because a figure is missing denies (facts/libraries-and-proof.md 3, rule 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from enum import StrEnum

from app.domain.number import plain
from app.domain.signal import Side
from app.domain.sizing import WIDE

ZERO = Decimal(0)
CENT = Decimal("0.01")
CLOCK_TOLERANCE = 5_000_000
"""Microseconds that two readings of the wall clock may differ before an age is unknown (HOLES H32)."""


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
    shown = (
        (name, plain(value) if isinstance(value, Decimal) else str(value)) for name, value in numbers.items()
    )
    return Denial(code, tuple(shown))


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
    places_brackets: bool
    price_collar: Decimal = Decimal("0.02")
    """How far an alert's price may be from the venue's, as a fraction of that."""
    queues_when_closed: bool = False


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago an order was first received, by a clock that may have been set. Microseconds.

    `clock_behind` is how far the wall clock stands before what an earlier run has seen, where the order is
    of an earlier run; else 0. `waited_for` names what it waited for, where it did.
    """

    age: int
    max_age: int
    clock_behind: int = 0
    waited_for: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it would be sent, and what stands around it.

    Signed quantities; money in the account's currency; times and durations in microseconds. `exposure` is
    what all our books on the instrument would hold if everything in flight on this side filled and nothing
    on the other, this entry not included. `price` is what one unit is worth at the broker, its multiplier
    included, None where there is none. `elsewhere` is what else is open on the instrument, as numbers of a
    denial, where our own book is empty.
    """

    symbol: str
    side: Side
    opens: Decimal
    exposure: Decimal
    price: Decimal | None
    equity: Decimal
    cash: Decimal
    step: Decimal
    age: Age
    has_brackets: bool = False
    other_books: tuple[Decimal, ...] = ()
    """Nets of our other books on the instrument, and what their entries in flight may make of them."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    orders_last_minute: int = 0
    orders_today: int = 0
    open_positions: int = 0
    is_new_position: bool = True
    day_loss: Decimal = ZERO
    since_last_order: int | None = None
    minimum: Decimal = ZERO
    """The venue's smallest quantity of one order; never below a step."""
    not_tradable: str = ""
    """The venue's words where it does not trade the instrument."""
    market_closed: str = ""
    """The venue's words while the market of the instrument is closed."""
    is_shortable: bool = True
    stated_price: Decimal | None = None
    """The alert's own price; it is only compared (HOLES H8)."""
    venue_price: Decimal | None = None
    """The venue's quote, without a multiplier; None where the payload prices."""
    reserved: Decimal = ZERO
    """Money that entries in flight may still take, and that was spent since cash was read."""
    clock_offset: int = 0
    """How far the venue's clock stands from ours where that is too far to tell an age by; else 0."""
    drift: Mapping[str, str] = field(default_factory=dict)
    """What books and broker do not agree about on the instrument, as numbers of a denial."""


def first_denial(entry: Entry, limits: Limits, trading: TradingState) -> Denial | None:
    """The first limit that stops this entry, or None (order of CONTRACT 3, 'Denials')."""
    with localcontext(WIDE):
        found = halted(trading, opens=True) or stale(entry.age)
        for check in _CHECKS:
            found = found or check(entry, limits)
        return found


def halted(trading: TradingState, *, opens: bool) -> Denial | None:
    """The kill switch; the only limit that an exit is asked for."""
    if trading is TradingState.HALTED or (opens and trading is TradingState.EXITS_ONLY):
        return denial("TRADING_HALTED", state=trading.value)
    return None


def stale(age: Age) -> Denial | None:
    """Too old, or of an age that nobody knows because the clock was set back (HOLES H32)."""
    waited = {"waited_for": age.waited_for} if age.waited_for else {}
    behind = max(age.clock_behind, -age.age - CLOCK_TOLERANCE)
    if behind > 0:
        return denial("STALE", age="unknown", clock_behind=f"{behind / 1e6:.1f}s", **waited)
    if age.age > age.max_age:
        return denial("STALE", age=f"{age.age / 1e6:.1f}s", limit=f"{age.max_age / 1e6:g}s", **waited)
    return None


def ceiling(limits: Limits, equity: Decimal) -> Decimal:
    """The largest position in money: capital / divisor, rounded down to cents. Capital is the smaller of
    what is configured and what the broker says the account is worth."""
    capital = min(limits.capital, equity) if limits.capital > ZERO else equity
    return WIDE.quantize(WIDE.divide(max(ZERO, capital), Decimal(limits.position_divisor)), CENT)


def _clock(entry: Entry, _limits: Limits) -> Denial | None:
    if not entry.clock_offset:
        return None
    return denial("CLOCK_SKEW", venue_ahead=f"{entry.clock_offset / 1e6:.1f}s")


def _mapped(entry: Entry, _limits: Limits) -> Denial | None:
    if not entry.not_tradable:
        return None
    return denial("SYMBOL_NOT_MAPPED", symbol=entry.symbol, venue=_words(entry.not_tradable))


def _symbol(entry: Entry, limits: Limits) -> Denial | None:
    return None if limits.symbol_allowed else denial("SYMBOL_NOT_ALLOWED", symbol=entry.symbol)


def _closed(entry: Entry, limits: Limits) -> Denial | None:
    if not entry.market_closed or limits.queues_when_closed:
        return None
    return denial("MARKET_CLOSED", venue=_words(entry.market_closed))


def _short(entry: Entry, limits: Limits) -> Denial | None:
    if entry.side is Side.BUY or (limits.allow_short and entry.is_shortable):
        return None
    why = {} if entry.is_shortable else {"venue": _words("not shortable there")}
    return denial("SHORT_NOT_ALLOWED", opens=entry.opens, **why, **entry.elsewhere)


def _other_book(entry: Entry, _limits: Limits) -> Denial | None:
    if entry.side is Side.BUY or not entry.elsewhere:
        return None
    return denial("OTHER_BOOK_OPEN", **entry.elsewhere)


def _opposing(entry: Entry, _limits: Limits) -> Denial | None:
    opposing = [other for other in entry.other_books if other * entry.side.sign < ZERO]
    return denial("OPPOSING_BOOK", other_book=opposing[0]) if opposing else None


def _brackets(entry: Entry, limits: Limits) -> Denial | None:
    return denial("BRACKETS_UNSUPPORTED") if entry.has_brackets and not limits.places_brackets else None


def _no_price(entry: Entry, _limits: Limits) -> Denial | None:
    return denial("REFERENCE_PRICE_UNAVAILABLE") if entry.price is None else None


def _outside_band(entry: Entry, limits: Limits) -> Denial | None:
    """An alert priced far from the venue is about another chart, currency or symbol (HOLES H8)."""
    stated, venue = entry.stated_price, entry.venue_price
    if stated is None or venue is None or abs(stated - venue) <= limits.price_collar * venue:
        return None
    return denial("PRICE_OUTSIDE_BAND", stated=stated, venue=venue, collar=limits.price_collar)


def _too_small(entry: Entry, _limits: Limits) -> Denial | None:
    minimum = max(entry.step, entry.minimum)
    if entry.opens >= minimum:
        return None
    return denial("QUANTITY_BELOW_MINIMUM", quantity=entry.opens, minimum=minimum)


def _position(entry: Entry, limits: Limits) -> Denial | None:
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


def _notional(entry: Entry, limits: Limits) -> Denial | None:
    assert entry.price is not None
    most = limits.max_order_notional if limits.max_order_notional > ZERO else ceiling(limits, entry.equity)
    notional = entry.opens * entry.price
    if notional <= most:
        return None
    return denial("NOTIONAL_EXCEEDS_MAX_PER_ORDER", notional=notional, limit=most)


def _positions(entry: Entry, limits: Limits) -> Denial | None:
    most = limits.max_open_positions
    if not most or not entry.is_new_position or entry.open_positions < most:
        return None
    return denial("MAX_OPEN_POSITIONS", open=entry.open_positions, limit=most)


def _loss(entry: Entry, limits: Limits) -> Denial | None:
    if limits.max_daily_loss == ZERO or entry.day_loss < limits.max_daily_loss:
        return None
    return denial("DAILY_LOSS_LIMIT", loss=entry.day_loss, limit=limits.max_daily_loss)


def _cooldown(entry: Entry, limits: Limits) -> Denial | None:
    since = entry.since_last_order
    if limits.cooldown == 0 or since is None or since >= limits.cooldown:
        return None
    return denial("COOLDOWN", since=f"{since / 1e6:.1f}s", limit=f"{limits.cooldown / 1e6:g}s")


def _rate(entry: Entry, limits: Limits) -> Denial | None:
    windows = (
        ("60s", entry.orders_last_minute, limits.max_orders_per_minute),
        ("day", entry.orders_today, limits.max_orders_per_day),
    )
    for window, sent, most in windows:
        if most and sent >= most:
            return denial("RATE_LIMIT_EXCEEDED", window=window, sent=sent, limit=most)
    return None


def _funds(entry: Entry, _limits: Limits) -> Denial | None:
    assert entry.price is not None
    needed = entry.opens * entry.price
    if entry.side is Side.SELL or needed <= entry.cash - entry.reserved:
        return None
    reserved = {"reserved": entry.reserved} if entry.reserved else {}
    return denial("INSUFFICIENT_FUNDS", needed=needed, cash=entry.cash, **reserved)


def _drift(entry: Entry, _limits: Limits) -> Denial | None:
    return denial("DRIFT", **entry.drift) if entry.drift else None


def _words(said: str) -> str:
    """A venue's sentence as the value of one key."""
    return repr(said) if " " in said else said


_CHECKS: tuple[Callable[[Entry, Limits], Denial | None], ...] = (
    _clock,
    _mapped,
    _symbol,
    _closed,
    _short,
    _other_book,
    _opposing,
    _brackets,
    _no_price,
    _outside_band,
    _too_small,
    _position,
    _notional,
    _positions,
    _loss,
    _cooldown,
    _rate,
    _drift,
    _funds,
)
"""After halt and age, in the contract's order."""
