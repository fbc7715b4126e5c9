"""Bytes -> fields: what is accepted, what is refused, and what the refusal says."""

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.signal import InvalidSignal
from app.listener.body import read_body


def refusal(body: str | bytes) -> InvalidSignal:
    with pytest.raises(InvalidSignal) as refused:
        read_body(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body)
    return refused.value


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1}\0',
        b'{"a": 1}\n\0\0',
        b' \r\n\t{"a": 1} \r\n',
        '\u00a0{"a": 1}\u00a0'.encode(),
    ],
)
def test_bom_trailing_nul_and_surrounding_space_do_no_harm(raw: bytes) -> None:
    assert read_body(raw) == {"a": Decimal(1)}


def test_values_keep_their_kind_and_their_digits() -> None:
    fields = read_body(
        b'{"i": 10, "f": 189.250, "e": 2.5e6, "s": "x\\ny", "t": true, "n": null, "l": [1, {"x": 2}]}'
    )
    assert fields == {
        "i": Decimal(10),
        "f": Decimal("189.250"),
        "e": Decimal(2500000),
        "s": "x\ny",
        "t": True,
        "n": None,
        "l": [Decimal(1), {"x": Decimal(2)}],
    }
    assert str(fields["f"]) == "189.250"
    assert str(fields["e"]) == "2500000"


@pytest.mark.parametrize("raw", [b"", b" \n", b"\xef\xbb\xbf", b"\0"])
def test_nothing_is_an_empty_body(raw: bytes) -> None:
    assert refusal(raw).reason == "empty_body"


@pytest.mark.parametrize(
    "raw", [b'{"a": "\xe9"}', '{"a": 1}'.encode("utf-16"), '{"a": 1}'.encode("utf-16-le")]
)
def test_only_utf_8(raw: bytes) -> None:
    assert refusal(raw).reason == "not_utf8"


@pytest.mark.parametrize(
    "body", ["AAPL Crossing 190.00", "buy", '"buy"', "42", "true", "null", "7000,buy,EURUSD"]
)
def test_text_and_bare_values_are_no_order_message(body: str) -> None:
    assert refusal(body).reason == "not_an_order_message"


@pytest.mark.parametrize("body", ["[]", '[{"a": 1}]', "[1, 2]"])
def test_an_array_is_refused_for_now(body: str) -> None:
    assert refusal(body).reason == "batch_unsupported"


@pytest.mark.parametrize(
    ("body", "where", "hint"),
    [
        ('{"a": 1,}', "line 1 column 8", "remove the comma before the closing brace"),
        ('{"a": 1,\n\n}', "line 1 column 8", "remove the comma before the closing brace"),
        ('{"a": [1, ]}', "line 1 column 9", "remove the comma before the closing bracket"),
        ('{"a":\n "x\ny"}', "line 2 column 4", "write it as \\n"),
        ('{"a": "x\ty"}', "line 1 column 9", "write it as \\t"),
        ('{"a": {{close}}}', "line 1 column 8", "{{close}}"),
        ('{"a": "{{plot("TP2")}}"}', "line 1 column 16", '{{plot("TP2")}}'),
        ('{"a": nan}', "line 1 column 7", "NaN"),
        ('{"a": na}', "line 1 column 7", "NaN"),
        ('{"a": True}', "line 1 column 7", "small letters"),
        ('{"a": 0,25}', "line 1 column 9", "decimal comma"),
        ("{'a': 1}", "line 1 column 2", "straight double quotes"),
        ("{“a”: 1}", "line 1 column 2", "straight double quotes"),
        ('{"a": "x', "line 1 column 7", "no closing quote"),
        ('{"a": 1}{"b": 2}', "line 1 column 9", "after the end"),
        ('{"a": 1} x', "line 1 column 10", "after the end"),
        ('{"a" 1}', "line 1 column 6", "expecting ':'"),
        ('{"a": 01}', "line 1 column 8", "expecting ','"),
        ("{", "line 1 column 2", "expecting property name"),
    ],
)
def test_broken_json_is_told_where_and_how_to_mend_it(body: str, where: str, hint: str) -> None:
    error = refusal(body)
    assert error.reason == "invalid_json"
    assert error.detail.startswith(where + ":")
    assert hint in error.detail


