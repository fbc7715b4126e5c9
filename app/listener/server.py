"""The door: opens on a loopback port, answers, watches itself, closes.

Serves the hooks and a bare health probe, nothing else, on loopback only. What an answer is is decided in
`pipeline.py`; here it is written, and only afterwards its row is told.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from aiohttp import web

from app.claims.base import ClaimStore
from app.clock import SECOND, Clock
from app.failpoint import failpoint
from app.listener import answers
from app.listener.auth import Gate, SourceAccess, is_loopback
from app.listener.connection import Connection, Server, Visit, to_response
from app.listener.pipeline import Pipeline, Reply
from app.listener.probe import HEADER, PATIENCE, Probe
from app.listener.quiet import Redacting, fault
from app.tasks import Tasks

log = structlog.get_logger(__name__)

DEADLINE = 2 * SECOND
"""From the headers to the answer: a sender waits 3 s, TLS and the tunnel's legs included (facts 1.2)."""
BODY_TIMEOUT = 3 * SECOND // 2
CONNECTIONS = 512
PROBE_INTERVAL = 10.0
"""Seconds."""
FAILURES_TO_REBUILD = 2
BACKLOG = 512

_CONNECTION_OPTIONS = {
    "auto_decompress": False,
    # Tunnels keep connections for 90 s: whoever closes first must not be us.
    "keepalive_timeout": 120.0,
    "max_line_size": 2048,
    "max_field_size": 4096,
    "max_headers": 64,
    # How long the rest of a body that nobody wants is read, so that the answer is not lost in a reset.
    "lingering_time": 0.5,
    "access_log": None,
}
_SHUTDOWN_TIMEOUT = 3.0


