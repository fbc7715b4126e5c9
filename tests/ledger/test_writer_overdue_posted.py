"""What is posted, and waits for nobody, never makes the door refuse."""

import asyncio
import threading
from pathlib import Path

from app.clock import SECOND, ManualClock
from app.ledger.store import open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.tasks import Tasks


async def test_h20_a_posted_write_that_is_slow_does_not_shut_the_door(tmp_path: Path) -> None:
    clock = ManualClock()
    writer = Writer(await asyncio.to_thread(open_ledger, tmp_path, clock.now()), clock, lambda _reason: None)
    began, go_on = threading.Event(), threading.Event()

    def slow(_tx: Transaction) -> None:
        began.set()
        assert go_on.wait(10)

    try:
        writer.post(slow)
        await asyncio.to_thread(began.wait, 10)
        clock.advance(60 * SECOND)
        overdue_by_posted = writer.is_overdue
        assert not overdue_by_posted
        waiting = Tasks().start("waits", writer.run(lambda tx: tx.meta("ledger_id")))
        await asyncio.sleep(0)
        clock.advance(6 * SECOND)
        assert writer.is_overdue
        go_on.set()
        assert await waiting
    finally:
        go_on.set()
        await writer.close()
