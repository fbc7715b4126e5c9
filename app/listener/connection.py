"""The HTTP server under the door: connections with their moments, a cap on them, no words of aiohttp's own.

What a request means is not decided here. aiohttp's error pages and log lines repeat what was sent, so none of
them leaves this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import StreamReader, web
from aiohttp.http_exceptions import InvalidURLError

from app.clock import Clock
from app.listener import answers
from app.listener.answers import Answer
from app.listener.quiet import Rate, fault

log = structlog.get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

SERVER = "http"
"""The Server header: neither what this is nor what it is built of."""


@dataclass(slots=True)
class Visit:
    """One request: when its headers were there (`at` wall time, `boot` on the clock that never steps)."""

    at: int
    boot: int
    authenticated: bool = False
    """From here on its connection is not closed to make room for another."""


def to_response(answer: Answer, content: bytes | None = None) -> web.Response:
    """`content` is the encoded body where that is known already."""
    response = web.Response(
        body=answer.encoded() if content is None else content,
        status=answer.http_status,
        content_type="application/json",
        charset="utf-8",
        headers={"Server": SERVER, "Cache-Control": "no-store", **answer.headers},
    )
    if answer.close:
        response.force_close()
    return response


class Connection(web.RequestHandler):
    """One connection of the door."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, clock: Clock, **options: Any) -> None:
        super().__init__(server, loop=loop, **options)
        self._server_of_ours = server
        self._clock = clock
        self._last_data = Visit(0, 0)
        self._visit: Visit | None = None
        self._content: StreamReader | None = None
        self.idle_since = clock.boot()

    @property
    def may_be_closed(self) -> bool:
        """Whether nobody who showed a right to be here waits on it."""
        return self._visit is None or not self._visit.authenticated

    def begin(self, request: web.BaseRequest) -> Visit:
        """The visit of the request that starts now. Its headers came with the last data or before."""
        self._content = request.content
        self._visit = self._last_data
        self._last_data = Visit(self._last_data.at, self._last_data.boot)
        return self._visit

    def end(self) -> None:
        self._visit = None
        self.idle_since = self._clock.boot()

    def data_received(self, data: bytes) -> None:
        self._last_data = Visit(self._clock.now(), self._clock.boot())
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - what escapes is printed by the loop, data and all
            fault("a connection's data could not be read", error)
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._visit is None and self._content is not None:
            # What is left of an answered request is being read away: it ends here, not at its timeout.
            self._content.feed_eof()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is not HTTP (400) or to an error past the handler: 503, never 500 or 504."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        if status == 400:
            self._server_of_ours.note_malformed(exc)
            # A target that is no path names nothing that is here.
            return to_response(answers.NO_PATH if isinstance(exc, InvalidURLError) else answers.MALFORMED)
        fault("a request was not handled", exc)
        return to_response(answers.of_refusal(answers.not_accepted("internal")))

    def log_exception(self, *args: Any, **kw: Any) -> None:
        error = kw.get("exc_info")
        fault("an error in a connection", error if isinstance(error, BaseException) else None)

    def log_debug(self, *args: Any, **kw: Any) -> None:
        """aiohttp's remarks about disconnects are of no use here."""


class Server(web.Server):
    """Makes the connections, and closes the oldest idle one when there are more than `cap`."""

    def __init__(
        self, handler: Handler, clock: Clock, cap: int, on_malformed: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(handler, handler_cancellation=False)
        self._clock = clock
        self._cap = cap
        self._on_malformed = on_malformed
        self._options = options
        self._malformed_lines = Rate(clock)
        self._full_lines = Rate(clock)

    def __call__(self) -> Connection:
        return Connection(self, asyncio.get_running_loop(), self._clock, **self._options)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        open_ones = self._open()
        if len(open_ones) <= self._cap:
            return
        idle = [c for c in open_ones if c.may_be_closed and c is not handler]
        if idle:
            min(idle, key=lambda connection: connection.idle_since).force_close()
        elif len(open_ones) > 2 * self._cap:
            # Not at once: aiohttp starts the connection's task first.
            asyncio.get_running_loop().call_soon(transport.abort)
        held = self._full_lines.take()
        if held is not None:
            log.warning(
                "more connections than allowed: the one that was idle longest makes room", cap=self._cap
            )

    @property
    def open_connections(self) -> int:
        return len(self._open())

    def _open(self) -> list[Connection]:
        return [c for c in self.connections if isinstance(c, Connection) and c.connected]

    def note_malformed(self, error: BaseException | None) -> None:
        """What was sent is counted and named by its kind of fault; nothing of it is kept."""
        self._on_malformed()
        held = self._malformed_lines.take()
        if held is not None:
            log.info("a request that is not HTTP", fault=type(error).__name__, held_back=held)
