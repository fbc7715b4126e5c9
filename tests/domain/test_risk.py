"""The limits of an entry: their order, their bounds, their numbers."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.risk import (
    Age,
    Entry,
    Limits,
    TradingState,
    ceiling,
    denial,
    first_denial,
    halted,
    stale,
)
from app.domain.signal import Side

D = Decimal
SECOND = 1_000_000
ACTIVE, EXITS_ONLY, HALTED = TradingState.ACTIVE, TradingState.EXITS_ONLY, TradingState.HALTED

LIMITS = Limits(
    position_divisor=20,
    max_order_notional=D(0),
    max_orders_per_minute=0,
    max_orders_per_day=0,
    max_open_positions=0,
    max_daily_loss=D(0),
    cooldown=0,
    capital=D(0),
    allow_short=False,
    symbol_allowed=True,
    places_brackets=False,
)
ENTRY = Entry(
    symbol="AAPL",
    side=Side.BUY,
    opens=D(10),
    exposure=D(0),
    price=D(100),
    equity=D(100_000),
    cash=D(100_000),
    step=D("0.00000001"),
    age=Age(0, 60 * SECOND),
)

STEPS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("STALE", {"age": Age(61 * SECOND, 60 * SECOND)}, {}),
    ("SYMBOL_NOT_ALLOWED", {}, {"symbol_allowed": False}),
    ("SHORT_NOT_ALLOWED", {"side": Side.SELL}, {"allow_short": False}),
    ("OTHER_BOOK_OPEN", {"side": Side.SELL, "elsewhere": {"other_books": "5"}}, {}),
    ("OPPOSING_BOOK", {"other_books": (D(5), D(-5))}, {}),
    ("BRACKETS_UNSUPPORTED", {"has_brackets": True}, {}),
    ("REFERENCE_PRICE_UNAVAILABLE", {"price": None}, {}),
    ("QUANTITY_BELOW_MINIMUM", {"opens": D("0.000000009")}, {}),
    ("POSITION_EXCEEDS_CAPITAL_FRACTION", {"exposure": D(1000)}, {}),
    ("NOTIONAL_EXCEEDS_MAX_PER_ORDER", {}, {"max_order_notional": D("1e-12")}),
    ("MAX_OPEN_POSITIONS", {"open_positions": 3}, {"max_open_positions": 3}),
    ("DAILY_LOSS_LIMIT", {"day_loss": D(500)}, {"max_daily_loss": D(500)}),
    ("COOLDOWN", {"since_last_order": 1}, {"cooldown": 2}),
    ("RATE_LIMIT_EXCEEDED", {"orders_last_minute": 5}, {"max_orders_per_minute": 5}),
    ("INSUFFICIENT_FUNDS", {"cash": D("1e-12")}, {}),
]
"""In the contract's order: what makes each hold."""


@pytest.mark.parametrize("first", range(len(STEPS)), ids=[code for code, _, _ in STEPS])
def test_the_first_denial_that_holds_is_the_contracts_first(first: int) -> None:
    for second in range(first, len(STEPS)):
        entry, limits = ENTRY, replace(LIMITS, allow_short=True)
        for _, fields, rules in (STEPS[second], STEPS[first]):
            entry, limits = replace(entry, **fields), replace(limits, **rules)
        denied = first_denial(entry, limits, ACTIVE)
        assert denied is not None
        assert denied.code == STEPS[first][0]


def test_the_halt_comes_before_everything() -> None:
    entry = replace(ENTRY, age=Age(61 * SECOND, 60 * SECOND))
    for state in (HALTED, EXITS_ONLY):
        denied = first_denial(entry, LIMITS, state)
        assert denied == denial("TRADING_HALTED", state=state.value)


def test_only_the_full_halt_stops_an_exit() -> None:
    assert halted(ACTIVE, opens=True) is None
    assert halted(EXITS_ONLY, opens=False) is None
    assert halted(EXITS_ONLY, opens=True) is not None
    assert halted(HALTED, opens=False) is not None


def test_an_entry_within_all_limits_is_not_denied() -> None:
    assert first_denial(ENTRY, LIMITS, ACTIVE) is None


def code(entry: Entry = ENTRY, limits: Limits = LIMITS, **changes: Any) -> str | None:
    rules = {name: value for name, value in changes.items() if name in Limits.__slots__}
    fields = {name: value for name, value in changes.items() if name not in rules}
    denied = first_denial(replace(entry, **fields), replace(limits, **rules), ACTIVE)
    return None if denied is None else denied.code


