"""What the builder makes is taken by the checker, in every combination, and both scripts say the same."""

from __future__ import annotations

import itertools
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from app.domain.alert import AlertRules, read_alert
from app.domain.alert_builder import (
    OF_A_STRATEGY,
    SECRET_HERE,
    Choice,
    Size,
    SourceRules,
    Template,
    fields,
    message,
    pine,
    problem,
    sizes,
)
from app.domain.placeholders import SAMPLES, fill_in
from app.domain.signal import Action, Direction, Signal
from app.domain.times import read_time
from app.engine.checking import Question, check_message
from app.listener.body import read_body
from app.settings import read_settings

PINE = Path(__file__).resolve().parents[2] / "resources" / "pine"
AT = read_time("2026-03-02T15:30:10Z")
RULES = {
    "plain": (SourceRules(), ""),
    "body": (SourceRules(secret_in_body=True), 'auth = "body"'),
    "sized": (SourceRules(accounts_size=True), ""),
    "live": (SourceRules(), 'without_time = "refuse"'),
}
CONFIG = '[[sources]]\nname = "tv"\nid = "tv-id"\n{more}\n[[accounts]]\nname = "paper"\n{account}\n'
COMBINATIONS = [
    (rules, template, size, side)
    for rules, template in itertools.product(RULES, Template)
    for size in sizes(template, RULES[rules][0])
    for side in (("long", "short", "flat") if template is Template.TARGET else ("long",))
]


def choice_of(template: Template, size: Size, side: str) -> Choice:
    return Choice(template, "my-strategy", size, Decimal("2.5"), side)


def signal_of(text: str) -> Signal:
    filled = fill_in(text, AT).text
    return read_alert(read_body(filled.encode()), AlertRules(reaches_live=True, needs_quantity=False)).signal


@pytest.mark.parametrize(("rules", "template", "size", "side"), COMBINATIONS)
def test_every_combination_passes_the_checker(rules: str, template: Template, size: Size, side: str) -> None:
    source_rules, more = RULES[rules]
    account = 'sizing = "cash:1000"' if source_rules.accounts_size else ""
    settings = read_settings(CONFIG.format(more=more, account=account))
    text = message(choice_of(template, size, side), source_rules).replace(SECRET_HERE, "my-secret")
    found = check_message(settings, settings.sources[0], Question(body=text.encode(), at=AT, fill=True))
    assert (found.http_status, found.status) == (200, "accepted"), found.text
    assert found.key_source == "derived"
    # Nothing in it is ignored or guessed at: also a source with money behind it would take it.
    assert not [each for each in found.sentences if each.kind == "warning"], found.text
    assert signal_of(text).bar_time is not None


@pytest.mark.parametrize(("rules", "template", "size", "side"), COMBINATIONS)
def test_both_scripts_carry_the_same_message(rules: str, template: Template, size: Size, side: str) -> None:
    choice, source_rules = choice_of(template, size, side), RULES[rules][0]
    script = pine(
        choice, source_rules, (PINE / "strategy.pine").read_text(), (PINE / "indicator.pine").read_text()
    )
    assert script.startswith("//@version=6\n")
    assert not re.findall(r"\{[A-Z]+\}", script)
    if template in OF_A_STRATEGY:
        (line,) = [line for line in script.split("\n") if line.startswith("//@strategy_alert_message ")]
        said = line.partition(" ")[2]
    else:
        said = evaluated(script)
    sent, made = signal_of(said), signal_of(message(choice, source_rules))
    assert sent == made
    assert json.loads(fill_in(said, AT).text) == json.loads(fill_in(message(choice, source_rules), AT).text)


