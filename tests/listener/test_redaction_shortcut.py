"""A body with nothing to blank is left as it is without the long way, and as that way would leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.vocabulary import is_secret_name
from app.listener import redaction
from app.listener.redaction import redact
from tests.benchmarks.alerts import Alerts
from tests.listener.bodies import BODIES, SECRET_NAMES, written


def long_way(raw: bytes) -> str:
    """Every sound JSON token by token, whatever is in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_has_something_to_blank", lambda text: True)
        return redact(raw)


CORPUS = [
    # nothing to blank
    "{}",
    "[]",
    '{"a": 1, "b": [true, null, -0.50, 1e3], "c": {"d": "x"}}',
    '{"price": "187.25", "fired_at": "2026-03-02T15:30:00Z"}',
    '{"comment": "a = b; c: d", "url": "https://h.example/a?b=c#d"}',
    '{"key": "k=1", "monkey": "x", "keyboard": "y", "position": "z", "taken": 1}',
    '{"comment": "my secret is safe", "note": "token"}',
    '{"a": "\\"quoted\\": \\"text\\"", "b": "back\\\\slash", "c": "\\u0041\\n\\t"}',
    # names: case, signs between letters, escapes, other alphabets, none
    *(f'{{"{name}": "x1"}}' for name in (*SECRET_NAMES, *map(str.upper, SECRET_NAMES))),
    *(f'{{"q": 1, "{" ".join(name)}" : ["x1"]}}' for name in SECRET_NAMES),
    '{"s\\u0065cret": "x1"}',
    '{"\\u0073\\u0065\\u0063\\u0072\\u0065\\u0074": "x1"}',
    '{"sec\\/ret": "x1", "sec\\\\ret": 1, "sec\\"ret": {}}',
    '{"ſecret": "x1", "SECRET\u0130": 1, "ｓｅｃｒｅｔ": 2, "se\u00adcret": 3, "pass\u200bword": 4}',
    '{"": "x1", " ": "x2", "\\u0000secret": "x3"}',
    '{"secret"\n\t: \r\n {"a": ["}", "]"]}, "b": 1}',
    '{"secret": "x1", "secret": "x2", "q": "secret"}',
    '[{"q": 1}, [[{"token": "x1"}]]]',
    '["token", "x1", {"q": "token"}]',
    # texts that hold a message of their own
    '{"comment": "secret=x1; qty=1"}',
    '{"comment": "SECRET : x1"}',
    '{"comment": "s\\u0065cret=x1"}',
    '{"comment": "secret\\u003dx1", "b": "secret\\u003ax1"}',
    "{\"comment\": \"'secret' 'x1'\", \"b\": \"'token':'x1'\"}",
    '{"m": "{\\"token\\":\\"x1\\",\\"q\\":1}", "n": "{\\\\\\"token\\\\\\":1}"}',
    '["pass phrase: x1", "key=x1", "a=b=c"]',
    '{"u": "https://h.example/x?token=abc&q=1"}',
    # the hook's own address
    '{"u": "https://h.example/hook/tv/abc-DEF_1/"}',
    '{"u": "https:\\/\\/h.example\\/hook\\/tv\\/abc"}',
    '{"u": "/HOOK/tv/abc", "w": "hook", "/hook/tv/abc": 1}',
    # at the edges
    '\ufeff {"a": 1}\0\0',
    '\u2003{"a": "x"}\u2003',
    '{"a": NaN, "b": Infinity, "c": 1}',
    '{"a": "raw\ncontrol\x01"}',
    '{"a": "\\ud800", "b": "\u2028"}',
    json.dumps({"a": "b: " * 3_000}),
    json.dumps({f"name{number}": f"{number}:" for number in range(300)}),
]


@pytest.mark.parametrize("text", CORPUS)
def test_a_body_comes_out_as_by_the_long_way(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    assert redact(raw) == long_way(raw)


def test_the_body_of_every_case_comes_out_as_by_the_long_way() -> None:
    lines = (Path(__file__).parents[1] / "cases" / "payloads.jsonl").read_text("utf-8").splitlines()
    bodies = [json.loads(line).get("body", "").encode("utf-8", "surrogatepass") for line in lines]
    assert len(bodies) >= 25
    for raw in (Alerts("a").next(), *bodies):
        assert redact(raw) == long_way(raw)


@settings(deadline=None, max_examples=300)
@given(BODIES, st.booleans())
def test_generated_bodies_come_out_as_by_the_long_way(body: Any, escape_names: bool) -> None:
    raw = written(body, escape_names).encode()
    assert redact(raw) == long_way(raw)


_PIECES = [
    *'{}[]:,"\\\'=/ \t\n1ax', "secret", "Tok", "en", "/hook/", "tv", '":', '": "', '", "', "\\u0065", "pin",
    "é", "\u2028",
]  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join), st.booleans())
def test_texts_put_together_from_awkward_pieces_come_out_as_by_the_long_way(text: str, whole: bool) -> None:
    """As they are, most are broken; as a value they are sound."""
    raw = json.dumps({"a": text, text: 1}, ensure_ascii=False).encode() if whole else text.encode()
    assert redact(raw) == long_way(raw)


def test_an_alert_without_a_secret_does_not_go_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would compare one way with itself."""

    def refused(text: str) -> str:
        raise AssertionError(text)

    monkeypatch.setattr(redaction, "_redact_json", refused)
    raw = Alerts("a").next()
    assert redact(raw) == raw.decode()
    with pytest.raises(AssertionError):
        redact(b'{"secret": "x1"}')


@given(
    st.text(max_size=12)
    | st.lists(st.sampled_from([*SECRET_NAMES, "a", "_", "7", "İ"]), max_size=3).map("".join)
)
def test_a_name_is_secret_by_its_letters_and_digits_alone(name: str) -> None:
    letters = "".join(c for c in name.lower() if c in "0123456789abcdefghijklmnopqrstuvwxyz")
    assert is_secret_name(name) == is_secret_name(letters)
