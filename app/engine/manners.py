"""What the engine does beside trading for the person and the computer: notices, and staying awake.

None of it is in an order's path: the door and the lanes go on whatever becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from app.domain.risk import TradingState
from app.engine.awake import Awake
from app.engine.commands import Answer
from app.engine.notices import Notices
from app.engine.status import CommandRefused, Fact
from app.ledger.writer import Writer
from app.secrets import Secrets
from app.tasks import Tasks

if TYPE_CHECKING:
    from app.engine.engine import Engine


class Manners:
    """Of a started engine."""

    COMMANDS = ("notice test", "show window", "support")

    def __init__(self, engine: Engine, writer: Writer, make_secrets: Callable[[], Secrets]) -> None:
        settings = engine.settings
        self.notices = Notices(
            settings.notices,
            writer,
            engine.reader,
            engine.clock,
            make_secrets,
            lambda: engine.status().facts,
            engine.note_change,
        )
        self.awake = Awake(
            settings.system.keep_awake,
            lambda: engine.status().trading_state != TradingState.HALTED.value,
            engine.clock,
            engine.note_change,
        )
        self.show_window: Callable[[], None] | None = None
        """Brings the window up; None where there is none."""
        self._listen = engine.listen
        self._home, self._status, self._make_secrets = engine.home, engine.status, make_secrets

    async def start(self, tasks: Tasks) -> None:
        self._listen(self.notices.hear)
        self.awake.start(tasks)
        await self.notices.start(tasks)

    async def stop(self) -> None:
        await asyncio.gather(self.notices.stop(), self.awake.stop())

    def facts(self) -> list[Fact]:
        return [*self.notices.facts(), *self.awake.facts()]

    async def act(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """What changes nothing in the ledger, and may be asked twice. Raises CommandRefused."""
        if name == "notice test":
            return await self.notices.test(arguments)
        if name == "support":
            return await self._support(arguments)
        if self.show_window is None:
            raise CommandRefused("it runs without a window")
        self.show_window()
        return {"shown": True}

    async def _support(self, arguments: Mapping[str, Any]) -> Answer:
        from app.engine.support import SupportFailed, bundle_of_running

        status = msgspec.to_builtins(self._status())
        thread = ThreadPoolExecutor(1, thread_name_prefix="support")

        def make() -> Answer:
            return bundle_of_running(self._home, status, self._make_secrets(), arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(thread, make)
        except SupportFailed as error:
            raise CommandRefused(str(error)) from error
        finally:
            thread.shutdown(wait=False)
