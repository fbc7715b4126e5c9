"""An engine's stand-in behind the control channel, and the blocking client beside the loop that serves it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from app.control import serving
from app.engine import CommandRefused, Engine, Status

T = TypeVar("T")


class Fake:
    """The part of an engine that the channel uses."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[tuple[str, dict[str, Any], str, str]] = []
        self.heard = asyncio.Event()

    def status(self) -> Status:
        return Status(
            state="running",
            home=str(self.home),
            port=8787,
            version="0",
            started_at=1,
            trading_state="active",
            facts=[],
            loop_lag_ms=0.0,
            loop_lag_max_ms=0.0,
            loop_lag_max_since_start_ms=0.0,
            counts={},
        )

    async def command(
        self, name: str, arguments: dict[str, Any], *, actor: str, request_id: str
    ) -> dict[str, Any]:
        self.asked.append((name, arguments, actor, request_id))
        if name == "wait":
            self.heard.set()
            await asyncio.Event().wait()
        if name == "refuse":
            raise CommandRefused("not now")
        return {"done": name}


@contextlib.asynccontextmanager
async def served(home: Path) -> AsyncIterator[Fake]:
    fake = Fake(home)
    async with serving(cast(Engine, fake)):
        yield fake


async def in_thread(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Runs the blocking client beside the loop that serves it, on a thread of this test's own."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            value = work(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
            loop.call_soon_threadsafe(answered.set_exception, error)
        else:
            loop.call_soon_threadsafe(answered.set_result, value)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        return await answered
    finally:
        thread.join()
