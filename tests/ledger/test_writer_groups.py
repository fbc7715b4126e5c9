"""Group commit: what waits together is committed together, in order, and nothing is lost at the edges."""

from __future__ import annotations

import asyncio

import pytest

from app.ledger import writer as writer_module
from app.ledger.errors import LedgerUnavailable
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction, TransactionOver
from tests.ledger.bench import WAIT, Bench, Gate, Ledger, note


async def test_what_waits_together_is_one_commit_and_one_sync(bench: Bench) -> None:
    before = bench.writer.health
    syncs = bench.disk.count("wal", "sync")
    assert await bench.together(*(bench.writer.run(note(f"n{i}")) for i in range(64))) == [
        f"n{i}" for i in range(64)
    ]
    after = bench.writer.health
    assert after.operations - before.operations == 65  # the one that held the writer up wrote nothing
    assert after.commits - before.commits == 2
    assert bench.disk.count("wal", "sync") - syncs == 1
    assert bench.events() == [f"n{i}" for i in range(64)]


async def test_more_than_a_batch_is_taken_in_turns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_BATCH", 8)
    commits = bench.writer.health.commits
    await bench.together(*(bench.writer.run(note(f"n{i}")) for i in range(20)))
    assert bench.writer.health.commits - commits == 1 + 3
    assert bench.events() == [f"n{i}" for i in range(20)]


async def test_what_comes_after_a_large_batch_is_gathered_for_a_moment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    pause = Gate()

    def paused(seconds: float) -> None:
        pauses.append(seconds)
        pause()

    monkeypatch.setattr(writer_module, "sleep", paused)
    await bench.together(*(bench.writer.run(note(f"few{i}")) for i in range(writer_module.GATHER_FROM - 1)))
    assert pauses == []
    await bench.together(*(bench.writer.run(note(f"many{i}")) for i in range(writer_module.GATHER_FROM)))
    await pause.reached()
    commits = bench.writer.health.commits
    # One by one: without the pause each would find an idle writer and have a commit of its own.
    later = []
    for number in range(3):
        later.append(bench.start(bench.writer.run(note(f"later{number}"))))
        await asyncio.sleep(0)
    pause.open()
    assert await asyncio.gather(*later) == ["later0", "later1", "later2"]
    assert bench.writer.health.commits - commits == 1
    assert pauses == [writer_module.GATHER]


async def test_posted_operations_ride_along_and_keep_their_turn(bench: Bench) -> None:
    bench.writer.post(note("posted"))
    commits = bench.writer.health.commits
    await bench.writer.run(note("run"))
    assert bench.writer.health.commits - commits == 1
    assert bench.events() == ["posted", "run"]


async def test_posted_operations_are_written_soon_without_company(bench: Bench) -> None:
    written = asyncio.Event()
    end = bench.writer.listen(lambda topics: written.set() if "events" in topics else None)
    bench.writer.post(note("posted"))
    await asyncio.wait_for(written.wait(), WAIT)
    end()
    assert bench.events() == ["posted"]