def evaluated(script: str) -> str:
    """The indicator's message as Pine would put it together: texts in single quotes, joined with +."""
    times = {"time": "2026-03-02T15:30:00Z", "timenow": "2026-03-02T15:30:10Z"}
    values = {
        "syminfo.ticker": SAMPLES["ticker"],
        "syminfo.prefix": SAMPLES["exchange"],
        "timeframe.period": SAMPLES["interval"],
        "str.tostring(close)": SAMPLES["close"],
    }
    for name, moment in re.findall(r"string (\w+) = str\.format_time\((\w+), ", script):
        values[name] = times[moment]
    for name, expression in re.findall(r"^string (\w+) = ('.*)$", script, re.MULTILINE):
        parts = re.findall(r"'((?:[^'\\]|\\.)*)'|([\w.]+(?:\(\w+\))?)", expression)
        values[name] = "".join(text if not code else values[code] for text, code in parts)
    return values["message"]


@pytest.mark.parametrize(
    ("template", "size", "side", "wanted"),
    [
        (Template.BUY, Size.FIXED, "long", (Action.BUY, Decimal("2.5"), None)),
        (Template.SELL, Size.FIXED, "long", (Action.SELL, Decimal("2.5"), None)),
        (Template.EXIT, Size.ALL, "long", (Action.EXIT, None, None)),
        (Template.EXIT, Size.FIXED, "long", (Action.EXIT, Decimal("2.5"), None)),
        (Template.TARGET, Size.FIXED, "long", (Action.BUY, None, Decimal("2.5"))),
        (Template.TARGET, Size.FIXED, "short", (Action.SELL, None, Decimal("-2.5"))),
        (Template.TARGET, Size.FIXED, "flat", (Action.EXIT, None, Decimal(0))),
        (Template.FOLLOW, Size.STRATEGY, "long", (Action.BUY, None, Decimal(1))),
        (Template.STRATEGY, Size.STRATEGY, "long", (Action.BUY, Decimal(1), Decimal(1))),
        (Template.STRATEGY, Size.FIXED, "long", (Action.BUY, Decimal("2.5"), None)),
    ],
)
def test_each_template_asks_for_what_it_says(
    template: Template, size: Size, side: str, wanted: tuple[Action, Decimal | None, Decimal | None]
) -> None:
    signal = signal_of(message(choice_of(template, size, side), SourceRules()))
    assert (signal.action, signal.quantity, signal.target) == wanted


def test_a_strategy_of_fixed_size_still_says_when_it_is_flat() -> None:
    text = message(choice_of(Template.STRATEGY, Size.FIXED, "long"), SourceRules())
    leaving = {"strategy.market_position": "flat", "strategy.order.action": "sell"}
    filled = fill_in(text, AT, {**leaving, "strategy.prev_market_position": "long"}).text
    signal = read_alert(read_body(filled.encode()), AlertRules()).signal
    assert (signal.market_position, signal.target) == (Direction.FLAT, Decimal(0))


def test_where_the_accounts_size_no_quantity_is_offered_that_would_not_count() -> None:
    assert sizes(Template.BUY, SourceRules(accounts_size=True)) == (Size.ACCOUNT,)
    assert sizes(Template.BUY, SourceRules()) == (Size.FIXED,)
    assert "quantity" not in fields(Choice(Template.BUY, "s", Size.ACCOUNT), SourceRules(accounts_size=True))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Choice(Template.BUY, "  ", Size.FIXED), "Give the strategy a name"),
        (Choice(Template.BUY, 'my "own"', Size.FIXED), "no quotes"),
        (Choice(Template.BUY, "s" * 61, Size.FIXED), "at most 60"),
        (Choice(Template.BUY, "s", Size.FIXED, Decimal(0)), "above zero"),
    ],
)
def test_what_cannot_be_made_is_said(choice: Choice, said: str) -> None:
    assert said in problem(choice)


def test_what_can_be_made_has_no_problem() -> None:
    assert problem(Choice(Template.BUY, "my-strategy", Size.FIXED)) == ""
    assert problem(Choice(Template.TARGET, "s", Size.FIXED, Decimal(0), "flat")) == ""
