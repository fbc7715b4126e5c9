"""Waits that end when the clock says so.

The loop's timers only wake us: on the Qt loop they fire early, and after a stall late. What counts is the
clock that is passed in, asked again after every waking.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from aiohttp import web

from app.claims.base import Refusal
from app.clock import SECOND, Clock
from app.ledger.errors import TicketLate
from app.ledger.ticket import Ticket
from app.listener import answers

T = TypeVar("T")

MAX_BODY = 64 * 1024
"""Bytes (CONTRACT 3)."""


class Refused(Exception):
    """The request ends here, with this refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


async def read_body(request: web.BaseRequest, clock: Clock, until: int) -> bytes:
    """The whole body. `until` is on the clock's boot time.

    Raises Refused: over 64 KiB, not whole by `until` (503: it is the only answer after which a slow sender
    sends again), cut off, or broken in its framing.
    """
    if (request.content_length or 0) > MAX_BODY:
        raise Refused(answers.TOO_LARGE)
    if request.headers.get("Expect", "").strip().lower() == "100-continue" and not request.content.is_eof():
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    parts: list[bytes] = []
    size = 0
    while part := await _next_part(request, clock, until):
        size += len(part)
        if size > MAX_BODY:
            raise Refused(answers.TOO_LARGE)
        parts.append(part)
    return b"".join(parts)


async def _next_part(request: web.BaseRequest, clock: Clock, until: int) -> bytes:
    """What has arrived; empty at the end of the body."""
    while True:
        # What is there is read, however late this loop comes to it: our stall is no fault of the sender.
        left = None if request.content.is_eof() else until - clock.boot()
        if left is not None and left <= 0:
            raise Refused(answers.not_accepted("body_timeout"))
        try:
            async with asyncio.timeout(None if left is None else left / SECOND):
                return await request.content.readany()
        except TimeoutError:
            continue
        except ConnectionError as error:
            raise Refused(answers.not_accepted("disconnected")) from error
        except Exception as error:
            raise Refused(answers.BAD_FRAMING) from error


async def settle(work: asyncio.Future[T], ticket: Ticket, clock: Clock, until: int) -> T:
    """The result of `work`, whose outcome `ticket` decides; TicketLate if `until` (boot time) came first.

    `work` must be a future that may be ended from here, and no task: what it stands for is never cancelled.
    Its verdict wins if the writer had acknowledged it by `until`, however late this loop hears of it
    (HOLES H17).
    """
    deadline = _Deadline(work, ticket, clock, until)
    try:
        return await work
    except asyncio.CancelledError:
        # The connection is being closed at stop: whoever is not answered must not be placed either.
        ticket.expire()
        raise
    finally:
        deadline.cancel()


class _Deadline:
    """Ends `work` with TicketLate at its time, unless the ticket was acknowledged before."""

    def __init__(self, work: asyncio.Future[Any], ticket: Ticket, clock: Clock, until: int) -> None:
        self._work = work
        self._ticket = ticket
        self._clock = clock
        self._until = until
        self._look()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        if self._work.done():
            return
        left = self._until - self._clock.boot()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left / SECOND, self._look)
        elif self._ticket.expire():
            self._work.set_exception(TicketLate(ran=False))
        # Else it is acknowledged: the verdict is on its way and is waited for.


def relayed(task: asyncio.Task[T]) -> asyncio.Future[T]:
    """A future with the result of `task`, which goes on when the future is ended."""
    heard: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def relay(ended: asyncio.Task[T]) -> None:
        if heard.done():
            return
        if ended.cancelled():
            heard.cancel()
            return
        error = ended.exception()
        if error is None:
            heard.set_result(ended.result())
        else:
            heard.set_exception(error)

    task.add_done_callback(relay)
    return heard
