"""The simulated exchange on a socket of this machine: real HTTP, its own book, and faults on the way.

Acts on a request as the plan says and answers as the plan says; what it acted on is committed first. The
control address is for drills in other processes and needs the token that the starter was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import secrets
import socket
import struct
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from app.clock import Clock, SystemClock
from app.drill import endpoints, entry, wire
from app.drill.book import Book, Row
from app.drill.endpoints import Answer, Call
from app.drill.entry import Rejected
from app.drill.faults import Fault, FaultPlan, Reply, Taken
from app.drill.rules import Rules
from app.tasks import Tasks

T = TypeVar("T")
PAGE = "<html><head><title>Sorry</title></head><body><h1>Service temporarily unavailable</h1></body></html>"
CONTROL = "/_control"
IDLE = 75.0
"""Seconds that an idle connection is kept."""


class SimulatedExchange:
    """One exchange. `start` and `stop` may alternate: each start goes on with what the file holds."""

    def __init__(self, file: Path, clock: Clock | None = None, rules: Rules | None = None) -> None:
        self.file = file
        self.clock = clock or SystemClock()
        self.rules = rules or Rules()
        self.plan = FaultPlan()
        self.control_token = secrets.token_urlsafe(16)
        self.port = 0
        self.idle_timeout = IDLE
        self._tasks = Tasks()
        self._going_on: set[asyncio.Task[Any]] = set()
        self._thread: ThreadPoolExecutor | None = None
        self._book: Book | None = None
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._busy: set[asyncio.Transport] = set()
        """Connections on which a request is being answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Opens the book and a free port; the same port as before where there was one."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="exchange")
        loop = asyncio.get_running_loop()
        self._book = await loop.run_in_executor(
            self._thread, functools.partial(Book, self.file, self.clock, self.rules)
        )
        server = web.Server(self._answer, access_log=None, keepalive_timeout=self.idle_timeout)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.listen()

    async def listen(self) -> None:
        """Takes connections: again, after `refuse`."""
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def refuse(self) -> None:
        """New connections are refused; what is connected stays so."""
        assert self._site is not None
        await self._site.stop()
        self._site = None

    async def drop_idle(self) -> None:
        """Closes every connection on which no request is being answered, as venues do after a while."""
        assert self._runner is not None
        assert self._runner.server is not None
        for protocol in list(self._runner.server.connections):
            if protocol.transport is not None and protocol.transport not in self._busy:
                protocol.transport.close()

    async def stop(self) -> None:
        """Nobody answers any more; what was held or delayed ends without an answer."""
        if self._runner is not None:
            self.plan.clear()
            await self._runner.cleanup()
            self._runner = None
        await self._tasks.stop()
        if self._book is not None:
            await self.ask(Book.close)
            self._book = None
        if self._thread is not None:
            # Its last work is done: this waits for nothing.
            self._thread.shutdown(wait=False)
            self._thread = None

    async def ask(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """`work(book, ...)` on the book's thread: what a drill makes happen, or wants to know."""
        assert self._thread is not None
        assert self._book is not None
        call = functools.partial(work, self._book, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def settle(self) -> None:
        """Until what goes on by itself is done: fills behind an answer, requests that come late."""
        while self._going_on:
            await asyncio.wait(self._going_on)

    def _start(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._tasks.start(name, work)
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return task

    async def rows(self, sql: str, *bindings: str | int | None) -> list[Row]:
        return await self.ask(lambda book: book.store.rows(sql, *bindings))

    # ------------------------------------------------------------------------------------------- a request

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            return web.Response()
        self._busy.add(transport)
        try:
            return await self._answer_one(request)
        finally:
            self._busy.discard(transport)

    async def _answer_one(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.path
        if path == CONTROL:
            return await self._control(request)
        routed = endpoints.route(request.method, path)
        if routed is None:
            return _json(404, {"code": 40410000, "message": "endpoint not found"})
        endpoint, name, handler = routed
        body = endpoints.read_body(await request.read())
        names = " ".join([name, *request.query.values(), *map(str, body.values())])
        fault = self.plan.next_for(endpoint, names) or Fault(endpoint)
        keys = request.headers.get("APCA-API-KEY-ID", ""), request.headers.get("APCA-API-SECRET-KEY", "")
        account = await self.ask(Book.account_of, *keys)
        if account is None:
            return _json(401, {"code": 40110000, "message": "request is not authorized"})
        call = Call(endpoint, account, name, dict(request.query), body)
        work = functools.partial(self._act, handler, call, fault)
        if fault.taken is Taken.LATE:
            late = self._start("a late request", self._late(work, fault))
            if fault.reply is Reply.NORMAL:
                return await self._reply(request, fault, await asyncio.shield(late))
            return await self._reply(request, fault, Answer(504, {"message": "timed out"}))
        if fault.taken is Taken.NEVER:
            if endpoint in ("submit", "cancel"):
                await self.ask(Book.note, account, endpoint, _client_id(call), "not taken", fault.reply.value)
            answer = Answer(fault.status, {"code": fault.code, "message": fault.message})
        else:
            answer = await work()
        await self._stand(fault)
        return await self._reply(request, fault, answer)

    async def _late(self, work: Callable[[], Coroutine[Any, Any, Answer]], fault: Fault) -> Answer:
        await self._stand(fault)
        return await work()

    async def _stand(self, fault: Fault) -> None:
        if fault.hold is not None:
            await fault.hold.stand()
        if fault.delay:
            await asyncio.sleep(fault.delay)

    async def _act(self, handler: endpoints.Handler, call: Call, fault: Fault) -> Answer:
        """Does what is asked for, in one turn on the book's thread, and lets a new order into the market."""

        def act(book: Book) -> Answer:
            answer = endpoints.answer(book, handler, call)
            if call.endpoint in ("submit", "cancel"):
                taken = "taken" if answer.status < 300 else f"refused {answer.body['message']}"
                book.note(call.account, call.endpoint, _client_id(call), taken, fault.reply.value)
            return answer

        answer = await self.ask(act)
        if answer.order is not None and self.rules.filling == "after_reply":
            self._start("the market", self.ask(Book.match_later, answer.order))
        return answer

    async def _reply(self, request: web.BaseRequest, fault: Fault, answer: Answer) -> web.StreamResponse:
        match fault.reply:
            case Reply.RESET:
                return _cut(request, reset=True)
            case Reply.CLOSED:
                return _cut(request)
            case Reply.TRUNCATED:
                whole = json.dumps(answer.body).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(whole)}"
                return _cut(request, f"{head}\r\n\r\n".encode() + whole[: len(whole) // 2])
            case Reply.STATUS if fault.code or fault.status == 429:
                return _json(
                    fault.status, {"code": fault.code or 42910000, "message": fault.message}, **_wait(fault)
                )
            case Reply.STATUS:
                return web.Response(
                    status=fault.status, text=PAGE, content_type="text/html", headers=_wait(fault)
                )
            case Reply.HTML:
                return web.Response(text=PAGE, content_type="text/html")
            case Reply.EMPTY:
                return web.Response(content_type="application/json")
            case Reply.REDIRECT:
                return web.Response(status=307, headers={"Location": str(request.rel_url)})
            case Reply.DUPLICATE:
                refusal = entry.duplicate_id()
                return _json(refusal.status, refusal.body)
            case Reply.FLAT:
                return _json(200, [])
            case Reply.STRANGER:
                return _json(200, _stranger(answer.body))
            case _:
                return _json(answer.status, _bent(fault.reply, answer.body))

    # --------------------------------------------------------------------------------------------- control

    async def _control(self, request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode()
        if not secrets.compare_digest(given, f"Bearer {self.control_token}".encode()):
            return _json(403, {"message": "not yours"})
        try:
            orders = json.loads(await request.read())
            return _json(200, await self.control(orders["do"], orders.get("with", {})))
        except (ValueError, KeyError, TypeError, LookupError, Rejected) as error:
            return _json(400, {"message": str(error)})

    async def control(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """By name: `fault`, `clear`, `rules`, `calls`, `rows`, and what the book makes happen."""
        match name:
            case "fault":
                self.plan.add(Fault.read(arguments))
            case "clear":
                self.plan.clear()
            case "rules":
                self.rules.change(arguments)
            case "calls":
                return self.plan.calls
            case "rows":
                return await self.rows(arguments["sql"])
            case _ if name in BY_NAME:
                await self.ask(BY_NAME[name], **arguments)
            case _:
                raise ValueError(f"the exchange cannot {name}")
        return {}


BY_NAME: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        Book.add_account,
        Book.add_asset,
        Book.set_price,
        Book.open_session,
        Book.fill,
        Book.end,
        Book.end_of_day,
        Book.by_hand,
        Book.twin,
        Book.move_outside,
    )
}


def _client_id(call: Call) -> str:
    return str(call.body.get("client_order_id") or call.name)


def _wait(fault: Fault) -> dict[str, str]:
    return {"Retry-After": fault.retry_after} if fault.retry_after else {}


def _json(status: int, body: Any, **headers: str) -> web.Response:
    if body is None:
        return web.Response(status=status, headers=headers)
    text = json.dumps(body)
    return web.Response(status=status, text=text, content_type="application/json", headers=headers)


def _cut(request: web.BaseRequest, last: bytes = b"", *, reset: bool = False) -> web.Response:
    """Ends the connection after `last`, without anything more."""
    transport = request.transport
    if transport is not None:
        if reset:
            plug = transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.write(last)
            transport.close()
    return web.Response()


def _bent(reply: Reply, body: Any) -> Any:
    if reply is Reply.DOUBLED and isinstance(body, list):
        return [entry_ for entry_ in reversed(body) for _ in range(2)]
    if reply is Reply.NAMELESS and isinstance(body, dict):
        return {name: value for name, value in body.items() if name not in ("id", "client_order_id")}
    return body


def _stranger(body: Any) -> Any:
    """Somebody else's order, whole and sound: another id, other terms."""
    long_ago = 1_700_000_000_000_000_000
    row = {
        "id": "00000000-0000-4000-8000-00000000dead",
        "client_order_id": "somebody-elses-order",
        "symbol": "TSLA",
        "side": "sell",
        "qty": "77",
        "type": "market",
        "limit_price": None,
        "stop_price": None,
        "tif": "day",
        "extended_hours": 0,
        "status": "filled",
        "filled_qty": "77",
        "filled_value": "77",
        "created_ns": long_ago,
        "updated_ns": long_ago,
    }
    return [wire.order(row)] if isinstance(body, list) else wire.order(row)
