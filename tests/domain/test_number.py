"""One value has one Decimal, however it is spelled, and what is no number keeps its own word."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.number import MAX_CHARACTERS, MAX_EXPONENT, NumberError, plain, read_number

SPELLED = st.from_regex(
    r"[+-]?([0-9]{1,20}(\.[0-9]{0,15})?|\.[0-9]{1,15})([eE][+-]?[0-9]{1,2})?", fullmatch=True
)


@given(SPELLED.filter(lambda text: len(text) <= MAX_CHARACTERS))
def test_a_number_is_what_it_spells_without_an_exponent(text: str) -> None:
    if abs(int(text.lower().partition("e")[2] or 0)) > MAX_EXPONENT:
        with pytest.raises(NumberError, match="exponent"):
            read_number(text)
        return
    number = read_number(text)
    assert number == Decimal(text)
    assert number.as_tuple() == Decimal(format(Decimal(text), "f")).as_tuple()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nan", "non_finite_number"),
        ("-Infinity", "non_finite_number"),
        ("NA", "non_finite_number"),
        ("1" * (MAX_CHARACTERS + 1), "number_too_long"),
        ("nan" * MAX_CHARACTERS, "number_too_long"),
        ("1e19", "number_out_of_range"),
        ("1e-19", "number_out_of_range"),
        ("1,5", "invalid_number"),
        ("", "invalid_number"),
        ("١", "invalid_number"),
        ("1_000", "invalid_number"),
    ],
)
def test_what_is_no_number_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(NumberError) as caught:
        read_number(text)
    assert caught.value.reason == reason


@pytest.mark.parametrize("text", ["1E+999999999", "1E-999999999", "-1E+401", "0E-999999999"])
def test_no_number_is_written_that_would_take_gigabytes(text: str) -> None:
    with pytest.raises(NumberError, match="digits"):
        plain(Decimal(text))


def test_what_is_written_plain_goes_far() -> None:
    assert plain(Decimal("1E+100")) == "1" + "0" * 100
    assert plain(Decimal("-1E-100")) == "-0." + "0" * 99 + "1"
