"""The settings as a form: each key's text as a person types it, and the value that this means in TOML.

Pure, and made from the table of keys: a new key appears in every form by itself. What is wrong is said by the
key's own reader, so that a form and a start say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from app.settings.table import Key
from app.settings.words import Choice

UNSET = object()
"""The key is not in the file: its default holds."""

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_FLAGS = {"yes": True, "no": False}


def choices(key: Key) -> tuple[str, ...]:
    """What can be chosen, as it is shown; empty where the value is typed."""
    if isinstance(key.default, bool):
        return tuple(_FLAGS)
    return tuple(str(word) for word in key.read.words) if isinstance(key.read, Choice) else ()


def shown(value: Any) -> str:
    """A value of the file as it is typed in a form."""
    if value is UNSET or value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) if value else "[]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def typed(key: Key, text: str) -> Any:
    """The TOML value that a typed text means; UNSET for nothing. Whether it is good says `key.read`."""
    text = text.strip()
    if not text:
        return UNSET
    if isinstance(key.default, bool):
        return _FLAGS.get(text, text)
    if isinstance(key.read, Choice):
        return next((word for word in key.read.words if str(word) == text), text)
    if isinstance(key.default, list):
        return _listed(text)
    if _is_whole(key):
        return int(text) if _NUMBER.fullmatch(text) else text
    if "," in text or text.startswith("["):
        return _list_if_allowed(key, text)
    return _text_or_list(key, text)


def problem(key: Key, text: str) -> str:
    """What is wrong with a typed text, by the key's own reader; empty where nothing is."""
    value = typed(key, text)
    if value is UNSET:
        return ""
    try:
        key.read(value)
    except ValueError as error:
        return str(error)
    return ""


def default_text(key: Key) -> str:
    """The default as it is shown, for what is left out."""
    return shown(key.default)


def raw_value(block: Mapping[str, Any], key: Key) -> Any:
    """The value that the file's own table has, or UNSET."""
    return block.get(key.name, UNSET)


def _is_whole(key: Key) -> bool:
    return isinstance(key.default, int) and not isinstance(key.default, bool)


def _listed(text: str) -> list[str]:
    inner = text.removeprefix("[").removesuffix("]")
    return [entry.strip().strip("\"'") for entry in re.split(r"[,\n]", inner) if entry.strip()]


def _list_if_allowed(key: Key, text: str) -> Any:
    """A list where the key takes one, as `symbols` does besides its word."""
    value = _listed(text)
    try:
        key.read(value)
    except ValueError:
        return text if _reads(key, text) or not _takes_lists(key) else value
    return value


def _text_or_list(key: Key, text: str) -> Any:
    """One symbol alone is a list of one."""
    if _reads(key, text) or not _reads(key, [text]):
        return text
    return [text]


def _takes_lists(key: Key) -> bool:
    return _reads(key, ["AAPL"]) or _reads(key, [])


def _reads(key: Key, value: Any) -> bool:
    try:
        key.read(value)
    except ValueError:
        return False
    return True
