"""Times and bar intervals as senders spell them.

A time without a zone is refused, never placed into a zone by guess. Case decides in an interval: `1M` is a
month, `1m` a minute.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
"""Microseconds: the unit of every time and duration here."""

_RFC_3339 = re.compile(
    r"(?P<base>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).toordinal()
_EPOCH = re.compile(r"[0-9]{10}(?:\.[0-9]{1,9})?|[0-9]{13}(?:\.[0-9]{1,6})?")
"""Seconds have ten digits from 2001 to 2286, milliseconds thirteen: the length tells them apart."""

_TRADINGVIEW = re.compile(r"(?P<count>[0-9]{0,4})(?P<unit>[SDWM]?)")
_OTHERS = re.compile(r"(?P<count>[0-9]{1,4})(?P<unit>[smhdwH])")
_UNITS = {"s": "S", "m": "", "d": "D", "w": "W"}
_LENGTHS = {"S": SECOND, "": MINUTE, "D": DAY, "W": 7 * DAY, "M": 31 * DAY}


class TimeError(ValueError):
    """`reason` is `naive_time`, `invalid_time` or `invalid_interval`; the message is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_time(value: str | Decimal) -> int:
    """UTC microseconds since 1970, of RFC 3339 with a zone or of epoch seconds or milliseconds."""
    text = format(value, "f") if isinstance(value, Decimal) else value
    if _EPOCH.fullmatch(text):
        whole = len(text.partition(".")[0])
        return int(Decimal(text) * (SECOND if whole == 10 else SECOND // 1000))
    match = _RFC_3339.fullmatch(text)
    if match is None:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            raise TimeError("naive_time", "a date without time and zone; write 2026-03-02T15:30:00Z")
        raise TimeError(
            "invalid_time", "write RFC 3339 (2026-03-02T15:30:00Z) or epoch seconds or milliseconds"
        )
    if match["zone"] is None:
        raise TimeError("naive_time", "a time without a zone; add Z or an offset such as -05:00")
    zone = "+0000" if match["zone"] in "Zz" else match["zone"].replace(":", "")
    try:
        # Not strptime: its first call imports a module, and this runs on the loop.
        moment = datetime.fromisoformat(match["base"].replace(" ", "T").upper() + zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeError("invalid_time", "there is no such date, time or zone") from error
    fraction = int((match["fraction"] or "").ljust(6, "0")[:6])
    days = moment.toordinal() - _EPOCH_DAY
    return days * DAY + ((moment.hour * 60 + moment.minute) * 60 + moment.second) * SECOND + fraction


def read_interval(text: str) -> str:
    """TradingView's spelling of an interval: `1h` is `60`, `D` is `1D`, `30s` is `30S`, `1M` stays a month.

    Sources: TradingView's `{{interval}}` and Pine's `timeframe.period`; `15m`, `1h`, `1d`, `1w` elsewhere.
    """
    match = _TRADINGVIEW.fullmatch(text) if text else None
    if match is not None:
        count, unit = int(match["count"] or 1), match["unit"]
    else:
        match = _OTHERS.fullmatch(text)
        if match is None:
            raise TimeError(
                "invalid_interval", f"{text[:20]!r}: write 15, 240, 1D, 1W, 1M, 30S, or 15m, 1h, 1d"
            )
        count, unit = int(match["count"]), match["unit"]
        if unit in "hH":
            count, unit = count * 60, "m"
        unit = _UNITS[unit]
    if count == 0:
        raise TimeError("invalid_interval", "an interval of nothing")
    return f"{count}{unit}"


def interval_length(interval: str) -> int:
    """Microseconds of an interval in read_interval's spelling; an upper bound for days, weeks and months."""
    unit = interval[-1] if interval[-1].isalpha() else ""
    return int(interval.removesuffix(unit) or 1) * _LENGTHS[unit]


def is_daily_or_longer(interval: str) -> bool:
    """D, W and M bars, whose close is known only as an upper bound (sessions, holidays, months)."""
    return interval[-1] in "DWM"
