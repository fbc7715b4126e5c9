"""The contract's paragraph 'Intent', and every digest that a ledger stores."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.alert import AlertRules
from app.domain.key import (
    RULE_VERSION,
    admitted_key,
    claim_digest,
    derived_key,
    differing_fields,
    intent_fingerprint,
    intent_of,
    raw_fingerprint,
    window_key,
)
from app.domain.signal import Action, Direction, Signal
from tests.domain.alert_kit import read, signal

TIMED: dict[str, object] = {"time": "2026-03-02T15:30:00Z", "interval": "15"}
PLACES = AlertRules(places_brackets=True)
PLAIN = signal()


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"symbol": "MSFT"}, ("symbol",)),
        ({"exchange": "NASDAQ"}, ("exchange",)),
        ({"symbol": "NASDAQ:AAPL"}, ("exchange",)),
        ({"strategy": "EMA"}, ("strategy",)),
        ({"action": "sell"}, ("action",)),
        ({"quantity": "11"}, ("quantity",)),
        ({"limit_price": "5"}, ("type", "limit_price")),
        ({"type": "stop", "stop_price": "5"}, ("type", "stop_price")),
        ({"tif": "day"}, ("tif",)),
        ({"takeProfit": "5"}, ("take_profit",)),
        ({"stopLoss": {"stopPrice": "5"}}, ("stop_loss",)),
        ({"market_position": "long"}, ("market_position",)),
        (
            {"market_position": "long", "market_position_size": "5"},
            ("market_position", "market_position_size"),
        ),
        ({"prev_market_position": "flat"}, ("prev_market_position",)),
        ({"prev_market_position_size": "0"}, ("prev_market_position_size",)),
        ({"sentiment": "long"}, ("sentiment",)),
        ({"reduceOnly": True}, ("reduce_only",)),
        ({"test": True}, ("paper_only",)),
    ],
)
def test_what_is_asked_for_is_the_intent(fields: dict[str, object], differs: tuple[str, ...]) -> None:
    other = signal(fields, PLACES)
    assert differing_fields(PLAIN, other) == differs
    assert intent_fingerprint(PLAIN) != intent_fingerprint(other)


@pytest.mark.parametrize(
    "fields",
    [
        {"secret": "x"}, {"passphrase": "y"}, {"price": "189"}, {"close": "1"}, {"comment": "x"},
        {"order_id": "L"},
        {"timenow": "2026-03-02T15:30:07Z"}, TIMED, {"interval": "1D"}, {"id": "I-1"}, {"extras": {"a": "b"}},
        {"quantity": "10.00"}, {"quantity": "1e1"}, {"side": "long"}, {"ticker": "aapl"}, {"type": "MARKET"},
        {"leverage": "1"},
    ],
)  # fmt: skip
def test_what_is_only_reported_is_not(fields: dict[str, object]) -> None:
    assert differing_fields(PLAIN, signal(fields)) == ()
    assert intent_fingerprint(PLAIN) == intent_fingerprint(signal(fields))


def test_brackets_differ_by_value() -> None:
    def stop(value: object) -> bytes:
        return intent_fingerprint(signal({"stopLoss": value}, PLACES))

    assert stop(Decimal("5.0")) == stop("5")
    assert stop({"stopPrice": "5.0", "type": "stop"}) == stop({"type": "stop", "stop_price": Decimal(5)})
    assert stop("5") != stop("6")


_numbers = st.decimals(min_value="0.000001", max_value=10**12, places=6)


@settings(deadline=None)
@given(_numbers, st.integers(0, 5))
def test_numbers_are_equal_by_value(number: Decimal, zeros: int) -> None:
    text = format(number, "f") + "0" * zeros
    spellings: list[object] = [number, text, f" {text} ", f"{number:E}", number.normalize(), f"+{text}"]
    signals = [
        signal(quantity=q, limit_price=q, market_position="long", market_position_size=q) for q in spellings
    ]
    assert len({intent_fingerprint(s) for s in signals}) == 1


@settings(deadline=None)
@given(_numbers, _numbers)
def test_numbers_that_differ_differ(one: Decimal, other: Decimal) -> None:
    a, b = signal(quantity=one), signal(quantity=other)
    assert (intent_fingerprint(a) == intent_fingerprint(b)) == (one == other)


def test_no_digit_is_rounded_away() -> None:
    one, other = "1234567890123456789012345678901234567890", "1234567890123456789012345678901234567891"
    assert intent_fingerprint(signal(quantity=one)) != intent_fingerprint(signal(quantity=other))


def test_the_fingerprint_is_of_what_intent_of_shows() -> None:
    assert intent_of(PLAIN)["quantity"] == "10"
    assert intent_of(PLAIN) == intent_of(PLAIN, RULE_VERSION)
    assert set(Signal.__struct_fields__) - set(intent_of(PLAIN)) == {
        "interval", "bar_time", "fired_at", "price", "order_id", "comment",
    }  # fmt: skip


def test_h41_a_rule_that_never_was_is_an_error() -> None:
    with pytest.raises(KeyError):
        intent_fingerprint(PLAIN, version=0)


def test_the_raw_fingerprint_is_of_the_bytes() -> None:
    assert raw_fingerprint(b"") != raw_fingerprint(b" ")
    assert len(raw_fingerprint(b"")) == 32


def test_h12_claims_differ_by_source_key_and_epoch() -> None:
    claims = [claim_digest("s1", "k", None), claim_digest("s2", "k", None), claim_digest("s1", "k2", None)]
    claims += [claim_digest("s1", "k", 0), claim_digest("s1", "k", 1), claim_digest("s1k", "", None)]
    assert len(set(claims)) == len(claims)
    assert {len(claim) for claim in claims} == {32}


FIXED = Signal(
    symbol="AAPL",
    exchange="NASDAQ",
    action=Action.SELL,
    strategy="EMA",
    interval="15",
    bar_time=1_772_465_400_000_000,
    quantity=Decimal("1.50"),
    order_id="L",
    market_position=Direction.LONG,
    market_position_size=Decimal(2),
    prev_market_position=Direction.LONG,
    prev_market_position_size=Decimal("3.5"),
)
V1 = {
    "claim": "f43a0340493dcad49daaf1e920548732129f64fa561db99b5a2be551589653d9",
    "window claim": "d41c90aa3be36815267b057845fd6d4e06fa10800d953022aabeed6cb206e4ae",
    "derived": "d1:90e0805778cc9d6748da47497e116310e480fe695bf6fc2c5c59cb39cb9d3972",
    "window": "w1:1c7bd074c4549800a14e65634fc0a26830ca8e2d760c0655fda195adb4cc2745",
    "admitted": "a1:dc01444ecd9f2433c98a29a9562979abff90d55593da9bd57cbe87bd69ef9910",
    "intent": "ecd123c95ce6b23a46ee63d7bd7f4e14a8baabd19724976b4f3361c4d2964f6d",
}


def test_h41_what_version_1_stores_does_not_change() -> None:
    """If one of these fails, ledgers in the field no longer recognise their own keys."""
    made = {
        "claim": claim_digest("s1", "K-1", None).hex(),
        "window claim": claim_digest("s1", "K-1", 7).hex(),
        "derived": derived_key("s1", FIXED, "Long", version=1),
        "window": window_key("s1", FIXED, "Long", version=1),
        "admitted": admitted_key("K-1", FIXED, 0, version=1),
        "intent": intent_fingerprint(FIXED, version=1).hex(),
    }
    assert made == V1


def test_h16_admitted_keys_are_one_a_bar_or_one_in_ten_minutes() -> None:
    timed, untimed = read({**TIMED, "action": "exit"}).signal, signal(action="exit")
    minutes = 60_000_000
    assert admitted_key("k", timed, 0) == admitted_key("k", timed, 90 * minutes)
    assert admitted_key("k", untimed, 1) == admitted_key("k", untimed, 9 * minutes)
    assert admitted_key("k", untimed, 1) != admitted_key("k", untimed, 10 * minutes)
    next_bar = read({**TIMED, "action": "exit", "time": "2026-03-02T15:45:00Z"}).signal
    assert len({admitted_key("k", s, 0) for s in (timed, next_bar, untimed, read(TIMED).signal)}) == 4
    assert admitted_key("k", timed, 0) != admitted_key("k2", timed, 0)
