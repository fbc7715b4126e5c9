"""What is told the ledger in passing: answers that were given, requests that were turned away."""

from __future__ import annotations

import asyncio

import apsw
import pytest

from app.claims.gathered import AGAIN
from app.clock import SECOND
from app.ledger.errors import LedgerUnavailable
from app.ledger.transaction import Transaction
from tests.claims.shop import Shop
from tests.ledger.bench import Gate
from tests.ledger.faulty_vfs import Call, disk_full


async def test_status_and_milliseconds_are_filled_in_after_the_answer(shop: Shop) -> None:
    verdict = await shop.claim("k1")
    assert shop.deliveries() == [("accepted", None, None, "k1")]
    shop.store.answered(verdict.delivery_id, 200, 12_345)
    await shop.settled()
    assert shop.bench.look("SELECT http_status, ack_ms FROM v_deliveries") == [(200, 12.345)]


async def test_a_flood_without_a_token_is_one_row_an_hour_and_reason(shop: Shop) -> None:
    for _ in range(500):
        shop.store.count_unauthenticated("source_or_token")
    shop.store.count_unauthenticated("bad_secret")
    await shop.settled()
    shop.store.count_unauthenticated("bad_secret")
    await shop.settled()
    shop.bench.clock.advance(3600 * SECOND)
    shop.store.count_unauthenticated("bad_secret")
    await shop.settled()
    rows = shop.bench.look("SELECT reason, count FROM unauthenticated ORDER BY hour, reason")
    assert rows == [("bad_secret", 2), ("source_or_token", 500), ("bad_secret", 1)]
    assert shop.deliveries() == []


async def test_counting_goes_on_after_a_write_that_failed(shop: Shop) -> None:
    def before(call: Call) -> None:
        raise disk_full()

    shop.bench.disk.before = before
    shop.store.count_unauthenticated("malformed")
    await asyncio.gather(shop.settled(), return_exceptions=True)
    shop.bench.disk.before = None
    shop.store.count_unauthenticated("malformed")
    await shop.settled()
    assert shop.bench.look("SELECT reason, count FROM unauthenticated") == [("malformed", 1)]


async def test_h18_what_was_gathered_is_written_once_though_its_batch_was_undone_and_run_again(
    shop: Shop,
) -> None:
    verdict = await shop.claim("k1")
    runs: list[int] = []

    def full_at_first(tx: Transaction) -> None:
        runs.append(1)
        if len(runs) == 1:
            raise apsw.FullError("the disk is full")

    gate = Gate()
    held = shop.bench.start(shop.bench.writer.run(gate))
    await gate.reached()
    for _ in range(3):
        shop.store.count_unauthenticated("malformed")
    shop.store.answered(verdict.delivery_id, 200, 12_345)
    beside = shop.bench.start(shop.bench.writer.run(full_at_first))
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(held, beside)
    await shop.settled()
    assert len(runs) == 2
    assert shop.bench.look("SELECT reason, count FROM unauthenticated") == [("malformed", 3)]
    assert shop.bench.look("SELECT http_status, ack_us FROM deliveries") == [(200, 12_345)]


async def test_many_answers_are_one_operation(shop: Shop) -> None:
    verdicts = [await shop.claim(f"k{number}") for number in range(4)]
    before = shop.bench.writer.health.operations
    for verdict in verdicts:
        shop.store.answered(verdict.delivery_id, 200, verdict.delivery_id)
    await shop.settled()
    assert shop.bench.writer.health.operations - before == 2  # with the one that waits for them
    assert shop.bench.look("SELECT id - ack_us FROM deliveries") == [(0,)] * 4


async def test_gathering_goes_on_after_a_write_that_never_ran(shop: Shop) -> None:
    """Another program holds the lock for longer than anything waits: the operation is given up unrun."""
    clock, writer = shop.bench.clock, shop.bench.writer
    with shop.bench.locked():
        shop.store.count_unauthenticated("malformed")
        waiting = shop.bench.start(writer.run(lambda tx: None))
        await clock.lock_refused()
        clock.advance(11 * SECOND)
        with pytest.raises(LedgerUnavailable):
            await waiting
    shop.store.count_unauthenticated("malformed")
    await shop.settled()
    assert shop.bench.look("SELECT count FROM unauthenticated") == []
    clock.advance(AGAIN)
    shop.store.count_unauthenticated("malformed")
    await shop.settled()
    assert shop.bench.look("SELECT count FROM unauthenticated") == [(3,)]
