"""How each kind of value is written in config.toml, and what it becomes.

Pure. A reader takes what TOML gives and returns the typed value, or raises ValueError with what is wrong and
what to write instead. Nothing is rounded, cut or guessed.
"""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from app.clock import SECOND
from app.settings.model import (
    CashSizing,
    DriftTolerance,
    EquitySizing,
    QuantitySizing,
    SignalSizing,
    Sizing,
    Symbols,
)

Reader = Callable[[Any], Any]

_UNITS = {
    "ms": SECOND // 1000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3_600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 604_800 * SECOND,
}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m|h|d|w)")
_DECIMAL = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")
_NAME = re.compile(r"[a-z0-9_-]{1,32}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NO_ID = ("", "...")
"""What a source without an id says."""
_LONGEST = 100 * 365 * _UNITS["d"]
_LARGEST = Decimal(10) ** 15


def parse_duration(text: str) -> int:
    """`90s`, `15m`, `24h`, `90d`, `1.5s`, `500ms`, `2w` as microseconds; ValueError for anything else.

    `m` is minutes; months have no length and no letter.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError('not a time: write a number and its unit, as "90s", "15m", "24h" or "90d"')
    microseconds = Decimal(match[1]) * _UNITS[match[2]]
    if microseconds != int(microseconds):
        raise ValueError("finer than a microsecond: write a longer time")
    if microseconds > _LONGEST:
        raise ValueError("more than a hundred years: write a shorter time")
    return int(microseconds)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text: write it in quotes")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")
    return value


def whole(least: int, most: int) -> Reader:
    """A whole number, written without quotes."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"must be a whole number from {least} to {most}, without quotes")
        if not least <= value <= most:
            raise ValueError(f"must be from {least} to {most}")
        return value

    return read


def duration(least: int = 1) -> Reader:
    """A time of at least `least` microseconds."""

    def read(value: object) -> int:
        if not isinstance(value, str):
            raise ValueError('must be a time in quotes with its unit, as "90s"')
        microseconds = parse_duration(value)
        if microseconds < least:
            smallest = f"{Decimal(least) / SECOND} s" if least > 1 else "above zero"
            raise ValueError(f"too short: must be {'at least ' if least > 1 else ''}{smallest}")
        return microseconds

    return read


def duration_or_forever(least: int = 1) -> Reader:
    def read(value: object) -> int | None:
        if value == "forever":
            return None
        try:
            return int(duration(least)(value))
        except ValueError as error:
            raise ValueError(f'{error}; or "forever"') from None

    return read


@dataclass(frozen=True, slots=True)
class Choice:
    """A reader of one of `words`; whoever makes a form of the settings finds them here."""

    words: tuple[str | int, ...]

    def __call__(self, value: object) -> object:
        if type(value) not in {type(word) for word in self.words} or value not in self.words:
            listed = " or ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in self.words)
            raise ValueError(f"must be {listed}")
        return value


def choice(*words: str | int) -> Reader:
    return Choice(words)


def amount(value: object) -> Decimal:
    """A number of zero or more, in quotes or bare; every digit is kept."""
    if isinstance(value, bool):
        raise ValueError('must be a number, as "1000.50"')
    if isinstance(value, int):
        number = Decimal(value)
    elif isinstance(value, Decimal):
        number = value
    elif isinstance(value, str) and _DECIMAL.fullmatch(value):
        number = Decimal(value)
    else:
        raise ValueError('must be a number of digits and at most one point, as "1000.50"')
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not 0 <= number <= _LARGEST or exponent < -20:
        raise ValueError(f"must be from 0 to {_LARGEST:f}, with at most 20 digits behind the point")
    return number


def rate(value: object) -> int:
    number = amount(value)
    if number != int(number) or number > 1_000_000:
        raise ValueError('must be a whole number of entries a minute, as "30"; "0" is no limit')
    return int(number)


def fraction(value: object) -> Decimal:
    """`2%` as 0.02; above zero, at most 100 %."""
    if not isinstance(value, str) or not value.endswith("%") or not _DECIMAL.fullmatch(value[:-1].strip()):
        raise ValueError('must be a percentage in quotes, as "2%"')
    percent = Decimal(value[:-1].strip())
    if not 0 < percent <= 100:
        raise ValueError("must be above 0% and at most 100%")
    return percent / 100


def name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("must be 1 to 32 small letters, digits, _ or -")
    return value


def names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError('must be a list of at least one name, as ["paper"]')
    read = tuple(name(entry) for entry in value)
    if len(set(read)) < len(read):
        raise ValueError("names one account twice: remove one")
    return read


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError('must be a list of texts, as ["..."]')
    return tuple(value)


def identity(value: object) -> str:
    """A source's id; empty for one that is still to be made (`...` is how the handbook shows that)."""
    if value in NO_ID:
        return ""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("must be 1 to 64 letters, digits, _ or -; leave it out to have one made")
    return value


def loopback(value: object) -> str:
    """A loopback address; `localhost` becomes 127.0.0.1: a hosts file must not decide where the door is."""
    if value == "localhost":
        return "127.0.0.1"
    remedy = 'write "127.0.0.1"; the hook is reached from outside by a tunnel'
    if not isinstance(value, str):
        raise ValueError(f"must be an address in quotes: {remedy}")
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        raise ValueError(f"not an address: {remedy}") from None
    if address.version == 6:
        if address != ipaddress.IPv6Address("::1"):
            raise ValueError(f"not this machine alone: {remedy}")
    elif not address.is_loopback:
        raise ValueError(f"not this machine alone: {remedy}")
    return str(address)


def url(value: object) -> str | None:
    """An address of a broker. Its text is never repeated in an error: it may hold a password."""
    if value is None:
        return None
    try:
        parts = urlsplit(text(value))
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError('must be an address, as "https://sandbox.example"') from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError('must be an address, as "https://sandbox.example"')
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment: secrets are never in this file")
    if parts.scheme == "http" and not is_this_machine(host):
        raise ValueError("must begin with https:// unless it is on this machine")
    return parts.geturl().rstrip("/")


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def symbols(value: object) -> Symbols:
    """`all`, or a list of symbols as alerts spell them, upper case, without the exchange."""
    if value == "all":
        return "all"
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError('must be "all" or a list, as ["AAPL", "MSFT"]')
    if "all" in value:
        raise ValueError('"all" stands alone, without a list')
    for entry in value:
        if ":" in entry:
            raise ValueError(f"leave the exchange out: {entry.rpartition(':')[2]!r}")
        if not 1 <= len(entry) <= 64 or not entry.isprintable() or any(map(str.isspace, entry)):
            raise ValueError("a symbol has 1 to 64 characters and no spaces")
    return tuple(dict.fromkeys(entry.upper() for entry in value))


def sizing(value: object) -> Sizing:
    remedy = 'must be "signal", "quantity:10", "cash:1000" or "equity:5%"'
    if value == "signal":
        return SignalSizing()
    kind, colon, size = text(value).partition(":")
    if not colon or kind not in ("quantity", "cash", "equity"):
        raise ValueError(remedy)
    try:
        if kind == "equity":
            return EquitySizing(fraction(size))
        number = amount(size)
    except ValueError:
        raise ValueError(remedy) from None
    if number == 0:
        raise ValueError("must be above zero")
    return QuantitySizing(number) if kind == "quantity" else CashSizing(number)


def drift_tolerance(value: object) -> DriftTolerance:
    match = re.fullmatch(r"([0-9]{1,6}) steps?", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be a number of quantity steps, as "1 step" or "5 steps"')
    return DriftTolerance(int(match[1]))


def zone(value: object) -> str:
    """A time zone of the IANA database, as `America/New_York`."""
    wanted = text(value)
    try:
        zoneinfo.ZoneInfo(wanted)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        # Windows and some bare systems carry no database: then nothing can be said against the name.
        if zoneinfo.available_timezones() or not re.fullmatch(r"[A-Za-z]+(/[A-Za-z0-9_+-]+)*", wanted):
            raise ValueError('not a time zone: write one as "America/New_York" or "UTC"') from None
    return wanted