async def test_posted_operations_are_not_starved_by_a_full_queue(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MAX_BATCH", 4)
    gate = Gate()
    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    first = [bench.start(bench.writer.run(note(f"a{i}"))) for i in range(4)]
    await asyncio.sleep(0)
    bench.writer.post(note("posted"))
    then = [bench.start(bench.writer.run(note(f"b{i}"))) for i in range(8)]
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(held, *first, *then)
    assert bench.events().index("posted") == 4


async def test_a_kick_lost_with_its_loop_does_not_keep_later_posts_waiting(bench: Bench) -> None:
    async def post_and_leave() -> None:
        bench.writer.post(note("first"))

    await asyncio.to_thread(asyncio.run, post_and_leave())
    written = asyncio.Event()
    bench.writer.listen(lambda _: written.set())
    bench.writer.post(note("second"))
    await asyncio.wait_for(written.wait(), WAIT)
    assert bench.events() == ["first", "second"]


async def test_cancelling_the_caller_does_not_cancel_the_operation(bench: Bench) -> None:
    gate = Gate()
    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    task = bench.start(bench.writer.run(note("kept")))
    await asyncio.sleep(0)
    task.cancel()
    gate.open()
    await held
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.writer.run(note("next"))
    assert bench.events() == ["kept", "next"]


async def test_a_cancelled_caller_of_a_failing_operation_leaves_no_error_behind(bench: Bench) -> None:
    gate = Gate()
    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    task = bench.start(bench.writer.run(lambda tx: tx.execute("no such statement")))
    await asyncio.sleep(0)
    task.cancel()
    gate.open()
    await held
    # The guards fail the test if the error reaches the loop's handler.
    await bench.writer.run(note("next"))


async def test_a_loop_that_closes_meanwhile_is_no_error(bench: Bench) -> None:
    gate = Gate()

    async def leave_while_it_runs() -> None:
        bench.start(bench.writer.run(gate))
        bench.writer.listen(lambda _: None)
        await gate.reached()

    await asyncio.to_thread(asyncio.run, leave_while_it_runs())
    gate.open()
    assert await bench.writer.run(note("after")) == "after"
    assert bench.events() == ["after"]


async def test_closing_commits_what_waits(ledger: Ledger, bench: Bench) -> None:
    gate = Gate()
    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    waiting = bench.start(bench.writer.run(note("run")))
    await asyncio.sleep(0)
    bench.writer.post(note("posted"))
    closing = bench.start(bench.writer.close())
    await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(held, waiting, closing)
    assert bench.events() == ["run", "posted"]
    assert not (ledger.home / "ledger.sqlite3-wal").exists()


async def test_after_the_close_everything_is_refused_in_words(bench: Bench) -> None:
    await bench.writer.close()
    await bench.writer.close()
    with pytest.raises(LedgerUnavailable) as refused:
        await bench.writer.run(note("late"))
    assert refused.value.word == "stopping"
    bench.writer.post(note("late"))
    await bench.writer.probe()
    assert bench.events() == []


async def test_closing_does_not_wait_for_a_lock_for_ever(bench: Bench) -> None:
    with bench.locked():
        runs = [
            bench.start(bench.writer.run(note(f"n{i}"), ticket=Ticket() if i else None)) for i in range(3)
        ]
        await asyncio.sleep(0)
        await asyncio.wait_for(bench.writer.close(), WAIT)
        for run in runs:
            with pytest.raises(LedgerUnavailable, match="locked"):
                await run
    assert bench.events() == []


async def test_listeners_hear_the_tables_after_the_commit_and_only_until_they_end(bench: Bench) -> None:
    heard: list[tuple[frozenset[str], int]] = []
    end = bench.writer.listen(lambda topics: heard.append((topics, len(bench.events()))))
    await bench.writer.run(note("one"))
    # Nothing changed: nothing is said. And what the commit before said has been heard by now.
    await bench.writer.run(lambda tx: tx.execute("SELECT 1"))
    assert heard == [(frozenset({"events"}), 1)]
    end()
    end()
    await bench.writer.run(note("two"))
    await bench.writer.run(lambda tx: tx.execute("SELECT 1"))
    assert len(heard) == 1


async def test_a_failed_operation_is_not_announced(bench: Bench) -> None:
    heard: list[frozenset[str]] = []
    bench.writer.listen(heard.append)

    def fails(tx: Transaction) -> None:
        tx.set_meta("a", "b")
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        await bench.writer.run(fails)
    await bench.writer.run(note("good"))
    await bench.writer.run(lambda tx: tx.execute("SELECT 1"))
    assert heard == [frozenset({"events"})]


async def test_a_transaction_cannot_be_used_after_its_operation(bench: Bench) -> None:
    kept: list[Transaction] = []
    await bench.writer.run(kept.append)
    with pytest.raises(TransactionOver):
        kept[0].execute("SELECT 1")


async def test_operations_see_what_earlier_ones_of_their_batch_wrote(bench: Bench) -> None:
    def count(tx: Transaction) -> int:
        row = tx.one("SELECT count(*) FROM events WHERE actor = 'test'")
        tx.event(1, "test", "counted", "")
        return int(row[0]) if row else -1

    assert await bench.together(*(bench.writer.run(count) for _ in range(5))) == [0, 1, 2, 3, 4]
