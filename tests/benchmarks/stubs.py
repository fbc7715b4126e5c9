"""Doors with parts left out: how fast would it be if a part cost nothing at all (ceiling.py)?

None of them keeps a promise, and none can be had from the product.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
from aiohttp import web

from app.claims.base import Admission, Delivery, Verdict
from app.clock import SystemClock
from app.domain.alert import AlertRules, read_alert
from app.domain.key import ChosenKey, HeaderKeys, KeyPolicy, choose_key
from app.domain.signal import Signal
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.listener.body import read_body
from tests.benchmarks.alerts import Alerts
from tests.benchmarks.server import Bare, Onefill, Receiver, door, serving

OUTCOME = {"state": "PENDING", "orders": [{"account": "paper", "state": "PENDING"}]}


class NoLedger:
    """A claim store that accepts everything at once and keeps nothing."""

    refuses_at_once: str | None = None

    def __init__(self) -> None:
        self._count = 0

    def claim(
        self, admission: Admission, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket
    ) -> asyncio.Future[Verdict]:
        self._count += 1
        ticket.acknowledge()
        verdict = Verdict(
            "accepted",
            self._count,
            claim_id=self._count,
            key=key.key,
            key_source=key.source.value,
            outcome=OUTCOME,
        )
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        future.set_result(verdict)
        return future

    def answered(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise SystemExit(f"nothing but accepted alerts is measured here, and yet {name} was asked for")


@contextlib.asynccontextmanager
async def without_ledger(home: Path) -> AsyncIterator[Onefill]:
    """The whole door; only the claim costs nothing."""
    async with door(home, store=NoLedger()) as receiver:
        yield receiver


@contextlib.asynccontextmanager
async def without_reading(home: Path) -> AsyncIterator[Onefill]:
    """No claim, and every body is read, understood, keyed and blanked already: HTTP, token, answer."""
    raw = Alerts("stub").next()
    fields = read_body(raw)
    alert = read_alert(fields, AlertRules())
    key = choose_key("benchmark", alert, HeaderKeys(), KeyPolicy())
    pipeline = "app.listener.pipeline"
    with (
        patch(f"{pipeline}.body.read_body", lambda _raw: fields),
        patch(f"{pipeline}.read_alert", lambda _fields, _rules: alert),
        patch(f"{pipeline}.choose_key", lambda *_: key),
        patch(f"{pipeline}.redact", lambda _raw: ""),
        patch(f"{pipeline}.raw_fingerprint", lambda _raw: b""),
    ):
        async with door(home, store=NoLedger()) as receiver:
            yield receiver


class Grouped(Bare):
    """The bare handler, whose one row is committed in groups on a thread: the least that is durable."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(None)
        self._rows = writer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        alert = await request.json()
        key = alert["order_id"].encode()

        def insert(tx: Transaction) -> None:
            tx.execute("INSERT INTO claims (key) VALUES (?)", (key,))

        await self._rows.run(insert)
        return web.json_response({"status": "accepted"})


@contextlib.asynccontextmanager
async def grouped(home: Path) -> AsyncIterator[Grouped]:
    connection = apsw.Connection(str(home / "grouped.sqlite3"))
    for setting in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    connection.execute("CREATE TABLE claims (id INTEGER PRIMARY KEY, key BLOB NOT NULL)")
    writer = Writer(connection, SystemClock(), lambda why: os._exit(3))
    try:
        async with serving(Grouped(writer)) as receiver:
            yield receiver
    finally:
        await writer.close()


KINDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Receiver]]] = {
    "grouped": grouped,
    "without-ledger": without_ledger,
    "without-reading": without_reading,
}