class DoorCannotOpen(Exception):
    """The port cannot be had. `reason` is a sentence for a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DoorFacts:
    """How the door is. `word`: closed, open, deaf or stopping.

    `deliveries`: authenticated ones since the start. `last_probe`: when a knock was last heard and answered,
    UTC microseconds. `rebuilt`: how often the listening socket was made anew.
    """

    word: str
    reason: str
    port: int | None
    deliveries: int
    connections: int
    rebuilt: int
    last_probe: int | None


class Door:
    """`health()` gives /healthz its word: ok, degraded or halted. `probed(word)` hears of every request that
    carries a probe's word; `client(request)` names a sender for the log, where a tunnel can.

    `deadline` and `body_timeout` in microseconds, `probe_interval` and `probe_timeout` in seconds.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        sources: Mapping[str, SourceAccess],
        store: ClaimStore,
        clock: Clock,
        tasks: Tasks,
        health: Callable[[], str],
        public_hosts: Sequence[str] | None = None,
        probed: Callable[[str], None] = lambda _: None,
        client: Callable[[web.BaseRequest], str | None] = lambda _: None,
        deadline: int = DEADLINE,
        body_timeout: int = BODY_TIMEOUT,
        max_connections: int = CONNECTIONS,
        probe_interval: float = PROBE_INTERVAL,
        probe_timeout: float = PATIENCE,
    ) -> None:
        if not is_loopback(host):
            raise ValueError(f"the door opens on a loopback address only, not on {host}")
        self._host = host
        self._wanted_port = port
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._max_connections = max_connections
        self._probe_interval = probe_interval
        self._pipeline = Pipeline(
            Gate(sources),
            store,
            clock,
            tasks,
            health,
            deadline=deadline,
            body_timeout=body_timeout,
            public_hosts=public_hosts,
        )
        self._probe = Probe(clock, probe_timeout)
        self._probed = probed
        self._client = client
        self._redacting = Redacting(clock)
        self._server: Server | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._port: int | None = None
        self._failures = 0
        self._deaf_reason = ""
        self._rebuilt = 0
        self._last_probe: int | None = None

    # ----------------------------------------------------------------------------------------- for the engine

    async def start(self) -> int:
        """Opens the door and returns its port. Raises DoorCannotOpen."""
        self._redacting.install()
        self._server = Server(
            self._handle, self._clock, self._max_connections, self._note_malformed, **_CONNECTION_OPTIONS
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=_SHUTDOWN_TIMEOUT)
        await self._runner.setup()
        try:
            self._port = await self._listen(self._runner, self._wanted_port)
        except OSError as error:
            await self.stop()
            raise DoorCannotOpen(_why(error, self._host, self._wanted_port)) from error
        self._watcher = self._tasks.start("door watch", self._watch())
        log.info("the door is open", host=self._host, port=self._port)
        return self._port

    def close_intake(self) -> None:
        """From now on every authenticated delivery is answered 503 `stopping`, until `stop`."""
        self._pipeline.stopping = True

    async def stop(self) -> None:
        """Closes the door: what is being answered is answered, then every connection ends."""
        self.close_intake()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})
            self._watcher = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._site = self._server = None
        self._redacting.remove()

    def set_sources(self, sources: Mapping[str, SourceAccess]) -> None:
        """Takes other sources or tokens at once; a delivery under way keeps those that it came in with."""
        self._pipeline.gate = Gate(sources)

    @property
    def facts(self) -> DoorFacts:
        word, reason = "open", ""
        if self._server is None:
            word = "closed"
        elif self._pipeline.stopping:
            word, reason = "stopping", "deliveries are answered 503"
        elif self._failures >= FAILURES_TO_REBUILD:
            word, reason = "deaf", self._deaf_reason
        return DoorFacts(
            word,
            reason,
            self._port,
            self._pipeline.deliveries,
            self._server.open_connections if self._server is not None else 0,
            self._rebuilt,
            self._last_probe,
        )

    # -------------------------------------------------------------------------------------------- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        visit = connection.begin(request)
        try:
            word = request.headers.get(HEADER)
            if not self._probe.hear(word) and word is not None:
                self._probed(word)
            try:
                reply = await self._pipeline.answer(request, visit)
            except Exception as error:  # noqa: BLE001 - never 500: a sender does not know what to make of it
                fault("a request could not be answered", error)
                refused = answers.of_refusal(answers.not_accepted("internal"))
                reply = Reply(refused, refused.encoded())
            return await self._write(request, reply, visit)
        finally:
            connection.end()

    async def _write(self, request: web.BaseRequest, reply: Reply, visit: Visit) -> web.StreamResponse:
        response = to_response(reply.answer, reply.content)
        counts = reply.source is not None and reply.answer.http_status == 200
        if counts:
            failpoint("before_200")
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            # The row keeps an empty status: nobody was answered.
            log.info(
                "a sender was gone before its answer", source=reply.source, status=reply.answer.http_status
            )
            return response
        if counts:
            failpoint("after_200")
        elapsed = self._clock.boot() - visit.boot
        if reply.delivery_id is not None:
            self._store.answered(reply.delivery_id, reply.answer.http_status, elapsed)
        # What was claimed has its row in the ledger; a line beside it costs as much as reading the alert.
        if reply.source is not None and reply.answer.http_status != 200:
            log.info(
                "delivery answered",
                source=reply.source,
                status=reply.answer.http_status,
                verdict=reply.answer.word,
                reason=reply.answer.reason,
                client=self._client(request),
                ms=round(elapsed / 1000, 1),
            )
        return response

    def _note_malformed(self) -> None:
        self._store.count_unauthenticated("malformed")

    # ---------------------------------------------------------------------------------------- watching itself

    async def _listen(self, runner: web.ServerRunner, port: int) -> int:
        site = web.TCPSite(runner, self._host, port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError:
            await site.stop()
            raise
        self._site = site
        return site.port

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._probe_interval)
            await self._look()

    async def _look(self) -> None:
        assert self._port is not None
        heard = await self._probe.knock(self._host, self._port)
        if heard is None:
            return
        if heard:
            self._failures, self._deaf_reason = 0, ""
            self._last_probe = self._clock.now()
            return
        self._failures += 1
        self._deaf_reason = f"it did not hear its own knock, {self._failures} times in a row"
        log.warning("the door did not hear its own knock", port=self._port, in_a_row=self._failures)
        if self._failures >= FAILURES_TO_REBUILD:
            await self._rebuild(self._port)

    async def _rebuild(self, port: int) -> None:
        """Makes the listening socket anew; connections that are open stay."""
        assert self._runner is not None
        if self._site is not None:
            try:
                await self._site.stop()
            except (OSError, ValueError) as error:
                # It was closed underneath; what matters is that it is gone.
                log.info("the deaf socket could not be closed", error=type(error).__name__)
            self._site = None
        try:
            await self._listen(self._runner, port)
        except OSError as error:
            self._deaf_reason = _why(error, self._host, port)
            fault("the door could not be opened again", error, port=port, reason=self._deaf_reason)
            return
        self._rebuilt += 1
        log.warning("the door was opened anew", port=port, rebuilt=self._rebuilt)
        await self._confirm(port)

    async def _confirm(self, port: int) -> None:
        if await self._probe.knock(self._host, port):
            self._failures, self._deaf_reason = 0, ""
            self._last_probe = self._clock.now()


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE or getattr(error, "winerror", None) == 10048:
        return (
            f"port {port} is taken by another program: stop it, set another port under [listener],"
            " or start with --port N"
        )
    if error.errno == errno.EACCES:
        return f"port {port} is not free for this user: set one above 1023 under [listener]"
    return f"{host} port {port} cannot be opened: {error.strerror or error}"
