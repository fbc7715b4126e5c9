"""An engine on a throw-away home, without the user's keyring, and waits for what it announces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from app.clock import Clock
from app.engine import Engine, Status
from app.ledger import queries
from app.secrets import Secrets

PATIENCE = 30.0


def make_engine(home: Path, clock: Clock | None = None) -> Engine:
    return Engine(home, clock, port=0, secrets=lambda: Secrets(home, {}, keyring=None))


@contextlib.asynccontextmanager
async def running(home: Path, clock: Clock | None = None) -> AsyncIterator[Engine]:
    """A started engine whose accounts are ready; stopped at the end."""
    engine = make_engine(home, clock)
    await engine.start()
    try:
        await until(engine, lambda: account_word(engine.status()) == "ready")
        yield engine
    finally:
        await engine.stop()


def account_word(status: Status) -> str:
    return word(status, "account:paper")


def word(status: Status, name: str) -> str:
    return next((fact.word for fact in status.facts if fact.name == name), "")


async def until(engine: Engine, holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Waits until it holds, looking again whenever the engine announces something."""
    changed = asyncio.Event()
    end = engine.listen(lambda _: changed.set())
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                changed.clear()
                found = holds()
                if found if isinstance(found, bool) else await found:
                    return
                await changed.wait()
    finally:
        end()


async def rows(engine: Engine, view: str) -> list[dict[str, Any]]:
    return await engine.reader.call(lambda connection: queries.select(connection, view, limit=500))


async def send(engine: Engine, key: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """One alert to the test source by the real hook."""
    body = {"symbol": "AAPL", "action": "buy", "quantity": 1, "price": 10, "key": f"key-{key}-0123456789"}
    answer = await engine.send_sample(msgspec.json.encode({**body, **fields}))
    return answer.status, answer.body


async def settled(engine: Engine, count: int) -> list[dict[str, Any]]:
    """The orders once there are so many and none is on its way."""
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        found[:] = await rows(engine, "orders")
        over = ("DONE", "DENIED", "NOT_PLACED", "NEEDS_OPERATOR")
        return len(found) >= count and all(row["state"] in over for row in found)

    await until(engine, look)
    return found
