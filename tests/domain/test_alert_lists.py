"""The three lists of field names (HOLES H9): used, harmless, meaning-changing; and names on none."""

import json
from decimal import Decimal

import pytest

from app.domain.alert import AlertRules
from app.domain.signal import Signal
from app.domain.vocabulary import (
    HARMLESS,
    MEANING_CHANGING,
    NAMES,
    NEUTRAL,
    UNSUPPORTED,
    USED,
    fold,
    is_secret_name,
)
from tests.domain.alert_kit import LIVE, PAPER, read, refusal, signal, told

PLACES = AlertRules(places_brackets=True)

TRADERSPOST = """
    quantityType optionType intrinsicValue expiration strikeCount strikesAway strikePrice trailPrice
    trailPercent trailAmount extendedHours cancelAfter delay cancel expiresAt takeProfit stopLoss
"""
THREE_COMMAS = "max_lag trigger_price strategy_info order bot_uuid bot_id message_type delay_seconds position"
PINECONNECTOR = """
    risk sl tp sl_pips tp_pct vol_lots vol_dollar betrigger beoffset trailtrig traildist trailstep
    atrtimeframe atrperiod atrmultiplier atrshift atrtrigger spread accfilter closelong closeshort
    cancellong cancelshort newsltplong newsltpshort eaoff eaon
"""
CROSSTRADE = """
    command account flatten_first require_market_position max_positions take_profit stop_loss rate_limit
    trading_window bypass_trade_windows delay timeout oco_id atm_strategy kill_switch out_of_sync strict_sync
    sync_strategy
"""


OTHERS = f"{TRADERSPOST} {THREE_COMMAS} {PINECONNECTOR} {CROSSTRADE}"


def values_of_every_kind() -> list[object]:
    return ["something", Decimal(5), {"a": Decimal(5)}, ["a"]]


@pytest.mark.parametrize("name", sorted(set(OTHERS.split())))
def test_h9_no_order_ignores_a_field_of_another_product_that_changes_it(name: str) -> None:
    values = [Decimal(5)] if fold(name) in ("takeprofit", "stoploss") else values_of_every_kind()
    for value in values:
        error = refusal({name: value})
        assert told(error) == ("unsupported_field", (name,))
        assert len(error.detail) > 20


@pytest.mark.parametrize("name", sorted({n for names in UNSUPPORTED.values() for n in names.split()}))
def test_h9_every_name_of_the_third_list_is_refused_with_a_remedy_on_paper_too(name: str) -> None:
    for value in values_of_every_kind():
        error = refusal({name: value})
        assert told(error) == ("unsupported_field", (name,))
        assert MEANING_CHANGING[fold(name)] in error.detail


@pytest.mark.parametrize(
    "fields",
    [
        {"quantity": Decimal(10), "quantityType": "percent_of_equity"},
        {"amount": Decimal(5000), "currency_type": "quote", "quantity": None},
        {"leverage": Decimal(5)},
        {"leverage": "5"},
        {"trailing": True},
        {"expiresAt": "2026-03-02T15:30:00Z"},
        {"strategy": {"leverage": Decimal(5)}},
    ],
)
def test_h9_the_examples_of_the_hole(fields: dict[str, object]) -> None:
    assert refusal(fields).reason == "unsupported_field"


def test_all_unsupported_fields_are_named_each_with_its_remedy() -> None:
    error = refusal(leverage="5", qtyType="percent", sl="3")
    assert set(error.fields) == {"leverage", "qtyType", "sl"}
    assert "leverage: remove it" in error.detail
    assert "qtyType: send the size in units" in error.detail


@pytest.mark.parametrize("value", [False, None, "", "false", "no", "none", "0", Decimal(0), "0.0", {}, []])
def test_a_neutral_value_is_harmless(value: object) -> None:
    for name in ("trailing", "leverage", "extendedHours", "delay", "postOnly", "orders", "takeProfit", "sl"):
        assert read({name: value}, LIVE).signal == signal()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("leverage", Decimal(1)), ("leverage", "1"), ("leverage", "1x"), ("leverage", Decimal("1.00")),
        ("quantityType", "fixed_quantity"), ("qty_type", "Shares"), ("currency_type", "base"),
        ("unit", "contracts"), ("positionSide", "BOTH"), ("multiplier", Decimal(1)),
        ("assetClass", "us_equity"),
    ],
)  # fmt: skip
def test_words_that_ask_for_what_is_done_anyway_are_harmless(name: str, value: object) -> None:
    assert read({name: value}, LIVE).signal == signal()


@pytest.mark.parametrize("name", ["takeProfit", "stopLoss", "take_profit", "stop_loss", "TakeProfit"])
@pytest.mark.parametrize("value", [Decimal(546), "546", {"limitPrice": Decimal(546)}])
def test_brackets_are_refused_where_the_account_cannot_place_them(name: str, value: object) -> None:
    error = refusal({name: value})
    assert told(error) == ("unsupported_field", (name,))
    assert signal({name: value}, PLACES) != signal()


