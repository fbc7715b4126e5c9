"""Alert bodies as people really send them, read as far as their meaning goes (tests/cases/payloads.jsonl).

What the door and the worker make of them (stale, duplicate, conflict, secret, orders) is tested there.
"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.domain.alert import AlertRules, body_secret, read_alert
from app.domain.freshness import is_stale, signal_age
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, intent_fingerprint
from app.domain.signal import Action, Direction, InvalidSignal, KeySource, Signal
from app.domain.times import read_time
from app.listener.body import read_body

LINES = (Path(__file__).parent.parent / "cases" / "payloads.jsonl").read_text("utf-8").splitlines()
CASES = {case["name"]: case for case in map(json.loads, LINES)}
REFUSED_HERE = {
    "unsubstituted_placeholders", "plot_placeholder_breaks_json", "nan_unquoted", "nan_string",
    "trailing_comma", "raw_newline_in_string", "decimal_comma", "duplicate_json_keys", "empty_body",
    "qty_zero",
}  # fmt: skip
RULES = AlertRules()


def read(name: str, rules: AlertRules = RULES) -> Signal:
    return read_alert(read_body(CASES[name]["body"].encode()), rules).signal


def intent_word(signal: Signal) -> str | None:
    if signal.action is Action.CANCEL:
        return "cancel_open_orders"
    if signal.target is not None and signal.previous is not None and signal.target * signal.previous < 0:
        return "reverse"
    return None


def of_order(signal: Signal) -> dict[str, object]:
    """The signal in the words of the cases."""
    before = signal.prev_market_position
    after = signal.market_position
    return {
        "symbol": signal.symbol,
        "exchange_hint": signal.exchange,
        "side": signal.action.value,
        "qty": signal.quantity,
        "signal_qty": signal.quantity,
        "type": signal.type.value,
        "limit_price": signal.limit_price,
        "ref_price": signal.price,
        "signal_time": signal.bar_time if signal.fired_at is None else signal.fired_at,
        "tif": signal.tif,
        "position_after": None if after is None else f"{after} {signal.market_position_size}",
        "position_before": None if before is None else before.value,
        "target_position": signal.target,
        "intent": intent_word(signal),
    }


@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED_HERE))
def test_what_the_case_says_is_what_is_read(name: str) -> None:
    found = of_order(read(name))
    for word, expected in CASES[name]["expected"].get("order", {}).items():
        value: Any = found[word]
        if isinstance(value, Decimal):
            assert value == Decimal(expected), word
        elif word == "signal_time":
            assert value == read_time(expected)
        else:
            assert value == expected, word


@pytest.mark.parametrize("name", sorted(REFUSED_HERE))
def test_what_the_case_refuses_is_refused_with_its_reason(name: str) -> None:
    expected = CASES[name]["expected"]
    assert expected["http"] == 400
    with pytest.raises(InvalidSignal) as refused:
        read(name)
    assert refused.value.reason == expected["reason"]
    assert list(refused.value.fields) == expected.get("fields", list(refused.value.fields))
    assert expected.get("position", "") in refused.value.detail
    assert expected.get("hint", "") in refused.value.detail


def test_the_placeholder_that_breaks_the_json_is_named() -> None:
    with pytest.raises(InvalidSignal, match="TP2"):
        read("plot_placeholder_breaks_json")


def test_the_line_break_is_offered_in_its_escaped_form() -> None:
    with pytest.raises(InvalidSignal) as refused:
        read("raw_newline_in_string")
    assert "write it as \\n" in refused.value.detail


def test_the_name_of_the_pine_order_is_not_the_key() -> None:
    alert = read_alert(read_body(CASES["nested_strategy_object"]["body"].encode()), RULES)
    key = choose_key("s", alert, HeaderKeys(), KeyPolicy())
    assert key.source is KeySource.DERIVED
    assert alert.signal.order_id == "Long"


def test_an_id_is_the_key() -> None:
    alert = read_alert(read_body(CASES["flat_json_numbers_explicit_id"]["body"].encode()), RULES)
    assert choose_key("s", alert, HeaderKeys(), KeyPolicy()).key == "emaX-AAPL-1772465400-1"


def test_a_reverse_is_a_target_on_the_other_side() -> None:
    signal = read("reverse_single_order")
    assert (signal.previous, signal.target) == (Decimal("0.2"), Decimal("-0.2"))
    assert signal.market_position is Direction.SHORT


def test_the_same_order_written_otherwise_asks_for_the_same_and_another_one_does_not() -> None:
    first, reordered, other = (
        intent_fingerprint(read(name))
        for name in ("dup_first", "dup_second_reordered", "dup_third_same_id_other_body")
    )
    assert first == reordered
    assert first != other


def test_hours_old_is_stale() -> None:
    age = signal_age(read("stale_signal"), read_time(CASES["stale_signal"]["clock"]))
    assert is_stale(age, is_exit=False, max_age=90_000_000, max_exit_age=900_000_000)


def test_secrets_are_found_for_the_door() -> None:
    assert body_secret(read_body(CASES["wrong_secret"]["body"].encode())) == "wrong-000"
    assert body_secret(read_body(CASES["no_secret"]["body"].encode())) is None


def test_a_test_flag_is_for_paper_only() -> None:
    assert read("paper_flag").paper_only
    with pytest.raises(InvalidSignal) as refused:
        read("paper_flag", AlertRules(reaches_live=True))
    assert refused.value.fields == ("test",)
