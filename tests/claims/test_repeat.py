"""What a second delivery of a known key is, sentence by sentence of CONTRACT 3, 'Intent'. Pure."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from app.domain import key as key_rules
from app.domain.key import intent_fingerprint
from app.domain.repeat import (
    SECOND_SIGNAL_SUSPECTED_AFTER,
    WINDOW,
    FirstSighting,
    judge_repeat,
    window_is_open,
)
from app.domain.signal import Action, Direction, OrderType, Signal, TimeInForce
from app.domain.times import MINUTE, SECOND

BAR = 1_772_465_400 * SECOND
BASE = Signal(symbol="AAPL", action=Action.BUY, quantity=Decimal(1))


def first(signal: Signal = BASE, *, header_key: bool = False) -> FirstSighting:
    return FirstSighting(signal, key_rules.RULE_VERSION, intent_fingerprint(signal), header_key)


def verdict(was: Signal, now: Signal, apart: int = 0, *, headers: tuple[bool, bool] = (False, False)) -> Any:
    found = judge_repeat(first(was, header_key=headers[0]), now, apart=apart, header_key=headers[1])
    return None if found is None else (found.reason, found.fields)


def changed(**changes: Any) -> Signal:
    return msgspec.structs.replace(BASE, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"quantity": Decimal("1.00")},
        {"price": Decimal("99.5")},
        {"fired_at": BAR},
        {"comment": "another"},
        {"order_id": "Long"},
    ],
)
def test_what_a_payload_only_reports_makes_no_difference(changes: dict[str, Any]) -> None:
    assert verdict(BASE, changed(**changes)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"symbol": "MSFT"},
        {"exchange": "NASDAQ"},
        {"strategy": "ema"},
        {"action": Action.SELL},
        {"quantity": Decimal(2)},
        {"type": OrderType.LIMIT},
        {"limit_price": Decimal(99)},
        {"stop_price": Decimal(99)},
        {"tif": TimeInForce.DAY},
        {"take_profit": "110"},
        {"stop_loss": "90"},
        {"market_position": Direction.LONG},
        {"market_position_size": Decimal(1)},
        {"prev_market_position": Direction.FLAT},
        {"prev_market_position_size": Decimal(0)},
        {"sentiment": Direction.LONG},
        {"reduce_only": True},
    ],
)
def test_another_order_under_the_same_key_is_a_conflict_that_names_the_field(changes: dict[str, Any]) -> None:
    assert verdict(BASE, changed(**changes)) == ("intent_differs", tuple(changes))
    assert verdict(changed(**changes), BASE) == ("intent_differs", tuple(changes))
    assert verdict(BASE, changed(**changes), headers=(True, True)) == ("intent_differs", tuple(changes))


@pytest.mark.parametrize("headers", [(False, False), (True, True)])
@pytest.mark.parametrize(("was", "now"), [(BAR, BAR + 15 * MINUTE), (BAR, None), (None, BAR)])
def test_h11_another_bar_is_a_key_reused_header_keys_too(
    was: int | None, now: int | None, headers: tuple[bool, bool]
) -> None:
    found = verdict(changed(bar_time=was), changed(bar_time=now), headers=headers)
    assert found == ("key_reused", ("bar_time",))


def test_h11_the_same_moment_on_another_interval_is_another_bar() -> None:
    bar = changed(bar_time=BAR, interval="15")
    assert verdict(bar, bar) is None
    assert verdict(bar, changed(bar_time=BAR, interval="60")) == ("key_reused", ("interval",))
    assert verdict(changed(interval="15"), changed(interval="60")) is None


@pytest.mark.parametrize(
    ("apart", "headers", "is_reused"),
    [
        (10 * MINUTE, (False, False), False),
        (10 * MINUTE + 1, (False, False), True),
        (-10 * MINUTE - 1, (False, False), True),
        (10 * MINUTE + 1, (True, True), False),
        (400 * 24 * 60 * MINUTE, (True, True), False),
        (10 * MINUTE + 1, (True, False), True),
        (10 * MINUTE + 1, (False, True), True),
    ],
)
def test_h11_without_a_bar_time_ten_minutes_are_the_end_of_a_body_key(
    apart: int, headers: tuple[bool, bool], is_reused: bool
) -> None:
    expected = ("key_reused", ("received_at",)) if is_reused else None
    assert verdict(BASE, changed(fired_at=BAR), apart, headers=headers) == expected


def test_h11_with_a_bar_time_a_duplicate_may_come_at_any_time() -> None:
    bar = changed(bar_time=BAR, interval="15")
    assert verdict(bar, bar, 400 * 24 * 60 * MINUTE) is None


def test_h11_the_answer_says_that_the_key_names_an_order_and_both_bars() -> None:
    found = judge_repeat(
        first(changed(bar_time=BAR)), changed(bar_time=BAR + 15 * MINUTE), apart=0, header_key=False
    )
    assert found is not None
    assert "names an order, not a signal" in found.detail
    assert "2026-03-02T15:30:00Z" in found.detail
    assert "2026-03-02T15:45:00Z" in found.detail


def test_h41_a_repeat_is_read_by_the_rule_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = first()
    newer = {**key_rules._INTENT, 2: lambda signal: {"symbol": signal.symbol, "comment": signal.comment}}
    monkeypatch.setattr(key_rules, "_INTENT", newer)
    assert judge_repeat(stored, changed(comment="another"), apart=0, header_key=False) is None
    again = judge_repeat(stored, changed(quantity=Decimal(2)), apart=0, header_key=False)
    assert again is not None
    assert again.fields == ("quantity",)


@pytest.mark.parametrize(
    ("seconds", "is_open"),
    [(0, True), (45, True), (45.000001, False), (3600, False), (-1, True), (-45, False), (-3600, False)],
)
def test_h14_a_window_is_45_seconds_long(seconds: float, is_open: bool) -> None:
    assert window_is_open(round(seconds * SECOND)) is is_open
    assert SECOND_SIGNAL_SUSPECTED_AFTER < WINDOW
