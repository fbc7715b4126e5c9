"""The contract's paragraph 'Freshness', with the vectors of facts/tradingview-and-tunnels.md 5."""

import pytest

from app.domain.freshness import Age, in_future, is_stale, signal_age, signal_time
from app.domain.signal import Action, Signal
from app.domain.times import DAY, MINUTE, SECOND, read_time

OPEN = read_time("2026-03-02T15:30:00Z")


def alert(interval: str | None = None, bar_time: int | None = None, fired_at: int | None = None) -> Signal:
    return Signal(symbol="AAPL", action=Action.BUY, interval=interval, bar_time=bar_time, fired_at=fired_at)


def test_a_fire_time_always_decides() -> None:
    assert signal_age(alert("1D", OPEN, OPEN + 7 * SECOND), OPEN + 9 * SECOND) == Age(2 * SECOND, "fired_at")
    assert signal_age(alert(fired_at=OPEN), OPEN - SECOND) == Age(-SECOND, "fired_at")


@pytest.mark.parametrize(
    ("interval", "received", "age"),
    [
        ("15", 0, 0),
        ("15", 15 * MINUTE, 0),
        ("15", 15 * MINUTE + 4 * SECOND, 4 * SECOND),
        ("1", 90 * SECOND, 30 * SECOND),
        ("240", 240 * MINUTE + 1, 1),
        ("30S", 31 * SECOND, SECOND),
        ("1D", DAY + SECOND, SECOND),
        ("1D", 6 * 60 * MINUTE + 30 * MINUTE, 0),
        ("1W", 7 * DAY, 0),
        ("1M", 31 * DAY + 1, 1),
        ("1", -10 * SECOND, 0),
    ],
)
def test_else_the_close_of_the_bar_and_any_moment_inside_it_is_fresh(
    interval: str, received: int, age: int
) -> None:
    assert signal_age(alert(interval, OPEN), OPEN + received) == Age(age, "bar")


@pytest.mark.parametrize("signal", [alert(), alert("15"), alert(None, OPEN)])
def test_else_nothing_is_known(signal: Signal) -> None:
    age = signal_age(signal, OPEN + 400 * DAY)
    assert age == Age(None, "none")
    assert not is_stale(age, is_exit=False, max_age=0, max_exit_age=0)


def test_entries_and_exits_have_limits_of_their_own() -> None:
    def stale(microseconds: int, is_exit: bool) -> bool:
        age = Age(microseconds, "fired_at")
        return is_stale(age, is_exit=is_exit, max_age=90 * SECOND, max_exit_age=15 * MINUTE)

    assert [stale(s * SECOND, False) for s in (-20, 0, 90, 91)] == [False, False, False, True]
    assert [stale(s * SECOND, True) for s in (91, 900, 901)] == [False, False, True]


def test_more_than_30_s_ahead_is_the_future() -> None:
    fired, bar = alert(fired_at=OPEN), alert("15", OPEN)
    assert [in_future(fired, OPEN - s * SECOND) for s in (0, 30, 31)] == [False, False, True]
    assert [in_future(bar, OPEN - s * SECOND) for s in (0, 30, 31)] == [False, False, True]
    assert [in_future(alert(None, OPEN), OPEN - s * SECOND) for s in (30, 31)] == [False, True]
    assert not in_future(alert(), 0)


def test_a_bar_that_opens_later_is_no_future_where_the_fire_time_is_known() -> None:
    """The fill of a market order carries the next bar's time."""
    assert not in_future(alert("240", OPEN + MINUTE, OPEN), OPEN)


def test_the_time_a_signal_states() -> None:
    assert signal_time(alert("1D", OPEN, OPEN + SECOND)) == OPEN + SECOND
    assert signal_time(alert("1D", OPEN)) == OPEN
    assert signal_time(alert("1D")) is None
