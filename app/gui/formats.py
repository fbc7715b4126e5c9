"""How times, durations, numbers, addresses and foreign text are written for a person. Pure: no Qt, no I/O.

Digits are never rounded or regrouped, and nothing that a sender wrote can hide or reorder its neighbours.
"""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import datetime, tzinfo
from html import escape

ELLIPSIS = "…"
_UNREADABLE = frozenset({"digest"})
_TOKEN = re.compile(r"(/hook/[^/]+/)[^/]+")


def moment(utc: str) -> datetime:
    """The views' RFC 3339 text as an aware datetime."""
    return datetime.fromisoformat(utc)


def microseconds_between(earlier: str, later: str) -> int:
    delta = moment(later) - moment(earlier)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def local_time(utc: str | None, zone: tzinfo | None = None) -> str:
    """`2026-03-02 16:30:04`, in the local zone unless one is given."""
    return "" if utc is None else moment(utc).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")


def local_milliseconds(utc: str, zone: tzinfo | None = None) -> str:
    """`16:30:04.123`."""
    return moment(utc).astimezone(zone).strftime("%H:%M:%S.%f")[:-3]


def offset(utc: str, zone: tzinfo | None = None) -> str:
    """`UTC+01:00`: how far local time is from UTC at that moment."""
    text = moment(utc).astimezone(zone).strftime("%z")
    return f"UTC{text[:3]}:{text[3:5]}"


def both_times(utc: str, zone: tzinfo | None = None) -> str:
    """`2026-03-02 16:30:04 (UTC+01:00), 2026-03-02T15:30:04.123456Z`."""
    return f"{local_time(utc, zone)} ({offset(utc, zone)}), {utc}"


def duration(microseconds: int) -> str:
    """`0.8 ms`, `212 ms`, `4.03 s`, `2 min 03 s`, `3 h 05 min`, `4 d 02 h`."""
    sign, us = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if us < 100_000:
        return f"{sign}{us / 1_000:.1f} ms"
    if us < 1_000_000:
        return f"{sign}{us // 1_000} ms"
    if us < 60_000_000:
        return f"{sign}{us / 1_000_000:.2f} s"
    seconds = us // 1_000_000
    if seconds < 3_600:
        return f"{sign}{seconds // 60} min {seconds % 60:02} s"
    if seconds < 86_400:
        return f"{sign}{seconds // 3_600} h {seconds // 60 % 60:02} min"
    return f"{sign}{seconds // 86_400} d {seconds // 3_600 % 24:02} h"


def milliseconds(value: float | None) -> str:
    """The views' `ack_ms`; empty where a crash came before the answer."""
    return "" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def grouped(number: int) -> str:
    return f"{number:,}"


def visible(text: str) -> str:
    """Foreign text with every control and direction character spelled out, line breaks and tabs kept."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each in "\n\t" or each == " " or unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else f"\\u{ord(each):04x}"
        for each in text
    )


def one_line(text: str) -> str:
    """`visible`, on one line."""
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def plain_tip(text: str) -> str:
    """A tooltip that shows this text as it is: Qt would take text with tags in it for rich text."""
    return f"<qt>{escape(text)}</qt>"


def without_token(address: str) -> str:
    """A hook address with its token blanked: what may stand on a screen that others see."""
    return _TOKEN.sub(lambda found: found[1] + "•" * 8, address)


def told(detail: str) -> str:
    """An event's detail, a JSON object, as `FROM → TO, reason, name value, ...`; what is null is left out."""
    try:
        value = json.loads(detail)
    except ValueError:
        return detail
    if not isinstance(value, dict):
        return detail
    parts = []
    if value.get("from") is not None and value.get("to") is not None:
        parts.append(f"{value.pop('from')} → {value.pop('to')}")
    if value.get("reason"):
        parts.append(str(value.pop("reason")))
    rest = {name: each for name, each in value.items() if each is not None and name not in _UNREADABLE}
    return ", ".join([*parts, *(f"{name.replace('_', ' ')} {each}" for name, each in rest.items())])


def pretty_json(body: str) -> str:
    """The same JSON with line breaks; every digit and repeated name as it was sent. Not JSON: unchanged."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return body
    return _laid_out(body)


def _laid_out(body: str) -> str:
    written: list[str] = []
    depth = 0
    in_string = escaped = just_opened = False
    for each in body:
        if in_string:
            written.append(each)
            in_string = escaped or each != '"'
            escaped = each == "\\" and not escaped
            continue
        if each in " \t\r\n":
            continue
        if just_opened and each not in "}]":
            written.append("\n" + "  " * depth)
        if each in "}]":
            depth -= 1
            written.append(each if just_opened else "\n" + "  " * depth + each)
        elif each in "{[":
            depth += 1
            written.append(each)
        elif each == ",":
            written.append(",\n" + "  " * depth)
        else:
            written.append(": " if each == ":" else each)
        in_string = each == '"'
        just_opened = each in "{["
    return "".join(written)
