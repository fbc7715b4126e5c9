"""A body as it may be kept: values of fields named like secrets are blanked, whatever state the body is in.

Runs on every body before a byte of it is stored or shown, so it never raises. Where a body is broken and it
is unclear how far a secret goes, more is blanked rather than less.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache

from app.domain.vocabulary import is_secret_name

BLANK = "***"

_HOOK = re.compile(r"(\\?/hook\\?/[\w.\-%]+\\?/)[\w.\-%~]+")


def redact(raw: bytes) -> str:
    """The body's text with its secrets blanked. JSON stays JSON, and what is no secret stays as it was.

    The hook's own address inside a body (some senders repeat it) loses its token.
    """
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").rstrip("\0")
    if not _is_json(text):
        text = _redact_text(text)
    elif _has_something_to_blank(text):
        text = _redact_json(text)
    return _HOOK.sub(rf"\1{BLANK}", text) if "hook" in text else text


# --------------------------------------------------------------------------------------------- sound JSON

_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rf'{_TEXT}|[{{}}\[\]:,]|[^\s"{{}}\[\]:,]+|\s+', re.DOTALL)
_NAME_OR_TEXT = re.compile(rf"({_TEXT})(\s*:)?", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)


def _is_json(text: str) -> bool:
    """An object or array that can be cut into tokens with certainty; duplicates and NaN do no harm."""
    if not _looks_like_json(text):
        return False
    try:
        _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return True


def _has_something_to_blank(text: str) -> bool:
    """Whether `_redact_json` would change anything, which for most alerts it does not: it cuts the text into
    the same names and texts and asks the same of each."""
    for token, colon in _NAME_OR_TEXT.findall(text):
        if colon:
            if _names_a_secret(token):
                return True
        elif _SIGN.search(token, 1, len(token) - 1) and _redact_inside(token) != token:
            return True
    return False


@lru_cache(maxsize=1024)  # every alert of a strategy has the same names
def _names_a_secret(token: str) -> bool:
    return is_secret_name(_unescaped(token[1:-1]))


def _redact_json(text: str) -> str:
    """Token by token: a text followed by a colon is a name, and what comes after it is its value."""
    tokens = [match[0] for match in _TOKEN.finditer(text)]
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if not token.startswith('"'):
            kept.append(token)
            continue
        after = _skip_space(tokens, at)
        if after >= len(tokens) or tokens[after] != ":":
            kept.append(_redact_inside(token))
            continue
        kept.append(token)
        if _names_a_secret(token):
            value = _skip_space(tokens, after + 1)
            kept.extend(tokens[at:value])
            kept.append(f'"{BLANK}"')
            at = _end_of_value(tokens, value)
    return "".join(kept)


def _skip_space(tokens: list[str], at: int) -> int:
    while at < len(tokens) and tokens[at].isspace():
        at += 1
    return at


def _end_of_value(tokens: list[str], at: int) -> int:
    """The place after the value that starts at `at`: one token, or all to the bracket that closes it."""
    depth = 0
    while at < len(tokens):
        if tokens[at] in ("{", "["):
            depth += 1
        elif tokens[at] in ("}", "]"):
            depth -= 1
        at += 1
        if depth == 0:
            break
    return at


def _redact_inside(token: str) -> str:
    """A text that may hold a message of its own (`"secret=..."`, JSON inside JSON) is treated as one."""
    return '"' + "".join(_pieces(token[1:-1], 0, key_is_secret=False)) + '"'


# ------------------------------------------------------------------------------------------- anything else

_SIGN = re.compile(r"""[:=]|["'](?=\s*["'])""")
"""What stands between a name and its value; in broken JSON that may be nothing but the two quotes."""

_MOST_SIGNS = 2_000
"""No alert has so many names; what comes after is blanked unread, for this runs on the loop."""

_LOOK_BACK = 160
_NAME_STARTS = re.compile(r"""\\.|[,;{}\[\]()<>&|?/:="'\r\n]""")
_OPENING = re.compile(r"""(?P<slashes>\\*)(?P<quote>["'])""")
_NEXT_NAME = (
    r"""(?:"(?:[^"\\\n]|\\.){0,100}+"|'(?:[^'\\\n]|\\.){0,100}+'"""
    r"""|\\+["'][^"'\\\n]{0,100}+\\+["']|[\w.\-]++)\s*[:=]"""
)
_AFTER_QUOTE = re.compile(rf"""\s*+(?:,\s*+{_NEXT_NAME}|,?\s*+(?:[}}\]]|\n|\Z))""")
_AFTER_QUOTE_IN_TEXT = re.compile(rf"""{_AFTER_QUOTE.pattern}|\s*+[;&|]|\s++{_NEXT_NAME}""")
_BARE_END = re.compile(rf"""[\r\n;]|(?:[,&|]\s*+|(?<!\s)\s++){_NEXT_NAME}|[}}\]]\s*+\Z""")
_QUOTES = {quote: re.compile(r"\\*" + quote) for quote in "\"'"}

_FIRST_FIELD = re.compile(r"\s*(?:(?P<licence>\d{6,})\s*,|(?P<secret>[^|\s]+)\|[^|]*\|)")
"""`7000000,buy,EURUSD,...` and `secret|...|...`: products that put the secret first, without a name."""


def _redact_text(text: str) -> str:
    """A body that is no JSON."""
    key_is_secret = not _looks_like_json(text)
    first = _FIRST_FIELD.match(text) if key_is_secret else None
    if first is None:
        return "".join(_pieces(text, 0, key_is_secret))
    group = first.lastgroup or "secret"
    return text[: first.start(group)] + BLANK + "".join(_pieces(text, first.end(group), key_is_secret))


def _looks_like_json(text: str) -> bool:
    return text.lstrip().startswith(("{", "["))


def _pieces(text: str, at: int, key_is_secret: bool) -> Iterator[str]:
    """`text` from `at` on, in pieces, with the value after every secret's name blanked.

    `key_is_secret`: products that send plain text have the secret as `key=`; in JSON it is the identity.
    """
    after_quote = _AFTER_QUOTE if _looks_like_json(text) else _AFTER_QUOTE_IN_TEXT
    for number, sign in enumerate(_SIGN.finditer(text)):
        if sign.start() < at:
            continue
        if number > _MOST_SIGNS:
            yield text[at : sign.start()] + BLANK
            return
        name = _name_before(text, sign.end() if sign[0] in "\"'" else sign.start())
        last = (name.split() or [""])[-1]
        is_secret = is_secret_name(name) or (last != name and is_secret_name(last))
        if is_secret or (key_is_secret and last.lower() == "key"):
            start = sign.end()
            while start < len(text) and text[start].isspace():
                start += 1
            opening, end = _value(text, start, after_quote)
            yield text[at:start] + opening + BLANK + opening
            at = end
    yield text[at:]


def _name_before(text: str, end: int) -> str:
    """The name that ends at `end`, its closing quote and escapes read."""
    window = _CODE.sub(_character, text[max(0, end - _LOOK_BACK) : end].rstrip())
    window = window.rstrip("\"'").rstrip("\\")
    return _NAME_STARTS.split(window)[-1]


def _value(text: str, start: int, after_quote: re.Pattern[str]) -> tuple[str, int]:
    """The opening quote of the value at `start` and where it ends: in doubt, at the end of the text."""
    if text[start : start + 1] in ("{", "["):
        return "", len(text)
    opening = _OPENING.match(text, start)
    if opening is None:
        end = _BARE_END.search(text, start)
        return "", len(text) if end is None else end.start()
    # A quote closes if it is escaped as the opening one is and what follows can follow a value.
    slashes = len(opening["slashes"])
    for match in _QUOTES[opening["quote"]].finditer(text, opening.end()):
        escapes = len(match[0]) - 1
        closes = escapes == slashes if slashes else escapes % 2 == 0
        if closes and after_quote.match(text, match.end()):
            return opening[0], match.end()
    return opening[0], len(text)


_CODE = re.compile(r"\\u([0-9a-fA-F]{4})")


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _unescaped(name: str) -> str:
    """A name in JSON with its escapes read: `s\\u0065cret` is `secret`."""
    return re.sub(r"\\(.)", r"\1", _CODE.sub(_character, name), flags=re.DOTALL)
