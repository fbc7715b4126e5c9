"""A payload's fields by what their names mean (HOLES H9): used, harmless, meaning-changing, unknown.

A name that changes what is asked for and is not honoured is refused here; nothing is dropped in silence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TypeVar

from app.domain import number, values
from app.domain.signal import InvalidSignal
from app.domain.values import Sent
from app.domain.vocabulary import (
    CLOSE,
    ENTERS_THE_ORDER,
    FLAG_WORDS,
    HARMLESS,
    HARMLESS_IN_STRATEGY,
    HARMLESS_PATTERN,
    MEANING_CHANGING,
    NAMES,
    NEUTRAL,
    NOT_IN_STRATEGY,
    RANK,
    fold,
    is_credential,
)

T = TypeVar("T")


def each_field(fields: Mapping[str, object]) -> Iterator[tuple[Sent, str]]:
    """Each field with its folded name, a nested `strategy` object as its fields."""
    for name, value in fields.items():
        folded = fold(name)
        if folded == "strategy" and isinstance(value, Mapping):
            for inner, inner_value in value.items():
                yield Sent(f"{name}.{inner}", inner_value, nested=True), fold(inner)
        else:
            yield Sent(name, value), folded


def field_of(sent: Sent, folded: str) -> str | None:
    """The field that a name gives, None where it gives none."""
    if sent.nested and folded == "name":
        return "strategy"
    if folded == CLOSE and _is_flag(sent.value):
        return "reduce_only"  # an order to close and no price; dropped, it would leave a position open
    field = NAMES.get(folded)
    return None if sent.nested and field in NOT_IN_STRATEGY else field


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and fold(value) in FLAG_WORDS)


def _is_harmless(sent: Sent, folded: str) -> bool:
    if sent.nested and folded in HARMLESS_IN_STRATEGY:
        return True
    name = sent.name.rpartition(".")[2]
    return folded in HARMLESS or HARMLESS_PATTERN.fullmatch(folded) is not None or is_credential(name)


def _is_neutral(sent: Sent, folded: str) -> bool:
    if values.is_off(sent.value):
        return True
    if isinstance(sent.value, Decimal):
        return number.plain(sent.value) in NEUTRAL.get(folded, ())
    return isinstance(sent.value, str) and fold(sent.value) in NEUTRAL.get(folded, ())


class Fields:
    """The used fields of one payload, by field, and the warnings so far (each `word: sentence`).

    Raises InvalidSignal `unsupported_field`, and `unknown_field` where a live account is behind the source.
    """

    def __init__(self, fields: Mapping[str, object], reaches_live: bool) -> None:
        self.warnings: list[str] = []
        self.found: dict[str, list[Sent]] = defaultdict(list)
        self._sort(fields, reaches_live)

    def _sort(self, fields: Mapping[str, object], reaches_live: bool) -> None:
        unsupported: dict[str, list[str]] = defaultdict(list)
        unknown: list[str] = []
        ranked: list[tuple[int, str, Sent]] = []
        for sent, folded in each_field(fields):
            if values.is_absent(sent.value):
                continue
            field = field_of(sent, folded)
            if field is not None:
                ranked.append((RANK.get(folded, 0), field, sent))
            elif _is_harmless(sent, folded):
                continue
            elif folded in MEANING_CHANGING:
                if not _is_neutral(sent, folded):
                    unsupported[MEANING_CHANGING[folded]].append(sent.name)
            else:
                unknown.append(sent.name)
        if unsupported:
            names = tuple(name for group in unsupported.values() for name in group)
            raise InvalidSignal(
                "unsupported_field",
                names,
                "; ".join(f"{', '.join(n)}: {remedy}" for remedy, n in unsupported.items()),
            )
        if unknown and reaches_live:
            detail = "not known here, so it may change the order; remove it or put it under extras"
            raise InvalidSignal("unknown_field", tuple(unknown), detail)
        if unknown:
            self.warn("unknown_field", f"ignored, a live source would refuse it: {', '.join(unknown)}")
        for _, field, sent in sorted(ranked, key=lambda item: item[0]):
            self.found[field].append(sent)

    def warn(self, word: str, sentence: str) -> None:
        self.warnings.append(f"{word}: {sentence}")

    def names(self, *fields: str) -> tuple[str, ...]:
        """The fields as they were sent."""
        return tuple(sent.name for field in fields for sent in self.found[field])

    def read(self, field: str, reader: Callable[[Sent], T]) -> T | None:
        """The field's value, None where it was not sent. Refuses names that disagree about the order."""
        sent = self.found.get(field)
        if not sent:
            return None
        if len(sent) == 1 or field not in ENTERS_THE_ORDER:
            return reader(sent[0])
        first, *others = [reader(s) for s in sent]
        if any(other != first for other in others):
            raise self.contradiction("say different things", field)
        return first

    def contradiction(self, detail: str, *fields: str) -> InvalidSignal:
        names = self.names(*fields)
        return InvalidSignal("contradictory", names, f"{' and '.join(names)} {detail}")
