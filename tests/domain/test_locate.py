"""The place of a field in a text, sound or broken, and samples in the place of placeholders."""

from __future__ import annotations

import pytest

from app.domain.locate import field_marks, mark_at, offset_of
from app.domain.placeholders import fill_in
from app.domain.times import read_time

TEXT = '{\n  "symbol": "AAPL",\n  "strategy": {"order_action": "bay", "x": [1, {"y": 2}]},\n  "qty": 10\n}'
NOW = read_time("2026-03-02T15:30:10Z")


def marked(text: str, *fields: str) -> list[str]:
    return [text[mark.start : mark.end] for mark in field_marks(text, fields)]


@pytest.mark.parametrize(
    ("field", "found"),
    [
        ("symbol", ['"symbol": "AAPL"']),
        ("strategy.order_action", ['"order_action": "bay"']),
        ("strategy.x", ['"x": [1, {"y": 2}]']),
        ("qty", ['"qty": 10']),
        ("order_action", []),
    ],
)
def test_a_field_is_found_by_the_name_that_the_door_gives_it(field: str, found: list[str]) -> None:
    assert marked(TEXT, field) == found


def test_a_field_that_comes_twice_is_marked_twice_and_in_the_order_of_the_text() -> None:
    text = '{"a": 1, "b": {"a": 3}, "a": 2}'
    assert marked(text, "a") == ['"a": 1', '"a": 2']
    assert marked(text, "b.a") == ['"a": 3']


def test_a_name_with_points_in_it_is_found_as_well() -> None:
    assert marked('{"strategy.order.action": "{{strategy.order.action}}"}', "strategy.order.action")


@pytest.mark.parametrize("text", ['{"a": ', '{"a"', '{"a": {"b": [', "", "}}}]]", '"', '{"a": 1} }} "a": 2'])
def test_broken_text_never_raises(text: str) -> None:
    for mark in field_marks(text, ["a", "a.b"]):
        assert 0 <= mark.start < mark.end <= len(text)


def test_line_and_column_count_from_one() -> None:
    (mark,) = field_marks(TEXT, ["qty"])
    assert (mark.line, mark.column) == (4, 3)
    assert offset_of(TEXT, 4, 3) == mark.start
    assert offset_of(TEXT, 99, 1) == len(TEXT)


def test_a_mark_stays_inside_the_text() -> None:
    assert (mark_at("ab", 9, 12).start, mark_at("ab", 9, 12).end) == (2, 2)
    assert (mark_at("ab", 1, 1).start, mark_at("ab", 1, 1).end) == (1, 2)


def test_placeholders_get_samples_and_the_unknown_stay() -> None:
    filled = fill_in('{"a": "{{ticker}}", "b": "{{tikcer}}", "t": "{{timenow}}", "p": {{plot_3}}}', NOW)
    assert filled.text == '{"a": "SAMPLE", "b": "{{tikcer}}", "t": "2026-03-02T15:30:10Z", "p": 10}'
    assert filled.unknown == ("tikcer",)
    assert not filled.strategy_only
    assert fill_in("{{time}} {{strategy.order.id}}", NOW).strategy_only
    assert fill_in("{{tikcer}}", NOW, unknown_too=True).text == "sample"
    assert fill_in("{{ticker}}", NOW, {"ticker": "AAPL"}).text == "AAPL"


def test_a_place_after_placeholders_is_found_again_in_the_original() -> None:
    text = '{"a": "{{ticker}}", "b": "{{strategy.order.action}}", "c": !}'
    filled = fill_in(text, NOW)
    assert filled.original(filled.text.index("!")) == text.index("!")
    assert filled.original(filled.text.index('"b"')) == text.index('"b"')
    assert filled.original(0) == 0
    inside = filled.original(filled.text.index("buy") + 1)
    assert text.index("{{strategy") <= inside < text.index(', "c"')
