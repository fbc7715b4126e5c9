"""The trading day, in the zone that the configuration counts days in."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from app.clock import SECOND


def day_of(now: int, zone: str) -> str:
    """The calendar day of a moment (UTC microseconds) in that zone, as YYYY-MM-DD."""
    return datetime.fromtimestamp(now // SECOND, ZoneInfo(zone)).date().isoformat()


def day_start(now: int, zone: str) -> int:
    """The first moment of that day, as UTC microseconds; of two midnights (clocks set back) the first."""
    local = datetime.fromtimestamp(now // SECOND, ZoneInfo(zone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return int(midnight.astimezone(UTC).timestamp()) * SECOND
