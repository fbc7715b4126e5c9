"""How old a signal is when it arrives (CONTRACT 3, 'Freshness').

Pure: the time of receipt is an argument. Judging costs nothing and promises nothing for later; the worker
judges again before it sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from app.domain.fields import each_field
from app.domain.signal import InvalidSignal, Signal
from app.domain.times import SECOND, interval_length
from app.domain.vocabulary import NAMES

MAX_SKEW = 30 * SECOND
"""How far in the future a signal may seem to be: two clocks never agree."""


class Age(msgspec.Struct, frozen=True):
    """Microseconds from the signal's moment to its receipt, and what that moment is.

    `fired_at`: stated by the sender; may be negative by the skew of the clocks. `bar`: the bar's close, an
    upper bound on D, W and M bars; 0 while the bar is open. `none`: nothing is known, microseconds is None.
    """

    microseconds: int | None
    basis: Literal["fired_at", "bar", "none"]


def signal_age(signal: Signal, received_at: int) -> Age:
    """Age at `received_at` (UTC microseconds). A stated fire time always decides."""
    if signal.fired_at is not None:
        return Age(received_at - signal.fired_at, "fired_at")
    if signal.bar_time is not None and signal.interval is not None:
        close = signal.bar_time + interval_length(signal.interval)
        return Age(max(0, received_at - close), "bar")
    return Age(None, "none")


def signal_time(signal: Signal) -> int | None:
    """The moment the signal itself states, UTC microseconds: its fire time, else its bar's open."""
    return signal.bar_time if signal.fired_at is None else signal.fired_at


def in_future(signal: Signal, received_at: int) -> bool:
    """Is the signal's own time more than 30 s ahead? Then a clock or a template is wrong."""
    stated = signal_time(signal)
    return stated is not None and stated - received_at > MAX_SKEW


def refuse_future(fields: Mapping[str, object], signal: Signal, received_at: int) -> None:
    """Raises InvalidSignal `in_future`, naming the time as it was sent among `fields`."""
    if in_future(signal, received_at):
        detail = "more than 30 s in the future: a clock is wrong, or the time is not when it fired"
        raise InvalidSignal("in_future", _time_fields(fields), detail)


def _time_fields(fields: Mapping[str, object]) -> tuple[str, ...]:
    """The names, as sent, of the time that was looked at."""
    for field in ("fired_at", "bar_time"):
        names = tuple(sent.name for sent, folded in each_field(fields) if NAMES.get(folded) == field)
        if names:
            return names
    return ()


def is_stale(age: Age, *, is_exit: bool, max_age: int, max_exit_age: int) -> bool:
    """Is it older than its limit (microseconds)? An age that nobody knows is not stale."""
    return age.microseconds is not None and age.microseconds > (max_exit_age if is_exit else max_age)
