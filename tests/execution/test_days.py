"""The trading day in its zone: its name, and where it begins when the clocks are set."""

from datetime import UTC, datetime

import pytest

from app.clock import SECOND
from app.execution.days import day_of, day_start


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.mark.parametrize(
    ("moment", "zone", "day", "start"),
    [
        ("2026-03-02T15:30:00", "America/New_York", "2026-03-02", "2026-03-02T05:00:00"),
        ("2026-03-02T04:59:59", "America/New_York", "2026-03-01", "2026-03-01T05:00:00"),
        ("2026-03-02T05:00:00", "America/New_York", "2026-03-02", "2026-03-02T05:00:00"),
        # The clocks go forward on 8 March and back on 1 November: the day begins before that.
        ("2026-03-08T20:00:00", "America/New_York", "2026-03-08", "2026-03-08T05:00:00"),
        ("2026-11-01T20:00:00", "America/New_York", "2026-11-01", "2026-11-01T04:00:00"),
        ("2026-03-02T15:30:00", "Asia/Tokyo", "2026-03-03", "2026-03-02T15:00:00"),
        ("2026-03-02T15:30:00", "UTC", "2026-03-02", "2026-03-02T00:00:00"),
        # Havana sets its clocks back from 1:00 to 0:00: of two midnights the first begins the day.
        ("2026-11-01T05:30:00", "America/Havana", "2026-11-01", "2026-11-01T04:00:00"),
        ("2026-11-01T12:00:00", "America/Havana", "2026-11-01", "2026-11-01T04:00:00"),
        # And forward from 0:00 to 1:00: the day begins at the moment of the change.
        ("2026-03-08T12:00:00", "America/Havana", "2026-03-08", "2026-03-08T05:00:00"),
    ],
)
def test_a_day_begins_at_its_first_moment(moment: str, zone: str, day: str, start: str) -> None:
    assert day_of(at(moment), zone) == day
    assert day_start(at(moment), zone) == at(start)
