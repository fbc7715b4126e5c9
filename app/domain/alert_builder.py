"""A message for the alert dialog, and a Pine script that sends the same, from what a person chooses.

Pure. What is made here has to pass the checker and the door: a test holds every combination to that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from app.domain.number import plain

SECRET_HERE = "PUT-THE-SECRET-OF-THIS-SOURCE-HERE"  # noqa: S105 - says that one is missing


class Template(StrEnum):
    """What the alert is for."""

    STRATEGY = "strategy"
    """A strategy's order fills: each fill is one order of its size."""
    FOLLOW = "follow"
    """A strategy's position: whatever was missed before, the next alert leads there."""
    BUY = "buy"
    SELL = "sell"
    EXIT = "exit"
    TARGET = "target"
    """A position of a fixed size, long, short or none, whatever is held before."""


class Size(StrEnum):
    """Whose size an entry has."""

    STRATEGY = "strategy"
    """The strategy's own quantity: {{strategy.order.contracts}}."""
    FIXED = "fixed"
    ACCOUNT = "account"
    """The account's setting `sizing`; the message says none."""
    ALL = "all"
    """Of an exit: all that is held."""


OF_A_STRATEGY = frozenset({Template.STRATEGY, Template.FOLLOW})
"""Their placeholders are filled in by alerts of a strategy alone."""

_SIZES: dict[Template, tuple[Size, ...]] = {
    Template.STRATEGY: (Size.STRATEGY, Size.FIXED, Size.ACCOUNT),
    Template.FOLLOW: (Size.STRATEGY,),
    Template.BUY: (Size.FIXED, Size.ACCOUNT),
    Template.SELL: (Size.FIXED, Size.ACCOUNT),
    Template.EXIT: (Size.ALL, Size.FIXED),
    Template.TARGET: (Size.FIXED,),
}


@dataclass(frozen=True, slots=True)
class SourceRules:
    """What of a source decides which messages it takes. `accounts_size`: every account sizes entries."""

    secret_in_body: bool = False
    accounts_size: bool = False
    allow_short: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """`quantity` counts where the size is fixed; `side` (long, short, flat) for a target alone."""

    template: Template
    strategy: str
    size: Size
    quantity: Decimal = Decimal(1)
    side: str = "long"


def sizes(template: Template, rules: SourceRules) -> tuple[Size, ...]:
    """The sizes that make sense for it: none that the door would refuse."""
    if rules.accounts_size and Size.ACCOUNT in _SIZES[template]:
        # A quantity of the message would be read and not count.
        return (Size.ACCOUNT,)
    return tuple(size for size in _SIZES[template] if size is not Size.ACCOUNT)


def problem(choice: Choice) -> str:
    """What is missing before a message can be made; empty where nothing is."""
    if not choice.strategy.strip():
        return "Give the strategy a name: it names the book that the orders act on"
    if (
        len(choice.strategy) > 60
        or not choice.strategy.isprintable()
        or set(choice.strategy) & set("\"\\'{}")
    ):
        return "A strategy's name has at most 60 characters, and no quotes, braces or backslash"
    is_flat = choice.template is Template.TARGET and choice.side == "flat"
    if choice.size is Size.FIXED and not is_flat and not 0 < choice.quantity < Decimal(10) ** 12:
        return "A quantity is a number above zero"
    return ""


def fields(choice: Choice, rules: SourceRules) -> dict[str, str]:
    """Names and values of the message, in the order in which a person would read them."""
    made = {"secret": SECRET_HERE} if rules.secret_in_body else {}
    made |= {
        "strategy": choice.strategy.strip(),
        "symbol": "{{ticker}}",
        "exchange": "{{exchange}}",
        "interval": "{{interval}}",
        "bar_time": "{{time}}",
        "fired_at": "{{timenow}}",
    }
    made |= _order(choice)
    made["price"] = "{{strategy.order.price}}" if choice.template in OF_A_STRATEGY else "{{close}}"
    if choice.template in OF_A_STRATEGY:
        made |= {
            "order_id": "{{strategy.order.id}}",
            "market_position": "{{strategy.market_position}}",
            "market_position_size": "{{strategy.market_position_size}}",
            "prev_market_position": "{{strategy.prev_market_position}}",
            "prev_market_position_size": "{{strategy.prev_market_position_size}}",
        }
    return _without_target(choice, made)


def _without_target(choice: Choice, made: dict[str, str]) -> dict[str, str]:
    """Where another size than the strategy's is wanted, its position is no target: only its direction is."""
    if choice.template is Template.STRATEGY and choice.size is Size.FIXED:
        del made["market_position_size"], made["prev_market_position_size"]
    return made


def _order(choice: Choice) -> dict[str, str]:
    """The fields that ask for something."""
    quantity = {"quantity": plain(choice.quantity)} if choice.size is Size.FIXED else {}
    match choice.template:
        case Template.STRATEGY:
            if choice.size is not Size.FIXED:
                # Where the account sizes entries, an exit still closes the fraction that this says.
                quantity = {"quantity": "{{strategy.order.contracts}}"}
            return {"action": "{{strategy.order.action}}", **quantity}
        case Template.FOLLOW:
            return {"action": "{{strategy.order.action}}"}
        case Template.BUY | Template.SELL | Template.EXIT:
            return {"action": choice.template.value, **quantity}
    if choice.side == "flat":
        return {"action": "exit", "market_position": "flat"}
    action = "buy" if choice.side == "long" else "sell"
    return {"action": action, "market_position": choice.side, "market_position_size": plain(choice.quantity)}


def message(choice: Choice, rules: SourceRules) -> str:
    """The JSON for the message field of the alert dialog."""
    return json.dumps(fields(choice, rules), indent=2, ensure_ascii=False)


def pine(choice: Choice, rules: SourceRules, strategy_text: str, indicator_text: str) -> str:
    """The Pine v6 example (resources/pine) with the choice in it."""
    made = fields(choice, rules)
    title = choice.strategy.strip()
    if choice.template in OF_A_STRATEGY:
        size = plain(choice.quantity) if choice.size is Size.FIXED else "1"
        text = strategy_text.replace("{MESSAGE}", json.dumps(made, ensure_ascii=False))
        return text.replace("{TITLE}", title).replace("{QUANTITY}", size)
    # What is the same for each signal; the rest the script itself fills in.
    own = {name: value for name, value in made.items() if "{{" not in value}
    text = indicator_text.replace("{FIELDS}", json.dumps(own, ensure_ascii=False)[1:-1])
    down = choice.template in (Template.SELL, Template.EXIT) or (
        choice.template is Template.TARGET and choice.side != "long"
    )
    condition = "ta.crossunder(fast, slow)" if down else "ta.crossover(fast, slow)"
    return text.replace("{TITLE}", title).replace("{CONDITION}", condition)
