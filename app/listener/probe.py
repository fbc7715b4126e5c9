"""Knocks at our own door as a stranger would: a fresh connection, a real request, a real answer.

A listening socket can go deaf while everything looks well (on Windows one reset during accept closes it for
good, CPython gh-93821), and another program may then take the port: only a knock that we heard counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from app.clock import SECOND, Clock
from app.listener.auth import HEALTH_PATH

HEADER = "X-Onefill-Probe"
PATIENCE = 2.0
"""Seconds that a knock waits for its answer."""


class Probe:
    """`knock` from outside, `hear` from the handler. `patience` in seconds."""

    def __init__(self, clock: Clock, patience: float = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._word: str | None = None
        self._heard = False

    def hear(self, word: str | None) -> bool:
        """Whether a request that carries this header value is our own knock."""
        if (
            word is None
            or self._word is None
            or not secrets.compare_digest(word.encode(), self._word.encode())
        ):
            return False
        self._heard = True
        return True

    async def knock(self, host: str, port: int) -> bool | None:
        """True: heard and answered. False: not. None: this loop itself stood still, so nothing is known."""
        self._word, self._heard = secrets.token_urlsafe(16), False
        began = self._clock.boot()
        try:
            async with asyncio.timeout(self._patience):
                line = await _get(host, port, self._word)
        except (OSError, TimeoutError, EOFError, ValueError):
            line = b""
        finally:
            self._word = None
        if self._heard and line.startswith(b"HTTP/1.1 200 "):
            return True
        stood_still = self._clock.boot() - began > 2 * self._patience * SECOND
        return None if stood_still else False


async def _get(host: str, port: int, word: str) -> bytes:
    """The first line of the answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        shown = f"[{host}]" if ":" in host else host
        head = (
            f"GET {HEALTH_PATH} HTTP/1.1",
            f"Host: {shown}:{port}",
            f"{HEADER}: {word}",
            "Connection: close",
        )
        writer.write("\r\n".join((*head, "", "")).encode())
        return await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
