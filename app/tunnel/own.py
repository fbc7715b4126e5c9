"""An address of the user's own: a reverse proxy, a tunnel that somebody else runs. It starts nothing."""

from __future__ import annotations

from app.clock import SECOND
from app.tunnel.base import Ending, Launch, Look
from app.tunnel.lines import Lines


class Own:
    name = "own"
    keeps_address = True
    patience = 3_600 * SECOND
    first_wait = SECOND

    def __init__(self, address: str) -> None:
        self._address = address

    async def prepare(self, port: int) -> Launch | None:
        return None

    async def look(self, lines: Lines) -> Look:
        return Look(True, self._address)

    def ending(self, code: int, lines: Lines) -> Ending:
        return Ending("nothing was running")

    async def clean(self) -> None:
        """It leaves none."""
