"""How long a part may take to stop: one part's trouble must not keep the next from stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import apsw
import structlog

from app.ledger.reader import Reader
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)


async def within(deadline: float, seconds: float, part: str, work: Awaitable[Any]) -> bool:
    """Whether the part ended in time and without an error. `deadline` is the loop's time in seconds."""
    left = max(0.2, min(seconds, deadline - asyncio.get_running_loop().time()))
    try:
        await asyncio.wait_for(work, left)
    except TimeoutError:
        log.warning("a part did not stop in time", part=part, seconds=round(left, 1))
        return False
    except Exception as error:
        log.exception("a part failed at stop", part=part, error=repr(error))
        return False
    return True


async def close_ledger(
    deadline: float, reader: Reader | None, writer: Writer | None, connection: apsw.Connection | None
) -> bool:
    """False where the writer's thread may still write: then the lock stays until the process ends."""
    if reader is not None:
        await within(deadline, 1.0, "ledger reader", reader.close())
    if writer is not None:
        return await within(deadline, 3.0, "ledger", writer.close())
    if connection is not None:
        connection.close()
    return True