def test_brackets_are_kept_by_value() -> None:
    def brackets(**fields: object) -> tuple[str | None, str | None]:
        got = signal(fields, PLACES)
        return got.take_profit, got.stop_loss

    assert brackets(take_profit=Decimal("546.0")) == brackets(takeProfit="546") == ('"546"', None)
    nested = brackets(stopLoss={"type": "stop", "stopPrice": Decimal("537.50")})
    assert nested == brackets(stop_loss={"stop_price": "537.5", "type": "stop"})
    assert json.loads(nested[1] or "") == {"stopprice": "537.5", "type": "stop"}
    assert refusal({"stop_loss": "-1"}, PLACES).reason == "non_positive_price"
    assert refusal({"stop_loss": "soon"}, PLACES).reason == "invalid_number"


@pytest.mark.parametrize("fields", [{"action": "exit"}, {"market_position": "flat"}, {"reduceOnly": True}])
def test_no_exit_is_lost_for_a_bracket(fields: dict[str, object]) -> None:
    alert = read({**fields, "stopLoss": Decimal(5)}, LIVE)
    assert alert.signal.stop_loss is None
    assert any(warning.startswith("brackets_ignored: stopLoss") for warning in alert.warnings)


@pytest.mark.parametrize(
    "name",
    ["bar", "open", "high", "low", "volume", "plot_0", "plot_19", "comment", "name", "alert_name", "extras",
     "meta", "metadata", "message", "chart_url", "syminfo.currency", "token", "password", "api_key",
     "version", "signalPrice"],
)  # fmt: skip
def test_harmless_fields_are_ignored_without_a_word_even_on_live(name: str) -> None:
    alert = read({name: {"a": "b"} if name in ("bar", "extras", "meta") else "b"}, LIVE)
    assert {w.partition(":")[0] for w in alert.warnings} == {"age_unknown"}
    assert replace_comment(alert.signal) == signal()


def replace_comment(got: Signal) -> Signal:
    return signal() if got == signal(comment=got.comment) else got


@pytest.mark.parametrize(
    "fields", [{"rsi": Decimal(28)}, {"whatever": True}, {"strategy": {"rsi": Decimal(28)}}]
)
def test_an_unknown_field_is_a_warning_on_paper_and_refused_on_live(fields: dict[str, object]) -> None:
    (name,) = fields
    name = "strategy.rsi" if name == "strategy" else name
    alert = read(fields)
    assert alert.signal == signal()
    assert alert.warnings[0] == f"unknown_field: ignored, a live source would refuse it: {name}"
    assert told(refusal(fields, LIVE)) == ("unknown_field", (name,))


@pytest.mark.parametrize(
    "name",
    ["tokens", "token_amount", "tokenQty", "quote_token_qty", "token_size", "num_tokens", "token_count",
     "base_token"],
)  # fmt: skip
def test_h9_a_token_that_may_be_a_size_is_no_harmless_secret(name: str) -> None:
    alert = read({name: Decimal(5)})
    assert alert.warnings[0] == f"unknown_field: ignored, a live source would refuse it: {name}"
    assert told(refusal({name: Decimal(5)}, LIVE)) == ("unknown_field", (name,))
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["token", "auth_token", "accessToken", "token_secret", "account_token", "secret_key", "api_key"]
)
def test_a_real_secret_stays_harmless(name: str) -> None:
    assert read({name: "x"}, LIVE).signal == signal()


def test_all_unknown_fields_are_named() -> None:
    assert refusal({"a": "1", "b": "2"}, LIVE).fields == ("a", "b")


# --------------------------------------------------------------------------------------------- placeholders


def test_left_over_placeholders_are_all_named_at_any_depth() -> None:
    error = refusal(
        {
            "symbol": "{{ticker}}",
            "quantity": "x {{strategy.order.contracts}} y",
            "price": "1",
            "comment": "{{ a\nb }}",
            "extras": {"a": [{"b": "{{plot_0}}"}, "c"]},
            "strategy": {"order_action": "{{strategy.order.action}}"},
        }
    )
    named = ("symbol", "quantity", "comment", "extras.a.b", "strategy.order_action")
    assert told(error) == ("unsubstituted_placeholder", named)


def test_single_or_unclosed_braces_are_no_placeholders() -> None:
    for text in ("{a}", "{{a", "a}}", "}}a{{", "{ {a} }"):
        assert signal(comment=text).comment == text


def test_a_placeholder_is_told_before_anything_else_is() -> None:
    assert (
        refusal({"action": "{{x}}", "leverage": "5", "rsi": "1"}, LIVE).reason == "unsubstituted_placeholder"
    )


# --------------------------------------------------------------------------------------------------- tables


def test_no_name_is_on_two_lists() -> None:
    used, changing = set(NAMES), set(MEANING_CHANGING)
    assert not used & changing
    assert not used & HARMLESS
    assert not HARMLESS & changing
    assert set(NEUTRAL) <= changing
    assert not [name for name in changing if is_secret_name(name)]


def test_no_name_belongs_to_two_fields() -> None:
    names = [fold(name) for names in USED.values() for name in names.split()]
    assert len(names) == len(set(names))
    third = [fold(name) for names in UNSUPPORTED.values() for name in names.split()]
    assert len(third) == len(set(third))


def test_every_field_of_a_signal_can_be_sent() -> None:
    assert set(Signal.__struct_fields__) <= set(USED)
    assert PAPER != LIVE
