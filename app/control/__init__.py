"""The control channel: how the commands of the same user, and nobody else, reach a running app (HOLES H43).

A Unix socket where there is one; else loopback TCP on which both ends prove that they know a token that never
travels. The server hands requests to the engine and decides nothing; the client imports no engine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.control import tcp, unix
from app.control.messages import ANSWER_TIMEOUT, NotRunning, Refused, Request

if TYPE_CHECKING:
    from app.engine import Engine

__all__ = ["NotRunning", "Refused", "ask", "over_tcp", "serving"]

CHOICE = "ONEFILL_CONTROL"
"""Environment: `tcp` takes the way of systems without Unix sockets; both ends must be told. For tests."""


def over_tcp() -> bool:
    return os.environ.get(CHOICE) == "tcp" or not unix.is_supported()


@contextlib.asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[None]:
    """Serves the control channel of a started engine while it is entered. Raises Refused, OSError."""
    from app.tasks import Tasks

    server = (tcp.Server if over_tcp() else unix.Server)(engine, Tasks())
    await server.open()
    try:
        yield
    finally:
        await server.close()


def ask(
    home: Path,
    command: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    request_id: str,
    timeout: float = ANSWER_TIMEOUT,
) -> Any:
    """Asks the app that runs on this home and returns its result. Blocking.

    Raises NotRunning if none does, and Refused with the app's reason or where the other end is not ours.
    """
    request = Request(request_id, command, dict(arguments or {}))
    reply = (tcp if over_tcp() else unix).exchange(home, request, timeout)
    if reply.error is not None:
        raise Refused(reply.error)
    return reply.result
