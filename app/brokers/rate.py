"""One account's budget of requests: looks wait or give up, so that orders always have room.

Counts on the clock that never steps. It proves nothing about a request; it only says when the next may go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from app.brokers.base import RateLimited
from app.clock import SECOND, Clock

WINDOW = 60 * SECOND
LONGEST_WAIT = 5 * SECOND
"""A look that would have to wait longer is given up: the caller comes again later."""
LONGEST_PAUSE = 3_600 * SECOND
"""What a venue may ask for at most; a nonsensical header must not silence an account for days."""
DEFAULT_PAUSE = 5 * SECOND
"""After a 429 that does not say how long."""


class RateBudget:
    """`per_minute` is the venue's limit; looks leave `reserve` of it to orders and cancels."""

    def __init__(self, clock: Clock, per_minute: int, reserve: int) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._reserve = reserve
        self._sent: deque[int] = deque()
        self._paused_until = 0
        self._looks_until = 0

    def paused(self) -> int:
        """Microseconds for which the venue has asked to be left alone; 0 if it has not."""
        return max(0, self._paused_until - self._clock.boot())

    def note(self) -> None:
        """A request goes out."""
        self._sent.append(self._clock.boot())

    async def look(self) -> None:
        """Waits until a look may go out, and counts it. Raises RateLimited where that takes too long."""
        wait = self._wait_for_look()
        if 0 < wait <= LONGEST_WAIT:
            await asyncio.sleep(wait / SECOND)
            wait = self._wait_for_look()
        if wait > 0:
            raise RateLimited(f"the budget of {self._per_minute} requests a minute is used up", wait)
        self.note()

    def heard(self, status: int, headers: Mapping[str, str], now: int) -> int | None:
        """Reads what an answer says of the budget; after a 429 everything pauses.

        Returns the pause that the answer asks for, in microseconds. `now` is wall time, which the venue's
        own times are held against.
        """
        asked = _retry_after(headers, now)
        if status in (418, 429):
            pause = asked if asked is not None else _until_reset(headers, now)
            self._pause(DEFAULT_PAUSE if pause is None else pause)
            return pause
        left = headers.get("X-RateLimit-Remaining", "")
        if left.isdecimal() and int(left) <= self._reserve:
            wait = _until_reset(headers, now)
            self._looks_until = self._clock.boot() + min(WINDOW if wait is None else wait, WINDOW)
        return asked

    def _pause(self, pause: int) -> None:
        self._paused_until = max(self._paused_until, self._clock.boot() + pause)

    def _wait_for_look(self) -> int:
        now = self._clock.boot()
        while self._sent and now - self._sent[0] >= WINDOW:
            self._sent.popleft()
        until = max(self._paused_until, self._looks_until)
        room = self._per_minute - self._reserve
        if len(self._sent) >= room:
            until = max(until, self._sent[len(self._sent) - room] + WINDOW)
        return max(0, until - now)


def _retry_after(headers: Mapping[str, str], now: int) -> int | None:
    """`Retry-After` in either of its forms (RFC 9110, 10.2.3), in microseconds."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return min(int(text) * SECOND, LONGEST_PAUSE)
    if not text:
        return None
    try:
        at = int(parsedate_to_datetime(text).timestamp()) * SECOND
    except (ValueError, OverflowError):
        return None
    return min(max(0, at - now), LONGEST_PAUSE)


def _until_reset(headers: Mapping[str, str], now: int) -> int | None:
    """`X-RateLimit-Reset`: the second at which the budget is whole again."""
    text = headers.get("X-RateLimit-Reset", "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) == 10):
        return None
    return min(max(SECOND, int(text) * SECOND - now), WINDOW)
