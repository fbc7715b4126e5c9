"""config.toml edited by one key or block: it says what was meant, and every other line stays as it was."""

from __future__ import annotations

import difflib
import tomllib
from decimal import Decimal
from typing import Any

import pytest

from app.settings import ConfigError, default_text, read_settings
from app.settings.editing import AddBlock, DropBlock, Edit, Set, Unset, edit
from app.settings.forms import UNSET, choices, problem, shown, typed
from app.settings.keys import TABLES
from app.settings.table import Key

MINE = """\
# my own notes: do not lose them

[risk] # limits
cooldown = '3s'   # because of the gap at noon
# max_open_positions = 0

[[sources]]
name = "tradingview"
id = "abc"
# the one for swing trades
[[sources]]
name = "swing"
id = "def"
accounts = [
    "paper",   # the only one
]

# the last word
"""


def changed(text: str, *edits: Edit) -> tuple[list[str], list[str]]:
    """Lines that went and lines that came."""
    lines = list(difflib.ndiff(text.split("\n"), edit(text, edits).split("\n")))
    return [line[2:] for line in lines if line[0] == "-"], [line[2:] for line in lines if line[0] == "+"]


def key(table: str, name: str) -> Key:
    return next(key for each in TABLES if each.name == table for key in each.keys if key.name == name)


@pytest.mark.parametrize(
    ("one", "went", "came"),
    [
        (
            Set(("risk", "cooldown"), "5s"),
            ["cooldown = '3s'   # because of the gap at noon"],
            ['cooldown = "5s"   # because of the gap at noon'],
        ),
        (Set(("risk", "max_open_positions"), 3), ["# max_open_positions = 0"], ["max_open_positions = 3"]),
        (Set(("risk", "price_collar"), "1%"), [], ['price_collar = "1%"']),
        (Set(("sources", 1, "rate"), "7"), [], ['rate = "7"']),
        (Set(("retention", "backups"), 9), [], ["[retention]", "backups = 9", ""]),
        (Unset(("risk", "cooldown")), ["cooldown = '3s'   # because of the gap at noon"], []),
    ],
)
def test_one_key_changes_one_line(one: Edit, went: list[str], came: list[str]) -> None:
    assert changed(MINE, one) == (went, came)


def test_a_new_key_comes_into_its_own_block_and_not_below_the_next_ones_comment() -> None:
    text = edit(MINE, [Set(("sources", 0, "rate"), "7")])
    assert 'id = "abc"\nrate = "7"\n# the one for swing trades\n[[sources]]' in text


def test_a_block_is_added_behind_the_last_one_and_taken_away_again() -> None:
    text = edit(MINE, [AddBlock("sources", {"name": "two", "accounts": ["paper"]})])
    assert [source["name"] for source in tomllib.loads(text)["sources"]] == ["tradingview", "swing", "two"]
    assert text.startswith(MINE)
    assert edit(text, [DropBlock("sources", 2)]).rstrip() == MINE.rstrip()
    without = edit(MINE, [DropBlock("sources", 0)])
    assert '# the one for swing trades\n[[sources]]\nname = "swing"' in without


def test_several_edits_are_made_at_once_and_blocks_are_counted_as_they_were() -> None:
    text = edit(
        MINE, [DropBlock("sources", 0), Set(("sources", 1, "rate"), "9"), AddBlock("sources", {"name": "x"})]
    )
    assert [(each["name"], each.get("rate")) for each in tomllib.loads(text)["sources"]] == [
        ("swing", "9"),
        ("x", None),
    ]


def test_the_default_block_is_written_before_a_second_one() -> None:
    text = edit("", [AddBlock("accounts", {"name": "second"})])
    assert [account.name for account in read_settings(text).accounts] == ["paper", "second"]
    text = edit("", [Set(("accounts", 0, "cash"), "5")])
    assert [(account.name, account.cash) for account in read_settings(text).accounts] == [
        ("paper", Decimal(5))
    ]


