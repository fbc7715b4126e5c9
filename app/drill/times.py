"""Moments on the wire: RFC 3339 with nanoseconds, as the venue writes them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")


def write_ns(ns: int) -> str:
    """`2026-03-02T15:30:00.123456789Z`."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def write(microseconds: int) -> str:
    return write_ns(microseconds * 1_000)


def read_ns(text: str) -> int:
    """RFC 3339, a date alone, or microseconds since 1970, as nanoseconds. Raises ValueError."""
    if text.isdigit():
        return int(text) * 1_000
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00Z"
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"no time: {text!r}")
    stamp, fraction, zone = match.groups()
    whole = datetime.fromisoformat(f"{stamp}{'+00:00' if zone in (None, 'Z') else zone}")
    return int(whole.timestamp()) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def read_moment(text: str) -> int:
    """The same in microseconds."""
    return read_ns(text) // 1_000
