"""Log lines about requests that say nothing of the request.

aiohttp's own loggers print request lines and headers of whatever it cannot parse, the token among them, one
traceback for every scanner. Here all of it shrinks to a sentence without content, and to a few a minute.
"""

from __future__ import annotations

import logging
import traceback

import structlog

from app.clock import SECOND, Clock

log = structlog.get_logger(__name__)

LOGGERS = ("aiohttp.access", "aiohttp.internal", "aiohttp.server", "aiohttp.web")
SPAN = 60 * SECOND
LINES_A_SPAN = 5


class Rate:
    """Lets a few through in each span and counts the rest."""

    def __init__(self, clock: Clock, lines: int = LINES_A_SPAN, span: int = SPAN) -> None:
        self._clock = clock
        self._lines = lines
        self._span = span
        self._since = clock.boot()
        self._passed = 0
        self._held = 0

    def take(self) -> int | None:
        """None: say nothing. Else the number of those that were held back since the last that passed."""
        now = self._clock.boot()
        if now - self._since >= self._span:
            self._since, self._passed = now, 0
        if self._passed >= self._lines:
            self._held += 1
            return None
        self._passed += 1
        held, self._held = self._held, 0
        return held


class Redacting(logging.Filter):
    """Replaces every record by one without content; installed on aiohttp's loggers while a door is open."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._rate = Rate(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        held = self._rate.take()
        if held is None:
            return False
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        kind = f" ({type(error).__name__})" if error is not None else ""
        record.msg = f"the HTTP server had something to say about a request{kind}; {held} more held back"
        record.args = ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True

    def install(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)


def fault(sentence: str, error: BaseException | None, **facts: object) -> None:
    """Logs a fault of ours with its places and without its message."""
    log.error(sentence, trace=[] if error is None else where(error), **facts)


def where(error: BaseException) -> list[str]:
    """The traceback of `error` and of its causes as places and kinds: no message, it may hold a body."""
    places: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        places.append(type(current).__name__)
        # Not extract_tb: it reads the source files, and this runs on the loop.
        for frame, line in traceback.walk_tb(current.__traceback__):
            places.append(f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}")
        current = current.__cause__ or current.__context__
    return places
