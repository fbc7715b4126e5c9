"""Where in a message's text a field stands, or the place that the door complained of: for marking it.

Pure, and decides nothing: the text may be broken, and what cannot be found is not marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[{}\[\]:,]|[^\s"{}\[\]:,]+')
_PLACE = re.compile(r"line ([0-9]+) column ([0-9]+): ")
_BYTE = re.compile(r"byte ([0-9]+) is not UTF-8")


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of the text: offsets in characters, and its line and column, both from 1."""

    start: int
    end: int
    line: int
    column: int


def mark_at(text: str, start: int, end: int) -> Mark:
    """The span with its line and column, inside the text and at least one character where there is one."""
    start = max(0, min(start, len(text)))
    end = max(start, min(max(end, start + 1), len(text)))
    line = text.count("\n", 0, start) + 1
    return Mark(start, end, line, start - text.rfind("\n", 0, start))


def place_said(detail: str) -> tuple[int, int] | None:
    """Line and column, from 1, that a refusal of `invalid_json` begins with."""
    match = _PLACE.match(detail)
    return (int(match[1]), int(match[2])) if match else None


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a line and column, both from 1; the end of the text where it has not so many."""
    start = 0
    for _ in range(line - 1):
        found = text.find("\n", start)
        if found < 0:
            return len(text)
        start = found + 1
    return min(start + column - 1, len(text))


def offset_of_byte(raw: bytes, detail: str) -> int | None:
    """The offset, in the text as it is shown, of the byte that a refusal of `not_utf8` names."""
    match = _BYTE.match(detail)
    return len(raw[: int(match[1]) - 1].decode("utf-8", "replace")) if match else None


def field_marks(text: str, fields: Iterable[str]) -> tuple[Mark, ...]:
    """Name and value of each field, in the order of the text; a field that comes twice is marked twice.

    A nested field is named as the door names it: `strategy.order_action`.
    """
    wanted = set(fields)
    found = [mark_at(text, start, end) for path, start, end in _pairs(text) if path in wanted]
    return tuple(sorted(found, key=lambda mark: mark.start))


def _pairs(text: str) -> Iterator[tuple[str, int, int]]:
    """Each name with its value: path, where the name starts, where the value ends."""
    tokens = list(_TOKEN.finditer(text))
    open_pairs: list[tuple[str, int, int]] = []
    """Of each object or list that is open: the path to it, where its name starts, the depth outside it."""
    depth = 0
    prefix = ""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        word = token[0]
        if word in "{[":
            depth += 1
        elif word in "}]":
            depth -= 1
            while open_pairs and open_pairs[-1][2] >= depth:
                path, start, _ = open_pairs.pop()
                yield path, start, token.end()
                prefix = open_pairs[-1][0] if open_pairs else ""
        elif word[0] == '"' and at + 1 < len(tokens) and tokens[at + 1][0] == ":":
            name = _unquoted(word)
            path = f"{prefix}.{name}" if prefix else name
            value = tokens[at + 2] if at + 2 < len(tokens) else None
            if value is not None and value[0] in "{[":
                open_pairs.append((path, token.start(), depth))
                prefix = path
            else:
                end = tokens[at + 1].end() if value is None or value[0] in ",}]" else value.end()
                yield path, token.start(), end
            at += 1
        at += 1
    for path, start, _ in open_pairs:
        yield path, start, len(text)


def _unquoted(word: str) -> str:
    return re.sub(r'\\(["\\/])', r"\1", word.removeprefix('"').removesuffix('"'))
