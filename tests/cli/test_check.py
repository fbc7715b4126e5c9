"""`onefill check` as it is typed: words for a good message, the place of a broken one, and nothing stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import load_or_create
from tests.cli.kit import refused, run

BUY = '{"key": "demo-1", "symbol": "AAPL", "action": "buy", "quantity": "10", "price": "189.25"}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    load_or_create(tmp_path)
    return tmp_path


def test_a_good_message_is_told_in_words_and_leaves_nothing(home: Path) -> None:
    before = sorted(home.iterdir())
    done = run("check", "-", "--home", home, stdin=BUY)
    assert done.code == 0
    assert done.lines[0] == "Buy 10 AAPL at market on paper"
    assert done.lines[-1] == "  The door would answer 200 accepted (source tradingview)"
    assert sorted(home.iterdir()) == before


def test_a_broken_message_is_refused_with_its_place(home: Path) -> None:
    done = run("check", "-", "--home", home, stdin='{\n"symbol": "AAPL",\n"action": "bay"\n}')
    assert done.code == 1
    assert "  line 3, column 1" in done.lines
    assert "400 invalid" in done.lines[-1]


def test_a_template_is_filled_in_unless_it_is_to_be_taken_as_it_is(home: Path) -> None:
    template = Path(__file__).resolve().parents[2] / "resources" / "tradingview-message.json"
    assert run("check", template, "--home", home).code == 0
    done = run("check", template, "--as-is", "--home", home)
    assert done.code == 1
    assert "placeholder was not filled in" in done.lines[0]


def test_json_has_all_of_it(home: Path) -> None:
    (found,) = run("check", "-", "--json", "--source", "test", "--home", home, stdin=BUY).objects
    assert (found["http_status"], found["status"], found["source"]) == (200, "accepted", "test")
    assert (found["key"], found["key_source"]) == ("demo-1", "body")
    assert {each["kind"] for each in found["sentences"]} >= {"key", "time", "order"}
    (found,) = run("check", "-", "--json", "--home", home, stdin='{"symbol": "A",}').objects
    assert found["places"] == [{"line": 1, "column": 15}]


def test_an_unknown_source_is_named(home: Path) -> None:
    said = refused(run("check", "-", "--source", "nobody", "--home", home, stdin=BUY))
    assert said == "there is no source 'nobody': tradingview, test"