def test_each_limit_holds_from_its_bound_on() -> None:
    assert code(opens=D(50)) is None
    assert code(opens=D("50.00000001")) == "POSITION_EXCEEDS_CAPITAL_FRACTION"
    assert code(opens=D(10), exposure=D(40)) is None
    assert code(opens=D(10), exposure=D("40.1")) == "POSITION_EXCEEDS_CAPITAL_FRACTION"
    assert code(max_order_notional=D(1000)) is None
    assert code(max_order_notional=D("999.99")) == "NOTIONAL_EXCEEDS_MAX_PER_ORDER"
    assert code(max_open_positions=2, open_positions=1) is None
    assert code(max_open_positions=2, open_positions=2) == "MAX_OPEN_POSITIONS"
    assert code(max_open_positions=2, open_positions=2, is_new_position=False) is None
    assert code(max_daily_loss=D(500), day_loss=D("499.99")) is None
    assert code(max_daily_loss=D(500), day_loss=D(500)) == "DAILY_LOSS_LIMIT"
    assert code(cooldown=10, since_last_order=10) is None
    assert code(cooldown=10, since_last_order=9) == "COOLDOWN"
    assert code(max_orders_per_minute=30, orders_last_minute=29) is None
    assert code(max_orders_per_minute=30, orders_last_minute=30) == "RATE_LIMIT_EXCEEDED"
    assert code(max_orders_per_day=5, orders_today=4) is None
    assert code(max_orders_per_day=5, orders_today=5) == "RATE_LIMIT_EXCEEDED"
    assert code(cash=D(1000)) is None
    assert code(cash=D("999.99")) == "INSUFFICIENT_FUNDS"
    assert code(opens=D("0.00000001")) is None
    assert code(opens=D("0.000000009")) == "QUANTITY_BELOW_MINIMUM"


def test_zero_is_no_limit() -> None:
    entry = replace(
        ENTRY, open_positions=10_000, day_loss=D(10**9), orders_last_minute=10**6, orders_today=10**6
    )
    assert first_denial(replace(entry, since_last_order=0), LIMITS, ACTIVE) is None


def test_a_short_needs_no_cash_and_counts_by_its_size() -> None:
    short = replace(ENTRY, side=Side.SELL, cash=D(0))
    allowed = replace(LIMITS, allow_short=True)
    assert first_denial(short, allowed, ACTIVE) is None
    assert code(short, allowed, exposure=D(-45)) == "POSITION_EXCEEDS_CAPITAL_FRACTION"


def test_the_ceiling_is_the_smaller_of_capital_and_equity_by_the_divisor_in_whole_cents() -> None:
    assert ceiling(LIMITS, D(100_000)) == D(5000)
    assert ceiling(replace(LIMITS, capital=D(2000)), D(100_000)) == D(100)
    assert ceiling(replace(LIMITS, capital=D(2000)), D(1000)) == D(50)
    assert ceiling(replace(LIMITS, position_divisor=3), D(100)) == D("33.33")
    assert ceiling(LIMITS, D(-5)) == 0


def test_an_account_worth_nothing_opens_nothing() -> None:
    assert code(equity=D(0)) == "POSITION_EXCEEDS_CAPITAL_FRACTION"
    assert code(equity=D(-100)) == "POSITION_EXCEEDS_CAPITAL_FRACTION"


def test_h32_an_age_by_a_clock_that_was_set_back_is_unknown_not_fresh() -> None:
    assert stale(Age(60 * SECOND, 60 * SECOND)) is None
    assert stale(Age(-5 * SECOND, 60 * SECOND)) is None
    for age in (Age(-6 * SECOND, 60 * SECOND), Age(0, 60 * SECOND, clock_behind=1)):
        denied = stale(age)
        assert denied is not None
        assert denied.text.startswith("STALE age=unknown clock_behind=")


def test_a_stale_denial_says_what_the_order_waited_for() -> None:
    denied = stale(Age(61 * SECOND, 60 * SECOND, waited_for="O12"))
    assert denied is not None
    assert denied.text == "STALE age=61.0s limit=60s waited_for=O12"


def test_each_denial_has_its_numbers_as_key_and_value() -> None:
    numbers: dict[str, Any] = {"opens": D(1000)}
    denied = first_denial(replace(ENTRY, **numbers), LIMITS, ACTIVE)
    assert denied is not None
    text = "POSITION_EXCEEDS_CAPITAL_FRACTION projected=100000 ceiling=5000 divisor=20"
    assert denied.text == text


AMOUNTS = st.decimals("0.01", "100000", places=2)


@given(
    side=st.sampled_from(Side),
    opens=AMOUNTS,
    exposure=st.decimals("-1000", "1000", places=2),
    price=AMOUNTS,
    equity=AMOUNTS,
    cash=AMOUNTS,
    capital=st.just(D(0)) | AMOUNTS,
    divisor=st.integers(1, 50),
)
def test_no_entry_passes_that_would_exceed_the_ceiling_or_the_cash(
    side: Side,
    opens: Decimal,
    exposure: Decimal,
    price: Decimal,
    equity: Decimal,
    cash: Decimal,
    capital: Decimal,
    divisor: int,
) -> None:
    limits = replace(LIMITS, allow_short=True, capital=capital, position_divisor=divisor)
    entry = replace(ENTRY, side=side, opens=opens, exposure=exposure, price=price, equity=equity, cash=cash)
    if first_denial(entry, limits, ACTIVE) is None:
        worth = min(capital or equity, equity)
        assert abs(exposure + side.sign * opens) * price * divisor <= worth
        assert opens * price * divisor <= worth
        assert side is Side.SELL or opens * price <= cash
