"""What the engine does beside trading for the person and the computer: notices, and staying awake.

None of it is in an order's path: the door and the lanes go on whatever becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.domain.risk import TradingState
from app.engine.awake import Awake
from app.engine.notices import Notices
from app.engine.status import Fact
from app.ledger.writer import Writer
from app.secrets import Secrets
from app.tasks import Tasks

if TYPE_CHECKING:
    from app.engine.engine import Engine


class Manners:
    """Of a started engine."""

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
        self._listen = engine.listen

    async def start(self, tasks: Tasks) -> None:
        self._listen(self.notices.hear)
        self.awake.start(tasks)
        await self.notices.start(tasks)

    async def stop(self) -> None:
        await asyncio.gather(self.notices.stop(), self.awake.stop())

    def facts(self) -> list[Fact]:
        return [*self.notices.facts(), *self.awake.facts()]
