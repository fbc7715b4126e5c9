"""Alpaca's adapter against the simulated exchange, or against a few lines of server that do one thing.

Time stands still unless a test moves it. A raw server sees every byte, which no HTTP library would show.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import web

from app.brokers.alpaca import Addresses, AlpacaBroker
from app.brokers.alpaca_http import Keys
from app.brokers.base import OrderRequest, SubmitReply
from app.clock import ManualClock
from app.domain.signal import Side
from app.drill.rules import Rules
from app.drill.server import SimulatedExchange
from app.tasks import Tasks
from tests.brokers.paper_kit import nothing_against
from tests.drill.exchange_kit import NUMBER, furnish

KEYS = Keys("key-1", "secret-1")


def broker_at(
    url: str, clock: ManualClock, *, keys: Keys = KEYS, live: bool = False, timeout: float = 5.0, **more: Any
) -> AlpacaBroker:
    return AlpacaBroker(Addresses(url, url), lambda: keys, clock, live=live, timeout=timeout, **more)


@dataclass
class Venue:
    """An adapter that is connected, and the exchange that it trades at."""

    exchange: SimulatedExchange
    broker: AlpacaBroker
    clock: ManualClock

    async def count(self, client_order_id: str | None = None) -> int:
        """Orders in the exchange's book, of one client order id or all."""
        sql = "SELECT count(*) AS n FROM orders WHERE client_order_id = coalesce(?, client_order_id)"
        rows = await self.exchange.rows(sql, client_order_id)
        return int(rows[0]["n"])

    def calls(self, endpoint: str) -> int:
        return self.exchange.plan.calls.get(endpoint, 0)


@asynccontextmanager
async def exchange_at(folder: Path, rules: Rules | None = None) -> AsyncIterator[SimulatedExchange]:
    exchange = SimulatedExchange(folder / "exchange.sqlite3", ManualClock(), rules)
    await exchange.start()
    try:
        await furnish(exchange)
        yield exchange
    finally:
        await exchange.stop()


@asynccontextmanager
async def venue_at(folder: Path, rules: Rules | None = None, **more: Any) -> AsyncIterator[Venue]:
    async with exchange_at(folder, rules) as exchange:
        assert isinstance(exchange.clock, ManualClock)
        broker = broker_at(exchange.url, exchange.clock, **more)
        try:
            account = await broker.connect()
            assert account.identity == NUMBER
            yield Venue(exchange, broker, exchange.clock)
        finally:
            await broker.close()


@dataclass
class RawServer:
    """A socket that notes what comes in and says what it is told to. One reply a connection, then the end."""

    reply: bytes | None = None
    """None: never a word, and the connection stays."""
    received: list[bytes] = field(default_factory=list)
    """By connection, in the order in which they came."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    keeps: bool = False
    """Whether it keeps a connection after an answer, and closes it, mute, when the next request comes."""
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def hits(self) -> int:
        return sum(1 for bytes_ in self.received if bytes_)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, answered = len(self.received), 0
        self.received.append(b"")
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        try:
            while True:
                chunk = await reader.read(65_536)
                if not chunk:
                    return
                self.received[number] += chunk
                self.came.set()
                if answered:
                    return
                if self.reply is not None and is_whole(self.received[number]):
                    writer.write(self.reply)
                    await writer.drain()
                    answered += 1
                    if not self.keeps:
                        return
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            writer.close()


def is_whole(received: bytes) -> bool:
    """Whether a request with its body is there."""
    head, end, body = received.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return bool(end) and len(body) >= int(line.partition(b":")[2])
    return bool(end)


@asynccontextmanager
async def raw_server(reply: bytes | None = None) -> AsyncIterator[RawServer]:
    server = RawServer(reply)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in list(server.serving):
            task.cancel()
        await asyncio.gather(*server.serving)


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def http_server(handler: Handler) -> AsyncIterator[str]:
    """A few lines of HTTP; yields its address."""
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


ACCOUNT = {"account_number": NUMBER, "status": "ACTIVE", "cash": "1000", "equity": "1000"}
CLOCK = {"timestamp": "2026-03-02T15:30:00Z", "is_open": True, "next_open": "2026-03-03T14:30:00Z"}


def answers(table: dict[str, Any]) -> tuple[Handler, list[str]]:
    """A handler that answers by path: JSON with 200, or a Response; and the paths that were asked for."""
    asked: list[str] = []
    whole = {"/v2/account": ACCOUNT, "/v2/clock": CLOCK, **table}

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(str(request.rel_url))
        found = whole.get(request.rel_url.path)
        if callable(found):
            found = found(request)
        if isinstance(found, web.StreamResponse):
            return found
        if found is None:
            return web.json_response({"code": 40410000, "message": "not found"}, status=404)
        return web.json_response(found)

    return handler, asked


__all__ = [
    "ACCOUNT",
    "CLOCK",
    "KEYS",
    "RawServer",
    "Tasks",
    "Venue",
    "answers",
    "broker_at",
    "exchange_at",
    "http_server",
    "raw_server",
    "venue_at",
]


CID = "0123456789abcdef8123456789abcdef"
ORDER = OrderRequest(CID, "AAPL", Side.BUY, Decimal(10))
ANSWERED = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"account_number": "PA1",'
    b' "cash": "1", "equity": "1", "timestamp": "2026-03-02T15:30:00Z", "is_open": true}'
)
"""What serves as an account and as a clock."""


async def connected_to(server: RawServer, clock: ManualClock | None = None, **more: Any) -> AlpacaBroker:
    """Connected while the server answers; what it does with an order is for the test to say."""
    broker = broker_at(server.url, clock or ManualClock(), **more)
    reply, server.reply = server.reply, ANSWERED
    await broker.connect()
    server.reply = reply
    server.received.clear()
    return broker


async def submit(
    broker: AlpacaBroker, request: OrderRequest = ORDER, last_check: Any = nothing_against
) -> SubmitReply:
    try:
        return await broker.submit(request, last_check)
    finally:
        await broker.close()
