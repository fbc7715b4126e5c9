"""What a message says: the worst first, bounded however much there is, and what to do. Pure.

No secret can be in it: it is made of our own sentences, and what looks like a hook's token is blanked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from app.logs import redact
from app.notify.item import CRITICAL, NOTE, WARNING, Event, Item, Message

LINES = 8
"""So many things are named in one message."""
WIDTH = 300
"""Characters of one of them."""

_ALONE = {
    "critical": "Onefill needs you now",
    "needs_you": "Onefill needs you",
    "drift": "Onefill: books and broker differ",
    "account": "Onefill: an account is in trouble",
    "unwell": "Onefill is not well",
    "stopping": "Onefill has stopped itself",
    "filled": "Onefill: an order is filled",
    "refused": "Onefill: refused",
}
_MANY = {
    "critical": ("critical thing", "critical things"),
    "needs_you": ("thing that needs you", "things that need you"),
    "drift": ("difference from the broker", "differences from the broker"),
    "account": ("account in trouble", "accounts in trouble"),
    "unwell": ("part that is not well", "parts that are not well"),
    "stopping": ("stop", "stops"),
    "filled": ("order filled", "orders filled"),
    "refused": ("refusal", "refusals"),
}
_TODO = (
    (("critical", "needs_you", "drift"), "What to do: open Onefill, Needs you; or type `onefill needs`."),
    (("account", "unwell"), "What to do: open Onefill, Health; or type `onefill doctor`."),
    (("stopping",), "Alerts are not taken now. Start Onefill again and read what it says."),
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def message(things: Sequence[Item | Event], more: Counter[str]) -> Message:
    """`more`: how many others of each kind there are no sentences of."""
    worst_first = sorted(things, key=lambda thing: -thing.rank)
    named, rest = worst_first[:LINES], worst_first[LINES:]
    left = more + Counter(thing.kind for thing in rest)
    lines = [f"- {line(thing.text)}" for thing in named]
    if left:
        lines.append(f"And {counted(left)}.")
    pressing = {thing.kind for thing in things if thing.rank > NOTE}
    lines += [todo for kinds, todo in _TODO if pressing & set(kinds)]
    rank = max((thing.rank for thing in things), default=NOTE)
    keys = tuple(thing.key for thing in things)
    return Message(_title(things, left.total() + len(named)), "\n".join(lines), rank, keys)


def _title(things: Sequence[Item | Event], number: int) -> str:
    pressing = [thing for thing in things if thing.rank >= WARNING]
    if number == 1 and pressing:
        return _ALONE[pressing[0].kind]
    if not pressing:
        kinds = {thing.kind for thing in things}
        return _ALONE[things[0].kind] if number == 1 and kinds & {"filled", "refused"} else "Onefill: news"
    critical = sum(thing.rank == CRITICAL for thing in pressing)
    if critical and len(pressing) > critical:
        return f"Onefill: {len(pressing)} things need you, {critical} of them critical"
    word = "critical thing" if critical else "thing"
    needs = "needs" if len(pressing) == 1 else "need"
    return f"Onefill: {len(pressing)} {word}{'' if len(pressing) == 1 else 's'} {needs} you"


def line(text: str) -> str:
    """One line that is safe to send to others."""
    plain = " ".join(_CONTROL.sub(" ", redact(text)).split())
    return plain if len(plain) <= WIDTH else f"{plain[: WIDTH - 1]}…"


def counted(numbers: Counter[str]) -> str:
    said = [
        f"{number} more {_MANY[kind][0] if number == 1 else _MANY[kind][1]}"
        for kind, number in numbers.items()
        if number
    ]
    return ", ".join(said)