def test_inline_tables_are_edited_too() -> None:
    text = edit(
        'sources = [{name = "a"}]\n', [Set(("sources", 0, "rate"), "5"), AddBlock("sources", {"name": "b"})]
    )
    assert tomllib.loads(text)["sources"] == [{"name": "a", "rate": "5"}, {"name": "b"}]


def test_windows_line_ends_and_odd_strings_survive() -> None:
    text = edit('[risk]\r\ncooldown = "3s" # "quoted"\r\n', [Set(("risk", "day_zone"), 'a "b" \\ c')])
    assert tomllib.loads(text)["risk"] == {"cooldown": "3s", "day_zone": 'a "b" \\ c'}


def test_what_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError) as refused:
        edit("[risk]\ncooldown = \n", [Set(("risk", "cooldown"), "5s")])
    assert refused.value.line == 2


@pytest.mark.parametrize("table", [each.name for each in TABLES])
def test_every_key_of_the_first_file_can_be_changed_and_its_comments_stay(table: str) -> None:
    """Those that are written, those that are only mentioned, and those that are not there at all."""
    text = default_text()
    found = next(each for each in TABLES if each.name == table)
    for each in found.keys:
        where = (table, 0, each.name) if found.array else (table, each.name)
        value: Any = each.default if each.default is not None else (each.example or "https://one.example")
        done = edit(text, [Set(where, value)])
        place: Any = tomllib.loads(done)
        for part in where:
            place = place[part]
        assert place == value, each.name
        comments = {line for line in text.split("\n") if line.startswith("# ") and each.name not in line}
        assert comments <= set(done.split("\n")), each.name


def test_an_error_of_the_settings_says_which_key_it_is() -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings(edit(MINE, [Set(("sources", 1, "max_age"), "soon")]))
    assert refused.value.where == ("sources", 1, "max_age")
    with pytest.raises(ConfigError) as refused:
        read_settings("[risk]\ncooldwn = '3s'\n")
    assert refused.value.where == ("risk", "cooldwn")


# ------------------------------------------------------------------------------------------------ as typed


@pytest.mark.parametrize(
    ("table", "name", "text", "value"),
    [
        ("risk", "max_open_positions", "3", 3),
        ("risk", "max_open_positions", "three", "three"),
        ("risk", "max_order_notional", "1000.50", "1000.50"),
        ("accounts", "allow_short", "yes", True),
        ("sources", "duplicate_status", "409", 409),
        ("sources", "accounts", "paper, other", ["paper", "other"]),
        ("accounts", "symbols", "all", "all"),
        ("accounts", "symbols", "AAPL, msft", ["AAPL", "msft"]),
        ("accounts", "symbols", "AAPL", ["AAPL"]),
        ("accounts", "symbols", "[]", []),
        ("accounts", "base_url", "", UNSET),
        ("retention", "keys", "forever", "forever"),
    ],
)
def test_what_is_typed_becomes_what_toml_holds(table: str, name: str, text: str, value: object) -> None:
    assert typed(key(table, name), text) == value


@pytest.mark.parametrize(
    "each",
    [(table, key) for table in TABLES for key in table.keys],
    ids=lambda each: f"{each[0].name}.{each[1].name}",
)
def test_every_default_comes_back_as_it_was(each: tuple[Any, Key]) -> None:
    _, one = each
    if one.default not in (None, ""):
        assert typed(one, shown(one.default)) == one.default
        assert problem(one, shown(one.default)) == ""


def test_a_form_says_what_the_start_says() -> None:
    assert problem(key("risk", "cooldown"), "3 parsecs").startswith("not a time")
    assert problem(key("risk", "max_open_positions"), "many").startswith("must be a whole number")
    assert (
        problem(key("accounts", "sizing"), "cash")
        == 'must be "signal", "quantity:10", "cash:1000" or "equity:5%"'
    )
    assert problem(key("sources", "accounts"), "Paper") == "must be 1 to 32 small letters, digits, _ or -"


def test_choices_come_from_the_reader() -> None:
    assert choices(key("sources", "auth")) == ("path", "body")
    assert choices(key("sources", "duplicate_status")) == ("200", "409")
    assert choices(key("accounts", "live")) == ("yes", "no")
    assert choices(key("risk", "cooldown")) == ()