def test_a_refusal_never_repeats_a_value() -> None:
    for body in (
        '{"secret": hunter2}',
        '{"secret": "hunter2',
        '{"secret": "hunter2" "a": 1}',
        '{"secret": "hunter2\n"}',
    ):
        assert "hunter2" not in str(refusal(body))


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_named(literal: str) -> None:
    error = refusal(f'{{"a": 1, "strategy": {{"x": [1, {literal}]}}}}')
    assert (error.reason, error.fields) == ("non_finite_number", ("strategy.x",))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("1" * 41, "number_too_long"),
        ("0." + "1" * 39, "number_too_long"),
        ("9" * 5000, "number_too_long"),
        ("1e19", "number_out_of_range"),
        ("1e-19", "number_out_of_range"),
        ("1e999999999", "number_out_of_range"),
    ],
)
def test_numbers_have_bounds(number: str, reason: str) -> None:
    error = refusal(f'{{"q": {number}}}')
    assert (error.reason, error.fields) == (reason, ("q",))


@pytest.mark.parametrize("number", ["1" * 40, "0." + "1" * 38, "1e18", "1E-18", "-0"])
def test_numbers_within_the_bounds(number: str) -> None:
    assert read_body(f'{{"q": {number}}}'.encode()) == {"q": Decimal(number)}


def test_a_name_that_comes_twice_is_named_at_any_depth() -> None:
    assert refusal('{"a": 1, "b": 2, "a": 1}').fields == ("a",)
    assert refusal('{"a": 1, "\\u0061": 2}').fields == ("a",)
    error = refusal('{"strategy": {"x": 1, "x": 2}}')
    assert (error.reason, error.fields) == ("duplicate_key", ("strategy.x",))


def nested(depth: int) -> str:
    return '{"a": ' * (depth - 1) + '{"a": 1}' + "}" * (depth - 1)


def test_depth_is_bounded() -> None:
    assert read_body(nested(6).encode())
    assert refusal(nested(7)).reason == "too_deep"
    assert read_body(b'{"a": [[[[[1]]]]]}')
    assert refusal('{"a": [[[[[[1]]]]]]}').reason == "too_deep"
    assert refusal(nested(8000)).reason == "too_deep"
    assert refusal('{"a":' + "[" * 60_000).reason in ("too_deep", "invalid_json")


def test_the_number_of_fields_is_bounded() -> None:
    assert len(read_body(json.dumps({f"f{i}": i for i in range(64)}).encode())) == 64
    assert refusal(json.dumps({f"f{i}": i for i in range(65)})).reason == "too_many_fields"
    error = refusal(json.dumps({"extras": {f"f{i}": i for i in range(65)}}))
    assert error.fields == ("extras",)


def test_texts_are_bounded() -> None:
    assert read_body(json.dumps({"c": "x" * 4096}).encode())
    assert refusal(json.dumps({"c": "x" * 4097})).reason == "string_too_long"
    assert refusal(json.dumps({"x" * 4097: 1})).reason == "string_too_long"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\\ud800", "lone_surrogate"),
        ("\\udc00x", "lone_surrogate"),
        ("\\u0000", "control_character"),
        ("a\\u001b[2J", "control_character"),
        ("\\u007f", "control_character"),
    ],
)
def test_what_is_no_text_is_refused_in_values_and_names(text: str, reason: str) -> None:
    error = refusal(f'{{"c": ["{text}"]}}')
    assert (error.reason, error.fields) == (reason, ("c",))
    named = refusal(f'{{"{text}": 1}}')
    assert named.reason == reason
    # The name goes into an answer: it must be text that can be encoded and shown.
    assert named.fields[0].encode()
    assert named.fields[0].isprintable()


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert read_body(b'{"c": "\\ud83d\\ude80"}') == {"c": "🚀"}


@settings(deadline=None)
@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    with contextlib.suppress(InvalidSignal):
        assert isinstance(read_body(raw), dict)


_JSONISH = st.lists(
    st.sampled_from(
        [*'{}[]:,"\\ \n', '"a"', "1", "1e5", "NaN", "true", "{{x}}", "nan", "\\u0000", "é", "-", "."],
    ),
    max_size=60,
).map("".join)


@settings(deadline=None)
@given(_JSONISH)
def test_broken_json_is_read_or_refused_and_nothing_else(body: str) -> None:
    with contextlib.suppress(InvalidSignal):
        assert isinstance(read_body(("{" + body).encode()), dict)


_values: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(st.characters(exclude_categories=["C"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", max_size=5), inner, max_size=4)
    ),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.dictionaries(st.text("abcxyz_", min_size=1, max_size=8), _values, max_size=8))
def test_sound_json_comes_back_as_it_was(fields: dict[str, object]) -> None:
    assert read_body(json.dumps(fields).encode()) == fields
