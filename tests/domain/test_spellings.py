"""Numbers, times, intervals, symbols and canonical JSON: the smallest words of the domain."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.canonical import canonical_json, digest
from app.domain.number import NumberError, plain, read_number
from app.domain.symbols import is_symbol, split_delayed, split_symbol
from app.domain.times import (
    DAY,
    MINUTE,
    SECOND,
    TimeError,
    interval_length,
    is_daily_or_longer,
    read_interval,
    read_time,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ("1.00", "1"),
        ("100", "100"),
        ("1E+2", "100"),
        ("0.50", "0.5"),
        ("0", "0"),
        ("0.00", "0"),
        ("-0", "0"),
        ("-1.50", "-1.5"),
        ("1e-18", "0.000000000000000001"),
        ("1234567890123456789012345678901234567.10", "1234567890123456789012345678901234567.1"),
    ],
)
def test_one_plain_spelling(number: str, text: str) -> None:
    assert plain(Decimal(number)) == text


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15, places=8))
def test_plain_keeps_the_value_and_is_read_back(number: Decimal) -> None:
    assert Decimal(plain(number)) == number
    assert read_number(plain(number)) == number


@settings(deadline=None)
@given(st.text(max_size=45))
def test_any_text_is_a_finite_number_or_refused(text: str) -> None:
    try:
        assert read_number(text).is_finite()
    except NumberError as error:
        assert error.reason  # noqa: PT017 both outcomes are right


@pytest.mark.parametrize("text", [".5", "5.", "+5", "-5", "005", "5e0", "5E-3"])
def test_spellings_of_numbers(text: str) -> None:
    assert read_number(text) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["", " 5", "5 ", "0x5", "1e", "e5", "--5", "5.5.5", "½", "٥", "1_0", "$5", "5%"]
)
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(NumberError):
        read_number(text)


NOON = 1_772_452_800 * SECOND


@pytest.mark.parametrize(
    ("value", "microseconds"),
    [
        ("2026-03-02T12:00:00Z", NOON),
        ("2026-03-02t12:00:00z", NOON),
        ("2026-03-02 12:00:00Z", NOON),
        ("2026-03-02T13:00:00+01:00", NOON),
        ("2026-03-02T07:00:00-0500", NOON),
        ("2026-03-02T12:00:00.5Z", NOON + 500_000),
        ("2026-03-02T12:00:00.123456789Z", NOON + 123_456),
        ("1772452800", NOON),
        ("1772452800.25", NOON + 250_000),
        ("1772452800000", NOON),
        ("1772452800123", NOON + 123_000),
        (Decimal(1772452800), NOON),
        (Decimal("1772452800.000001"), NOON + 1),
        (Decimal("1.772452800123E+12"), NOON + 123_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_times(value: str | Decimal, microseconds: int) -> None:
    assert read_time(value) == microseconds


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2026-03-02T12:00:00", "naive_time"),
        ("2026-03-02 12:00:00", "naive_time"),
        ("2026-03-02", "naive_time"),
        ("2026-02-30T12:00:00Z", "invalid_time"),
        ("2026-03-02T25:00:00Z", "invalid_time"),
        ("2026-03-02T12:00Z", "invalid_time"),
        ("2026-03-02T12:00:00+99:00", "invalid_time"),
        ("0001-01-01T00:00:00+10:00", "invalid_time"),
        ("12:00", "invalid_time"),
        ("-1772452800", "invalid_time"),
        (Decimal(0), "invalid_time"),
        (Decimal(1772452800123456), "invalid_time"),
        ("", "invalid_time"),
    ],
)
def test_what_is_no_time(value: str | Decimal, reason: str) -> None:
    with pytest.raises(TimeError) as refused:
        read_time(value)
    assert refused.value.reason == reason


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        assert isinstance(read_time(text), int)
    except TimeError as error:
        assert error.reason  # noqa: PT017 both outcomes are right


@pytest.mark.parametrize(
    ("sent", "interval", "length"),
    [
        ("1", "1", MINUTE),
        ("15", "15", 15 * MINUTE),
        ("240", "240", 240 * MINUTE),
        ("D", "1D", DAY),
        ("1D", "1D", DAY),
        ("W", "1W", 7 * DAY),
        ("M", "1M", 31 * DAY),
        ("3M", "3M", 93 * DAY),
        ("30S", "30S", 30 * SECOND),
        ("S", "1S", SECOND),
        ("15m", "15", 15 * MINUTE),
        ("1m", "1", MINUTE),
        ("1h", "60", 60 * MINUTE),
        ("4H", "240", 240 * MINUTE),
        ("1d", "1D", DAY),
        ("1w", "1W", 7 * DAY),
        ("30s", "30S", 30 * SECOND),
        ("015", "15", 15 * MINUTE),
    ],
)
def test_intervals(sent: str, interval: str, length: int) -> None:
    assert read_interval(sent) == interval
    assert read_interval(interval) == interval
    assert interval_length(interval) == length
    assert is_daily_or_longer(interval) is (length >= DAY)


@pytest.mark.parametrize(
    "sent", ["", "0", "0D", "m", "h", "1y", "10R", "15 m", "15min", "-1", "1.5h", "100000", "１"]
)
def test_what_is_no_interval(sent: str) -> None:
    with pytest.raises(TimeError) as refused:
        read_interval(sent)
    assert refused.value.reason == "invalid_interval"


@pytest.mark.parametrize(
    ("sent", "split"),
    [
        ("NASDAQ:AAPL", ("NASDAQ", "AAPL")),
        ("aapl", (None, "AAPL")),
        ("BINANCE:BTCUSDT.P", ("BINANCE", "BTCUSDT.P")),
        ("BTC/USDT:USDT", (None, "BTC/USDT:USDT")),
        ("CME_MINI:ES1!", ("CME_MINI", "ES1!")),
        ("A:B:C", ("A", "B:C")),
    ],
)
def test_symbols_are_split_and_nothing_else(sent: str, split: tuple[str | None, str]) -> None:
    assert split_symbol(sent) == split


@pytest.mark.parametrize("text", ["AAPL", "ES1!", "BRK.B", "MNQ 06-26", "BTC/USDT:USDT", "600519", "ÖMV"])
def test_symbols(text: str) -> None:
    assert is_symbol(text)


@pytest.mark.parametrize("text", ["", "!", ":", "A:", ":A", "A\n", "A" * 65, '={"symbol":"A"}', "{ticker}"])
def test_what_is_no_symbol(text: str) -> None:
    assert not is_symbol(text)


def test_delayed_feeds() -> None:
    assert split_delayed("NASDAQ_DL") == split_delayed("NASDAQ_DLY") == ("NASDAQ", True)
    assert split_delayed("NASDAQ") == ("NASDAQ", False)
    assert split_delayed("DLY_X") == ("DLY_X", False)


def test_canonical_json_is_one_text_for_one_value() -> None:
    assert canonical_json({"b": 1, "a": ["é", None, True]}) == '{"a":["é",null,true],"b":1}'
    assert canonical_json(["a,b", "c"]) != canonical_json(["a", "b,c"])
    assert digest(["a"]) != digest("a")
    assert len(digest([])) == 32
