"""The faults that a paper account can be told to have: their names, and how each is written. Pure.

One text is one fault: `name`, `name:value`, and `*3` behind it for three orders in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from app.settings.words import parse_duration, texts

Kind = Literal["", "count", "code", "time"]

FAULTS: dict[str, tuple[Kind, str]] = {
    "reply_lost_before": ("", "the order is lost on its way: no order, no reply"),
    "reply_lost_after": ("", "the order is placed, its reply is lost"),
    "reject": ("code", "the broker refuses the order with this code"),
    "slow_reply": ("time", "the order is placed, its reply takes this long"),
    "lookups_fail": ("count", "after the order's reply, so many looks at the broker fail"),
    "lookup_lag": ("count", "so many looks do not show the order yet"),
}
LOOKS = ("lookups_fail", "lookup_lag")
"""These go with the fault before them, on the same order; alone in front, with the first order."""

_SPELLED = re.compile(r"([a-z_]+)(?::([^*]+))?(?:\*([1-9][0-9]{0,3}))?")
_VALUES: dict[Kind, tuple[re.Pattern[str], str]] = {
    "count": (re.compile(r"[1-9][0-9]{0,5}"), "a number of looks, as {name}:3"),
    "code": (re.compile(r"[A-Z][A-Z0-9_]{0,39}"), "a code in capitals, as {name}:INSUFFICIENT_FUNDS"),
    "time": (re.compile(r".+"), "a time, as {name}:2s"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`value` is what stands behind the colon; `orders` how many orders in a row it takes."""

    name: str
    value: str
    orders: int


def parse_fault(text: str) -> Fault:
    """ValueError with what to write instead."""
    spelled = _SPELLED.fullmatch(text.strip())
    name = spelled[1] if spelled else text.partition(":")[0].partition("*")[0].strip()
    if spelled is None or name not in FAULTS:
        close = get_close_matches(name, FAULTS, n=1)
        remedy = (
            f"did you mean {close[0]}?" if close and name not in FAULTS else f"there is: {', '.join(FAULTS)}"
        )
        raise ValueError(f'"{text}" is no fault: {remedy}')
    value, kind = spelled[2] or "", FAULTS[name][0]
    if not kind:
        if value:
            raise ValueError(f'"{text}": {name} stands alone')
    else:
        pattern, example = _VALUES[kind]
        if not pattern.fullmatch(value):
            raise ValueError(f'"{text}" needs {example.format(name=name)}')
        if kind == "time":
            parse_duration(value)
    if spelled[3] and name in LOOKS:
        raise ValueError(f'"{text}": {name} goes with the fault before it: put *{spelled[3]} there')
    return Fault(name, value, int(spelled[3] or 1))


def by_order(faults: Iterable[str]) -> list[dict[str, str]]:
    """For each of the next orders, oldest first, its faults by name with their values."""
    plan: list[dict[str, str]] = []
    last = 0
    """How many orders the newest fault of a reply takes."""
    for fault in map(parse_fault, faults):
        if fault.name in LOOKS:
            if not plan:
                plan, last = [{}], 1
            for order in plan[-last:]:
                order[fault.name] = fault.value
        else:
            plan += [{fault.name: fault.value} for _ in range(fault.orders)]
            last = fault.orders
    return plan


def faults(value: object) -> tuple[str, ...]:
    """A list of them as config.toml has it."""
    spelled = texts(value)
    for fault in spelled:
        parse_fault(fault)
    return spelled
