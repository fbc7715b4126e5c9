"""A door on a free port, with a store that a test controls or with a real ledger, and raw sockets to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.claims.base import Admission, Delivery, Refusal, Verdict
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND, Clock, ManualClock
from app.domain.alert import AlertRules
from app.domain.key import ChosenKey, KeyPolicy
from app.domain.signal import Signal
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.listener.auth import Credential, SourceAccess, secret_digest
from app.listener.bounded import relayed
from app.listener.server import Door
from app.tasks import Tasks

TOKEN = "tok-4f1e9d0c7b6a5e8f2d3c"
SECRET = "sec-8a7b6c5d4e3f2a1b0c9d"
HOOK = f"/hook/tv/{TOKEN}"
BODY_HOOK = "/hook/own"
ALERT = {"symbol": "NASDAQ:AAPL", "action": "buy", "quantity": "10", "price": "189.25"}


def alert(key: str = "signal-1", **fields: object) -> bytes:
    return json.dumps(ALERT | {"key": key} | fields).encode()


def source(name: str = "tv", **changes: Any) -> SourceAccess:
    values: dict[str, Any] = {
        "name": name,
        "id": f"{name}-id",
        "auth": "path",
        "credentials": (Credential(secret_digest(TOKEN)),),
        "rules": AlertRules(),
        "key_policy": KeyPolicy(),
    }
    values |= changes
    if "admission" not in values:
        values["admission"] = admission(values["id"], name)
    return SourceAccess(**values)


def own_source(**changes: Any) -> SourceAccess:
    values: dict[str, Any] = {"auth": "body", "credentials": (Credential(secret_digest(SECRET)),)}
    return source("own", **(values | changes))


def admission(source_id: str, name: str, **changes: Any) -> Admission:
    values: dict[str, Any] = {
        "source_id": source_id,
        "source": name,
        "accounts": ("paper",),
        "max_age": 90 * SECOND,
        "max_exit_age": 900 * SECOND,
        "max_order_age": 60 * SECOND,
        "admit_exits": False,
        "entries_per_minute": 0,
    }
    return Admission(**(values | changes))


@dataclass
class FakeStore:
    """Accepts everything. `hold`: claims wait for it. `acknowledge_first`: the ticket is settled before that
    wait, as by a writer whose loop hears of it late. `error`: what claims raise."""

    hold: asyncio.Event | None = None
    acknowledge_first: bool = False
    error: Exception | None = None
    refuse_error: Exception | None = None
    verdict: Callable[[int, ChosenKey], Verdict] | None = None
    refuses_at_once: str | None = None
    claimed: list[tuple[Delivery, Signal, ChosenKey]] = field(default_factory=list)
    refused: list[tuple[Delivery, Refusal, str | None]] = field(default_factory=list)
    posted: list[tuple[Delivery, Refusal]] = field(default_factory=list)
    answers: list[tuple[int, int, int]] = field(default_factory=list)
    unauthenticated: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)

    def claim(
        self, admission: Admission, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket
    ) -> asyncio.Future[Verdict]:
        work = self.decide(delivery, signal, key, ticket)
        return relayed(asyncio.get_running_loop().create_task(work))

    async def decide(self, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket) -> Verdict:
        if self.acknowledge_first:
            ticket.acknowledge()
        if self.hold is not None:
            await self.hold.wait()
        self.outcomes.append(ticket.outcome.value)
        if self.error is not None:
            raise self.error
        self.claimed.append((delivery, signal, key))
        ticket.acknowledge()
        number = len(self.claimed)
        if self.verdict is not None:
            return self.verdict(number, key)
        return Verdict(
            "accepted", number, claim_id=number, key=key.key, key_source=key.source.value, outcome={}
        )

    async def refuse(self, delivery: Delivery, refusal: Refusal, key: str | None, ticket: Ticket) -> int:
        if self.hold is not None:
            await self.hold.wait()
        if self.refuse_error is not None:
            raise self.refuse_error
        ticket.acknowledge()
        self.refused.append((delivery, refusal, key))
        return 1_000 + len(self.refused)

    def answered(self, delivery_id: int, http_status: int, ack_us: int) -> None:
        self.answers.append((delivery_id, http_status, ack_us))

    def unanswered(self, delivery: Delivery, refusal: Refusal, key: str | None = None) -> None:
        self.posted.append((delivery, refusal))

    def count_unauthenticated(self, reason: str) -> None:
        self.unauthenticated.append(reason)


@asynccontextmanager
async def opened(
    store: Any, clock: Clock | None = None, *, tv: Any = None, **options: Any
) -> AsyncIterator[Door]:
    """A door with the sources `tv` (token) and `own` (secret in the body)."""
    tasks = Tasks()
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "sources": {"tv": tv or source(), "own": own_source()},
        "store": store,
        "clock": clock or ManualClock(),
        "tasks": tasks,
        "health": lambda: "ok",
        # Out of the way unless a test is about it.
        "probe_interval": 3_600.0,
    }
    door = Door(**(values | options))
    await door.start()
    try:
        yield door
    finally:
        await door.stop()
        await tasks.stop()


@dataclass
class Ledger:
    writer: Writer
    reader: Reader
    store: LedgerClaimStore

    async def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Everything that was posted is on disk first."""
        await self.writer.run(lambda _: None)
        return await self.writer.run(lambda tx: tx.execute(sql, values))


@asynccontextmanager
async def ledger(home: Path, clock: Clock) -> AsyncIterator[Ledger]:
    connection = await asyncio.to_thread(open_ledger, home, clock.now())
    writer = Writer(connection, clock, lambda reason: None)
    reader = Reader(home / FILE_NAME)

    def name(tx: Transaction) -> None:
        for name in ("tv", "own"):
            tx.insert("sources", {"id": f"{name}-id", "name": name})
        tx.insert("accounts", {"name": "paper", "broker": "paper"})

    await writer.run(name)
    try:
        yield Ledger(
            writer, reader, LedgerClaimStore(writer, clock, lambda _account, symbol, _exchange: symbol)
        )
    finally:
        await reader.close()
        await writer.close()


# ------------------------------------------------------------------------------------------------ raw HTTP


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def reason(self) -> Any:
        return self.json["reason"]


class Wire:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def response(self, *, has_body: bool = True) -> Response:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers["content-length"]) if has_body and "content-length" in headers else 0
        return Response(int(first.split()[1]), headers, await self.reader.readexactly(length))

    async def is_closed(self) -> bool:
        """Waits for the end of the connection."""
        return await self.reader.read() == b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def wire(door: Door) -> AsyncIterator[Wire]:
    port = door.facts.port
    assert port is not None
    line = Wire(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield line
    finally:
        await line.close()


def request(
    path: str = HOOK,
    body: bytes = b"",
    method: str = "POST",
    headers: tuple[str, ...] = (),
    length: bool = True,
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if length and (body or method == "POST"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


async def post(door: Door, body: bytes, path: str = HOOK, *headers: str) -> Response:
    return await ask(door, request(path, body, headers=headers))


async def ask(door: Door, data: bytes, *, has_body: bool = True) -> Response:
    async with wire(door) as line:
        await line.send(data)
        return await line.response(has_body=has_body)
