"""The serving side that both ways have in common: connections as tasks, lines in, the engine's answers out.

Who may speak is the way's own business, and comes before any line is read as a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec

from app.control.messages import REQUEST_TIMEOUT, Reply, Request

if TYPE_CHECKING:
    from app.engine import Engine
    from app.tasks import Tasks

T = TypeVar("T")


class Answering:
    """`open` and `close` once each. A way of the channel says how it listens and how it talks."""

    def __init__(self, engine: Engine, tasks: Tasks) -> None:
        self.engine = engine
        self.actor = "command"
        self._tasks = tasks
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await self.listen()

    async def listen(self) -> asyncio.Server:
        raise NotImplementedError

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The whole of one connection; what it raises ends it without a word."""
        raise NotImplementedError

    def remove(self) -> None:
        """Takes away what shows where the channel is. Blocking, on a thread."""
        raise NotImplementedError

    async def close(self) -> None:
        """Takes no more requests, lets go of those that run, removes what the clients look for."""
        if self._server is None:
            return
        self._server.close()
        await self._tasks.stop()
        await self._server.wait_closed()
        await beside_the_loop(self.remove)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start("control connection", self._converse(reader, writer))

    @property
    def connections(self) -> int:
        return len(self._tasks)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.talk(reader, writer)
        except (TimeoutError, ConnectionError, ValueError):
            # ValueError: a line over the limit. Whoever sends such a thing gets nothing.
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def answer(self, line: bytes) -> bytes:
        """The reply to one request, without the line's end."""
        return msgspec.json.encode(await self._answer(line))

    async def _answer(self, line: bytes) -> Reply:
        from app.engine import CommandRefused

        try:
            request = msgspec.json.decode(line, type=Request)
        except msgspec.DecodeError as error:
            return Reply("", error=f"not a request: {error}")
        try:
            if request.command == "status":
                return Reply(request.id, msgspec.to_builtins(self.engine.status()))
            result = await self.engine.command(
                request.command, request.arguments, actor=self.actor, request_id=request.id
            )
        except CommandRefused as refused:
            return Reply(request.id, error=str(refused))
        return Reply(request.id, result)


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """Up to the next line's end; empty at the end. Raises TimeoutError, and ValueError over the limit."""
    async with asyncio.timeout(REQUEST_TIMEOUT):
        return await reader.readline()


async def beside_the_loop(work: Callable[[], T]) -> T:
    """Runs what looks at the disk on a thread of its own, which then ends."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="control")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    finally:
        thread.shutdown(wait=False)


def user_name() -> str:
    """Of this process, for the audit trail. Blocking."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "?"
