"""Bytes -> fields: strict JSON in UTF-8, decided by content and never by Content-Type.

Nothing lenient here: a body that two readers could read differently is refused, with the spot and the way to
mend it. No value of the body is repeated in a refusal, since it may be a secret. What the fields mean is
`app.domain.alert`'s business.
"""

from __future__ import annotations

import json
import re
import unicodedata
from decimal import Decimal
from typing import NamedTuple

from app.domain.number import NumberError, read_number
from app.domain.signal import InvalidSignal
from app.listener.redaction import redact

__all__ = ["read_body", "redact"]

MAX_DEPTH = 6
MAX_FIELDS = 64
MAX_TEXT = 4096

_BOM = "\ufeff"
_LAYOUT = frozenset("\t\n\r")
"""The control characters that a text may hold, escaped: a comment has lines."""

_PLACEHOLDER = re.compile(r"\{\{[^\n]{0,100}?\}\}")
_NEAR = 104


class _Object(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a name that comes twice is still seen."""


class _BadNumber(NamedTuple):
    reason: str
    detail: str


def _number(text: str) -> Decimal | _BadNumber:
    try:
        return read_number(text)
    except NumberError as error:
        return _BadNumber(error.reason, str(error))


# strict: a raw control character inside a string is an error of json's own, with its position.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object, parse_float=_number, parse_int=_number, parse_constant=_number, strict=True
)


def read_body(raw: bytes) -> dict[str, object]:
    """The fields of a body: text, Decimal, bool, None, dict and list.

    Raises InvalidSignal and nothing else: `empty_body`, `not_utf8`, `not_an_order_message`, `invalid_json`
    (with line, column and a hint), `batch_unsupported`, `duplicate_key`, `too_deep`, `too_many_fields`,
    `string_too_long`, `control_character`, `lone_surrogate`, `non_finite_number`, `number_too_long`,
    `number_out_of_range`.
    """
    text = _decode(raw)
    start = len(text) - len(text.lstrip())
    if start == len(text):
        raise InvalidSignal("empty_body", (), "the alert's message is empty")
    if text[start] not in "{[":
        detail = "this is text, not JSON, as an alert with its default message; paste the JSON of the README"
        raise InvalidSignal("not_an_order_message", (), detail)
    value = _parse(text, start)
    if not isinstance(value, _Object):
        raise InvalidSignal("batch_unsupported", (), "several orders in one body; send one alert for each")
    return _fields(value, "", 1)


def _decode(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is not UTF-8; send the body as UTF-8"
        raise InvalidSignal("not_utf8", (), detail) from error
    text = text.removeprefix(_BOM).rstrip("\0")
    if "\0" in text:
        raise InvalidSignal("not_utf8", (), "zero bytes in it, as in UTF-16; send the body as UTF-8")
    return text


def _parse(text: str, start: int) -> object:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _invalid_json(text, error.pos, error.msg) from error
    except RecursionError as error:
        raise InvalidSignal("too_deep", (), f"nested deeper than {MAX_DEPTH} levels") from error
    rest = text[end:].lstrip()
    if rest:
        raise _invalid_json(text, len(text) - len(rest), "Extra data")
    return value


# --------------------------------------------------------------------------------- bounds of what was parsed


def _fields(pairs: _Object, path: str, depth: int) -> dict[str, object]:
    if depth > MAX_DEPTH:
        raise InvalidSignal("too_deep", (_shown(path),), f"nested deeper than {MAX_DEPTH} levels")
    if len(pairs) > MAX_FIELDS:
        detail = f"{len(pairs)} fields in one object, at most {MAX_FIELDS}"
        raise InvalidSignal("too_many_fields", (_shown(path),) if path else (), detail)
    fields: dict[str, object] = {}
    for name, value in pairs:
        inner = f"{path}.{name}" if path else name
        _check_text(name, inner)
        if name in fields:
            raise InvalidSignal(
                "duplicate_key", (_shown(inner),), f"{_shown(inner)} comes twice in one object"
            )
        fields[name] = _value(value, inner, depth)
    return fields


def _value(value: object, path: str, depth: int) -> object:
    if isinstance(value, _BadNumber):
        raise InvalidSignal(value.reason, (_shown(path),), value.detail)
    if isinstance(value, _Object):
        return _fields(value, path, depth + 1)
    if isinstance(value, list):
        if depth + 1 > MAX_DEPTH:
            raise InvalidSignal("too_deep", (_shown(path),), f"nested deeper than {MAX_DEPTH} levels")
        return [_value(item, path, depth + 1) for item in value]
    if isinstance(value, str):
        _check_text(value, path)
    return value


def _check_text(text: str, path: str) -> None:
    if len(text) > MAX_TEXT:
        raise InvalidSignal("string_too_long", (_shown(path),), f"at most {MAX_TEXT} characters")
    if text.isprintable():
        return
    for character in text:
        category = unicodedata.category(character)
        if category == "Cs":
            raise InvalidSignal("lone_surrogate", (_shown(path),), "half of a surrogate pair: no character")
        if category == "Cc" and character not in _LAYOUT:
            detail = f"control character U+{ord(character):04X}"
            raise InvalidSignal("control_character", (_shown(path),), detail)


def _shown(path: str) -> str:
    """A field's name that can go into an answer whatever the sender made of it."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in path)
    return text if len(text) <= 80 else text[:79] + "…"


# ----------------------------------------------------------------------------------------- what json refused


def _invalid_json(text: str, at: int, message: str) -> InvalidSignal:
    at, hint = _hint(text, at, message)
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return InvalidSignal("invalid_json", (), f"line {line} column {column}: {hint}")


def _hint(text: str, at: int, message: str) -> tuple[int, str]:
    """Where to point, and what to do there. json's own position and words differ between Python versions."""
    for match in _PLACEHOLDER.finditer(text, max(0, at - _NEAR), at + _NEAR):
        if match.start() <= at <= match.end():
            # Shown whole: it is the template's own text, and only its name leads the user to the right line.
            name = _shown(match[0])
            return at, f"the placeholder {name} was not filled in; it may not exist for this kind of alert"
    here, before = text[at : at + 1], text[:at].rstrip()
    if here and here < " ":
        escaped = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(here, f"\\u{ord(here):04x}")
        what = "a line break" if here in "\r\n" else "a control character"
        return at, f"{what} inside a text; write it as {escaped}"
    comma = at if here == "," else len(before) - 1 if before.endswith(",") else -1
    after = text[comma + 1 :].lstrip()[:1] if comma >= 0 else ""
    if after in ("}", "]") and after:
        return comma, f"remove the comma before the closing {'brace' if after == '}' else 'bracket'}"
    if re.match(r"[+-]?(?:nan|na|inf|infinity)\b", text[at:], re.IGNORECASE):
        return at, "NaN or na is no number: a plot without a value yet is sent like this"
    if re.match(r"(?:True|False|None)\b", text[at:]):
        return at, "write true, false and null in small letters"
    if before.endswith(",") and re.search(r"\d,\Z", before) and re.match(r"\d", here):
        return at, "a decimal comma; write the number with a point"
    if here in ("“", "”", "„", "‘", "’", "'"):
        return at, 'use straight double quotes: "'
    if message.startswith("Unterminated string"):
        return at, "the text that starts here has no closing quote"
    if message == "Extra data":
        return at, "something follows after the end of the JSON"
    return at, message[:1].lower() + message[1:]
