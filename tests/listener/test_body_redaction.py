"""A body as it may be kept: no secret comes through, whatever state the body is in."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.vocabulary import is_secret_name
from app.listener.body import redact
from tests.listener.bodies import BODIES, MARK, SECRET_NAMES, Pairs, written


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_values_of_secret_names_are_blanked(name: str) -> None:
    assert redact(json.dumps({name: "hunter2", "a": 1}).encode()) == f'{{"{name}": "***", "a": 1}}'


@pytest.mark.parametrize(
    "name", ["key", "idempotency_key", "id", "trace_id", "symbol", "comment", "order_id", "keys"]
)
def test_identity_and_order_stay_readable(name: str) -> None:
    body = json.dumps({name: "Long-1", "quantity": "1.00"})
    assert redact(body.encode()) == body


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ('{"a":[{"b":{"token":"x1"}}]}', '{"a":[{"b":{"token":"***"}}]}'),
        ('{"s\\u0065cret": "x1", "q": 1.00}', '{"s\\u0065cret": "***", "q": 1.00}'),
        ('{"secret": "a\\"x1\\",\\"b\\":x1", "q": 1}', '{"secret": "***", "q": 1}'),
        ('{"secret": "x1", "secret": "x2"}', '{"secret": "***", "secret": "***"}'),
        ('{"secret": 1234, "token": true, "pin":null}', '{"secret": "***", "token": "***", "pin":"***"}'),
        ('{"secret": {"a": [1, {"b": "x1"}]}, "q": 1}', '{"secret": "***", "q": 1}'),
        ('{"secret": ["x1", "x2"], "q": 1}', '{"secret": "***", "q": 1}'),
        ('{"comment": "secret=x1; qty=1"}', '{"comment": "secret=***; qty=1"}'),
        ('{"m": "{\\"token\\":\\"x1\\",\\"q\\":1}"}', '{"m": "{\\"token\\":\\"***\\",\\"q\\":1}"}'),
        ('[{"token": "x1"}, {"token": "x2"}]', '[{"token": "***"}, {"token": "***"}]'),
        ('{"secret": NaN, "q": 1}', '{"secret": "***", "q": 1}'),
        ('{"secret"\n:\n"x1"}', '{"secret"\n:\n"***"}'),
        ('{"u": "https://h.example/hook/tv/abc-DEF_1/"}', '{"u": "https://h.example/hook/tv/***/"}'),
        (
            '{"u": "https:\\/\\/h.example\\/hook\\/tv\\/abc"}',
            '{"u": "https:\\/\\/h.example\\/hook\\/tv\\/***"}',
        ),
        ('{"u": "https://h.example/x?token=abc&q=1"}', '{"u": "https://h.example/x?token=***&q=1"}'),
    ],
)
def test_sound_json_stays_sound_and_loses_only_its_secrets(body: str, kept: str) -> None:
    assert redact(body.encode()) == kept
    assert json.loads(kept)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("key=x1; command=PLACE; qty=1", "key=***; command=PLACE; qty=1"),
        ("secret=x1 qty=1", "secret=*** qty=1"),
        ("token: x1\nqty: 1", "token: ***\nqty: 1"),
        ("A=b\r\nTOKEN=x1\r\nQ=1", "A=b\r\nTOKEN=***\r\nQ=1"),
        ('secret = "x1"; q=1', 'secret = "***"; q=1'),
        ("70000000001,buy,GBPUSD,risk=0.5", "***,buy,GBPUSD,risk=0.5"),
        ("x1|EMA cross|buy|BTCUSDT", "***|EMA cross|buy|BTCUSDT"),
        ("my pass phrase: x1", "my pass phrase: ***"),
        ("AAPL Crossing 190.00", "AAPL Crossing 190.00"),
        ('{"secret":"x1","tp":{{plot("TP2")}}}', '{"secret":"***","tp":{{plot("TP2")}}}'),
        ('{"secret":"x1', '{"secret":"***"'),
        ('{"secret":"x1"', '{"secret":"***"'),
        ('{"q":1,"secret":"a"x1"b","c":2', '{"q":1,"secret":"***","c":2'),
        ('{"secret":"a","x1","c":2', '{"secret":"***","c":2'),
        ('{"secret":"a\\",\\"b\\":x1', '{"secret":"***"'),
        ('{"secret" "x1","c":2}', '{"secret" "***","c":2}'),
        ('{"secret:"x1","c":2}', '{"secret:"***","c":2}'),
        ('{"secret":x1,"c":2}', '{"secret":***,"c":2}'),
        ("{'secret':'x1','c':2}", "{'secret':'***','c':2}"),
        ('{"s\\u0065cret":"x1","c":nan}', '{"s\\u0065cret":"***","c":nan}'),
        ('{"secret":{"a":"x1","c":2', '{"secret":***'),
        ('{"secret":1234,"c":nan}', '{"secret":***,"c":nan}'),
        ('{"a":1,}\n{"secret":"x1"}', '{"a":1,}\n{"secret":"***"}'),
    ],
)
def test_a_body_that_cannot_be_read_loses_its_secrets_too(body: str, kept: str) -> None:
    assert redact(body.encode()) == kept


def test_bytes_that_are_no_text_are_kept_as_far_as_they_go() -> None:
    assert (
        redact(b'\xef\xbb\xbf{"secret": "\xff\xfex1", "a": "\xe9"}\0') == '{"secret": "***", "a": "\ufffd"}'
    )
    assert redact(b"\xff\xfe secret=x1") == "\ufffd\ufffd secret=***"


def test_which_names_are_secret() -> None:
    assert all(is_secret_name(name) for name in SECRET_NAMES)
    assert not any(
        is_secret_name(name) for name in ("key", "idempotency_key", "keyboard", "passive", "position")
    )


# ------------------------------------------------------------------------------------------- generated bodies


@settings(deadline=None)
@given(BODIES, st.booleans())
def test_no_secret_comes_through_sound_json(body: Any, escape_names: bool) -> None:
    text = written(body, escape_names)
    kept = redact(text.encode())
    assert MARK not in kept
    assert _blanked(json.loads(text, object_pairs_hook=Pairs)) == json.loads(kept, object_pairs_hook=Pairs)


def _blanked(value: Any) -> Any:
    """The same by way of a parser: only where the texts hold no message of their own."""
    if isinstance(value, Pairs):
        return Pairs((n, "***" if is_secret_name(n) else _blanked(v)) for n, v in value)
    return [_blanked(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(BODIES, st.data())
def test_no_secret_comes_through_a_body_cut_off_anywhere(body: Any, data: st.DataObject) -> None:
    text = written(body, escape_names=False)
    cut = data.draw(st.integers(0, len(text)))
    assert MARK not in redact(text[:cut].encode())


@settings(deadline=None)
@given(BODIES, st.sampled_from([",}", "{{x}}", " nan", '"', "}", '{"a":1}']))
def test_no_secret_comes_through_a_body_that_ends_badly(body: Any, ending: str) -> None:
    assert MARK not in redact((written(body, escape_names=False) + ending).encode())


@settings(deadline=None)
@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_redaction_never_raises(raw: bytes) -> None:
    redact(raw).encode()


@settings(deadline=None)
@given(BODIES)
def test_what_was_redacted_stays_as_it_is(body: Any) -> None:
    once = redact(written(body, escape_names=False).encode())
    assert redact(once.encode()) == once


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        '"',
        "{",
        "a",
        "\\",
        "a:",
        "secret=",
        '"secret":"',
        "secret=a, b",
        '"secret":{',
        " ",
        '\\"',
        "secret ' ",
    ],
)
def test_the_worst_bodies_take_no_more_than_a_moment(piece: str) -> None:
    body = '{"secret":' + piece * (65_000 // len(piece))
    assert "***" in redact(body.encode())


def test_what_comes_after_more_names_than_any_alert_has_is_blanked_unread() -> None:
    kept = redact(b"a=1 " * 3_000 + b"secret=hunter2 b=2")
    assert "hunter2" not in kept
    assert kept.startswith("a=1 a=1 ")
    assert kept.endswith("***")
