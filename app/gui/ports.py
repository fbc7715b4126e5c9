"""What the window needs of the engine, and nothing more: so that a test can stand in for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from app.clock import Clock
    from app.engine import HookAddress, SampleAnswer, Status
    from app.gui.feed import Reader
    from app.settings import Settings


class EngineView(Protocol):
    """The part of `app.engine.Engine` that the window uses. Nothing of it blocks."""

    home: Path
    stop_requested: asyncio.Event

    @property
    def clock(self) -> Clock: ...

    @property
    def reader(self) -> Reader: ...

    @property
    def settings(self) -> Settings: ...

    def request_stop(self, why: str) -> None: ...

    def status(self) -> Status: ...

    def listen(self, listener: Callable[[frozenset[str]], None]) -> Callable[[], None]: ...

    def hook_addresses(self) -> list[HookAddress]: ...

    async def send_sample(self, body: bytes | None = None) -> SampleAnswer: ...

    async def command(
        self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str
    ) -> dict[str, Any]: ...
