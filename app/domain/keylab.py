"""Another way to make keys, tried on signals that came in: what it would have swallowed, what let through.

Pure. What counts as true is what happened: deliveries that were taken for one signal are copies of it. The
comparison is only as good as that, so every difference is shown with its examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from app.domain.alert import Alert
from app.domain.canonical import Canonical, digest
from app.domain.key import (
    DERIVED_FROM,
    RULE_VERSION,
    TRANSITION,
    HeaderKeys,
    KeyPolicy,
    choose_key,
    intent_fingerprint,
)
from app.domain.number import plain
from app.domain.repeat import FirstSighting, judge_repeat
from app.domain.signal import InvalidSignal, KeySource, Signal
from app.domain.times import SECOND

LABEL = "label"
POSITION = "position"
FIELDS = (*DERIVED_FROM, LABEL, POSITION, "quantity", "price", "fired_at")
"""What a key may be made of, in the order of a form. `position`: side and size before and after."""
USUAL = frozenset((*DERIVED_FROM, LABEL, POSITION))
"""What the program's own derived keys are made of."""

BodyKey = Literal["identity", "label", "ignore"]
MOST_EXAMPLES = 20


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """A way to make keys. `window`: microseconds for which one is known; None is for ever.

    `timeless_window` is the same for messages without a bar time.
    """

    fields: frozenset[str] = USUAL
    body_key: BodyKey = "identity"
    window: int | None = None
    timeless_window: int | None = 45 * SECOND


class Seen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One delivery of the past. `signal_id`: the signal that it was taken for."""

    delivery: int
    signal_id: int
    at: int
    alert: Alert
    header_key: str | None = None


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """Two deliveries that the composition treats otherwise than was done. The first is None where there is
    nothing that it collides with."""

    one: Seen | None
    other: Seen


@dataclass(slots=True)
class Verdict:
    """What a composition would have done. Counts are deliveries, but `signals`."""

    deliveries: int = 0
    signals: int = 0
    caught: int = 0
    """Copies that it would have known as copies."""
    swallowed: int = 0
    """Signals of their own that it would have taken for a copy of another: never traded."""
    let_through: int = 0
    """Copies that it would have taken for new signals: traded twice."""
    conflicts: int = 0
    """Signals under another's key that asked for something else: refused and shown, not lost in silence."""
    refused: int = 0
    """Messages from which no key could be made."""
    swallowed_examples: list[Example] = field(default_factory=list)
    let_through_examples: list[Example] = field(default_factory=list)
    conflict_examples: list[Example] = field(default_factory=list)


def key_of(source_id: str, seen: Seen, composition: Composition) -> tuple[str, bool] | None:
    """The key by this composition, and whether it was sent; None where there is none to be had.

    Sent keys are chosen by the door's own rule (`key.choose_key`).
    """
    if seen.header_key is not None:
        return f"header {seen.header_key}", True
    label = None
    if composition.body_key != "ignore":
        policy = KeyPolicy(body_key_is_label=composition.body_key == "label")
        try:
            chosen = choose_key(source_id, seen.alert, HeaderKeys(), policy)
        except InvalidSignal:
            return None
        if chosen.source is KeySource.BODY:
            return f"body {chosen.key}", True
        label = chosen.label
    parts: list[Canonical] = [
        [name, *_part(seen.alert.signal, name, label)] for name in FIELDS if name in composition.fields
    ]
    return digest([source_id, *parts]).hex(), False


def _part(signal: Signal, name: str, label: str | None) -> list[Canonical]:
    if name == LABEL:
        return [label]
    if name == POSITION:
        return [_text(getattr(signal, each)) for each in TRANSITION]
    return [_text(getattr(signal, name))]


def _text(value: object) -> str | None:
    if value is None:
        return None
    return plain(value) if hasattr(value, "as_tuple") else str(value)  # type: ignore[arg-type]


class Trial:
    """The deliveries of one source, oldest first, through a composition; `verdict` is of those so far."""

    def __init__(self, source_id: str, composition: Composition) -> None:
        self.verdict = Verdict()
        self._source_id = source_id
        self._composition = composition
        self._known: dict[str, Seen] = {}
        self._first: dict[int, Seen] = {}

    def feed(self, past: Iterable[Seen]) -> None:
        for seen in past:
            self._take(seen)

    def _take(self, seen: Seen) -> None:
        found, first = self.verdict, self._first.get(seen.signal_id)
        found.deliveries += 1
        made = key_of(self._source_id, seen, self._composition)
        if made is None:
            found.refused += 1
            return
        key, sent = made
        before = self._known.get(key)
        if before is not None and not _is_open(before, seen, self._composition, sent):
            before = None
        if first is None:
            found.signals += 1
            self._first[seen.signal_id] = seen
        if before is None:
            self._known[key] = seen
            if first is not None:
                found.let_through += 1
                _keep(found.let_through_examples, first, seen)
        elif before.signal_id == seen.signal_id:
            found.caught += 1
        elif _contradicts(before, seen):
            found.conflicts += 1
            _keep(found.conflict_examples, before, seen)
        elif first is None:
            found.swallowed += 1
            _keep(found.swallowed_examples, before, seen)
        else:
            # A copy that is known under another signal's key: not placed again either way.
            found.caught += 1


def try_out(source_id: str, past: Sequence[Seen], composition: Composition) -> Verdict:
    """A whole past at once."""
    trial = Trial(source_id, composition)
    trial.feed(past)
    return trial.verdict


def _contradicts(before: Seen, seen: Seen) -> bool:
    """Whether the door would see that the key does not name this signal (`repeat.judge_repeat`)."""
    signal = before.alert.signal
    first = FirstSighting(signal, RULE_VERSION, intent_fingerprint(signal), before.header_key is not None)
    in_header = seen.header_key is not None
    again = seen.alert.signal
    return judge_repeat(first, again, apart=seen.at - before.at, header_key=in_header) is not None


def _is_open(before: Seen, seen: Seen, composition: Composition, sent: bool) -> bool:
    window = composition.window
    if not sent and seen.alert.signal.bar_time is None:
        window = composition.timeless_window
    return window is None or seen.at - before.at <= window


def _keep(examples: list[Example], one: Seen, other: Seen) -> None:
    if len(examples) < MOST_EXAMPLES:
        examples.append(Example(one=one, other=other))


def told(composition: Composition) -> str:
    """The composition in words."""
    names = [name.replace("_", " ") for name in FIELDS if name in composition.fields]
    body = {
        "identity": "a key in the message is the signal's identity",
        "label": "a key in the message is only a label",
        "ignore": "a key in the message is not looked at",
    }[composition.body_key]
    return f"{', '.join(names) or 'nothing'}; {body}"


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several sources together."""
    total = Verdict()
    for one in verdicts:
        for name in ("deliveries", "signals", "caught", "swallowed", "let_through", "conflicts", "refused"):
            setattr(total, name, getattr(total, name) + getattr(one, name))
        for name in ("swallowed_examples", "let_through_examples", "conflict_examples"):
            setattr(total, name, [*getattr(total, name), *getattr(one, name)][:MOST_EXAMPLES])
    return total
