"""Times, durations, foreign text and addresses as a person reads them."""

from __future__ import annotations

import json
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gui import formats

CET = timezone(timedelta(hours=1))
MOMENT = "2026-03-02T23:30:04.123456Z"


def test_a_time_is_local_with_its_offset_and_utc_beside_it() -> None:
    assert formats.local_time(MOMENT, CET) == "2026-03-03 00:30:04"
    assert formats.offset(MOMENT, CET) == "UTC+01:00"
    assert formats.local_milliseconds(MOMENT, CET) == "00:30:04.123"
    assert formats.both_times(MOMENT, CET) == f"2026-03-03 00:30:04 (UTC+01:00), {MOMENT}"
    assert formats.local_time(None) == ""


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0.0 ms"),
        (840, "0.8 ms"),
        (99_940, "99.9 ms"),
        (212_000, "212 ms"),
        (4_034_000, "4.03 s"),
        (123_000_000, "2 min 03 s"),
        (11_100_000_000, "3 h 05 min"),
        (352_800_000_000, "4 d 02 h"),
        (-3_400, "-3.4 ms"),
    ],
)
def test_a_duration_has_the_unit_that_fits(microseconds: int, text: str) -> None:
    assert formats.duration(microseconds) == text


def test_microseconds_between_two_moments() -> None:
    assert formats.microseconds_between("2026-03-02T00:00:00.000001Z", "2026-03-03T00:00:00.000003Z") == (
        86_400_000_002
    )


def test_characters_that_hide_or_reorder_text_are_spelled_out() -> None:
    assert formats.visible("AAPL\u202e10\u200b\x00") == "AAPL\\u202e10\\u200b\\u0000"
    assert formats.visible("two\nlines\tand Zürich 東京") == "two\nlines\tand Zürich 東京"
    assert formats.one_line("two\nlines") == "two\\nlines"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            "http://127.0.0.1:8787/hook/tradingview/k3Jt0v9x",
            "http://127.0.0.1:8787/hook/tradingview/••••••••",
        ),
        ("https://x.example/hook/a/t0ken/", "https://x.example/hook/a/••••••••/"),
        ("http://127.0.0.1:8787/hook/with-body-secret", "http://127.0.0.1:8787/hook/with-body-secret"),
    ],
)
def test_the_token_is_blanked_in_an_address(address: str, shown: str) -> None:
    assert formats.without_token(address) == shown


def test_json_is_laid_out_with_every_digit_and_repeated_name_kept() -> None:
    body = '{"qty":1.50,"big":12345678901234567890.000,"qty":2,"e":{},"l":[],"n":[1,{"a":"x, {y}: \\"z"}]}'
    assert formats.pretty_json(body) == (
        "{\n"
        '  "qty": 1.50,\n'
        '  "big": 12345678901234567890.000,\n'
        '  "qty": 2,\n'
        '  "e": {},\n'
        '  "l": [],\n'
        '  "n": [\n'
        "    1,\n"
        "    {\n"
        '      "a": "x, {y}: \\"z"\n'
        "    }\n"
        "  ]\n"
        "}"
    )


@pytest.mark.parametrize("body", ["BUY AAPL now!!", '{"a": 1', "", "[" * 5_000])
def test_what_is_no_json_stays_as_it_is(body: str) -> None:
    assert formats.pretty_json(body) == body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_laying_out_json_changes_only_spaces(value: object) -> None:
    body = json.dumps(value)
    assert json.loads(formats.pretty_json(body)) == value
