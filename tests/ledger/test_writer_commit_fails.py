"""A COMMIT that raised is not undone: a reopened ledger may hold what the living process does not see.

So nothing runs, nobody hears and nobody is told before a barrier transaction has been committed over it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.clock import SECOND
from app.ledger import batch
from app.ledger.errors import CommitUnknown, LedgerUnavailable, TicketLate
from app.ledger.store import broken_chain
from app.ledger.ticket import Outcome, Ticket
from app.ledger.transaction import Transaction
from tests.ledger.bench import WAIT, Bench, Gate, Ledger, claim, look, note, unclaim
from tests.ledger.faulty_vfs import Call, disk_broken, disk_full

Raises = Callable[[], Exception]


def fail_at(
    bench: Bench, file: str, what: str, nth: int, error: Raises = disk_broken, times: int = 1
) -> None:
    """From the `nth` such call on, `times` of them fail."""
    seen = [0]

    def before(call: Call) -> None:
        if (call.file, call.what) == (file, what):
            seen[0] += 1
            if nth <= seen[0] < nth + times:
                raise error()

    bench.disk.before = before


def claims(folder: Path) -> dict[str, int]:
    """Key to `unanswered`, as a reopened ledger has it."""
    return dict(look(folder, "SELECT key, unanswered FROM claims"))


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("fresh_log", [False, True])
async def test_h19_each_sync_fails_once_and_a_kill_anywhere_leaves_it_absent_marked_or_untold(
    ledger: Ledger, bench: Bench, nth: int, fresh_log: bool
) -> None:
    """A log that is begun anew has one more sync, of its header."""
    if fresh_log:
        ledger.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    told: dict[str, str] = {}
    images: list[tuple[Path, dict[str, str]]] = []

    def image() -> None:
        images.append((ledger.copy(f"killed-{len(images)}"), dict(told)))

    syncs = [0]

    def before(call: Call) -> None:
        if (call.file, call.what) == ("wal", "sync"):
            syncs[0] += 1
            image()
            if syncs[0] == nth:
                raise disk_broken()

    bench.disk.before = before
    for point in ("before_barrier", "after_barrier"):
        bench.points[point] = image
    for key in "abc":
        ticket = Ticket()
        try:
            told[key] = await bench.writer.run(claim(key), ticket=ticket, on_void=unclaim(key))
            assert ticket.outcome is Outcome.ACK
        except CommitUnknown:
            told[key] = "unknown"
            assert ticket.outcome is Outcome.LATE
        image()
    assert list(told.values()).count("unknown") == (1 if nth <= 3 + fresh_log else 0)
    assert len(images) >= 6
    for folder, known in images:
        found = claims(folder)
        for key, verdict in known.items():
            if verdict == "accepted":
                assert found[key] == 0, (folder.name, key)
            else:
                assert found.get(key, 1) == 1, (folder.name, key)
    assert bench.fatal == []


async def test_h19_the_hole_itself_is_there(ledger: Ledger, bench: Bench) -> None:
    """If a failed COMMIT could never be found after a kill, the tests beside this one would prove nothing."""
    images: list[Path] = []
    bench.points["before_barrier"] = lambda: images.append(ledger.copy("killed"))
    fail_at(bench, "wal", "sync", 1)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    assert claims(images[0]) == {"k": 0}
    assert claims(ledger.copy("later")) == {}


async def test_h19_nobody_is_told_before_the_barrier_was_tried(bench: Bench) -> None:
    ticket, barrier = Ticket(), Gate()
    bench.points["before_barrier"] = barrier
    fail_at(bench, "wal", "sync", 1)
    run = bench.start(bench.writer.run(claim("k"), ticket=ticket, on_void=unclaim("k")))
    await barrier.reached()
    assert not run.done()
    assert ticket.outcome is Outcome.OPEN
    barrier.open()
    with pytest.raises(CommitUnknown):
        await run


async def test_h19_nothing_runs_and_nobody_hears_before_the_barrier(bench: Bench) -> None:
    heard: list[frozenset[str]] = []
    ran: list[str] = []
    bench.writer.listen(heard.append)

    def remember(tx: Transaction) -> None:
        ran.append("later")
        assert tx.one("SELECT what FROM events ORDER BY id DESC LIMIT 1") == ("commit failed",)

    def on_void(tx: Transaction, verdict: str) -> None:
        ran.append("marked")
        unclaim("k")(tx, verdict)

    # The commit and its first barrier fail for want of room, and room is not there yet.
    fail_at(bench, "wal", "write", 1, disk_full, times=10**6)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), ticket=Ticket(), on_void=on_void)
    ran.clear()
    for _ in range(2 * batch.BARRIER_TRIES):
        with pytest.raises(LedgerUnavailable, match="full"):
            await bench.writer.run(remember)
    assert "later" not in ran
    assert heard == []
    assert bench.fatal == []  # a full disk is waited for
    ran.clear()
    bench.disk.before = None
    await bench.writer.run(remember)
    assert ran == ["marked", "later"]
    assert heard == [frozenset({"events"})]


async def test_h19_a_barrier_that_waits_for_the_lock_holds_everything_up(bench: Bench) -> None:
    lock = bench.locked()

    def take_the_lock() -> None:
        bench.points.clear()
        lock.__enter__()

    bench.points["before_barrier"] = take_the_lock
    fail_at(bench, "wal", "sync", 1)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    later = bench.start(bench.writer.run(note("later")))
    late = Ticket()
    refused = bench.start(bench.writer.run(note("refused"), ticket=late))
    await asyncio.sleep(0)
    late.expire()
    with pytest.raises(TicketLate):
        await asyncio.wait_for(refused, WAIT)
    assert not later.done()
    lock.__exit__(None, None, None)
    assert await later == "later"
    assert bench.look("SELECT what FROM events WHERE what IN ('commit failed', 'later')") == [
        ("commit failed",),
        ("later",),
    ]
    assert bench.fatal == []


async def test_h19_the_barrier_is_audited_and_the_chain_holds(ledger: Ledger, bench: Bench) -> None:
    fail_at(bench, "wal", "sync", 1)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    assert bench.look("SELECT actor, what, subject FROM events ORDER BY id DESC LIMIT 2") == [
        ("onefill", "commit failed", "ledger"),
        ("onefill", "unanswered", "k"),
    ]
    with contextlib.closing(apsw.Connection(str(ledger.copy("killed") / "ledger.sqlite3"))) as connection:
        assert await asyncio.to_thread(broken_chain, connection) is None


async def test_h19_three_failed_barriers_end_the_process_and_nothing_runs_after(bench: Bench) -> None:
    ran: list[str] = []
    tries = [0]

    def count() -> None:
        tries[0] += 1

    bench.points["before_barrier"] = count
    fail_at(bench, "wal", "sync", 1, times=10**6)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    assert (tries[0], bench.fatal) == (1, [])
    for tried in range(2, batch.BARRIER_TRIES + 1):
        # A flood does not use up the tries within a moment: they are a second apart.
        for _ in range(5):
            with pytest.raises(LedgerUnavailable, match="failing"):
                await bench.writer.run(lambda _: ran.append("later"))
            assert (tries[0], bench.fatal) == (tried - 1, [])
        bench.clock.advance(SECOND)
        with pytest.raises(LedgerUnavailable, match="failing"):
            await bench.writer.run(lambda _: ran.append("later"))
        assert tries[0] == tried
    assert len(bench.fatal) == 1
    bench.disk.before = None
    bench.clock.advance(60 * SECOND)
    ticket = Ticket()
    with pytest.raises(LedgerUnavailable, match="failing"):
        await bench.writer.run(lambda _: ran.append("later"), ticket=ticket)
    assert ticket.outcome is Outcome.LATE
    assert (await bench.writer.probe()).word == "failing"
    assert (tries[0], ran, len(bench.fatal)) == (batch.BARRIER_TRIES, [], 1)


async def test_h19_one_good_barrier_forgives_the_failed_ones(bench: Bench) -> None:
    for _ in range(3):
        # The commit and its first barrier fail, the second barrier does not.
        fail_at(bench, "wal", "sync", 1, times=2)
        with pytest.raises(CommitUnknown):
            await bench.writer.run(claim("k"), on_void=unclaim("k"))
        assert bench.writer.health.word == "failing"
        bench.clock.advance(SECOND)
        assert (await bench.writer.probe()).word == "ok"
    assert bench.fatal == []


async def test_h19_a_marking_that_cannot_be_done_ends_the_process_and_no_loop(bench: Bench) -> None:
    calls: list[int] = []

    def broken(_tx: Transaction, _value: Any) -> None:
        calls.append(1)
        raise SystemExit("a bug")

    fail_at(bench, "wal", "sync", 1)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=broken)
    for _ in range(5):
        bench.clock.advance(SECOND)
        with pytest.raises(LedgerUnavailable):
            await bench.writer.run(note("later"))
    assert len(calls) == batch.BARRIER_TRIES
    assert len(bench.fatal) == 1
    assert bench.events() == []


async def test_h19_a_marking_that_swallows_a_full_disk_is_waited_for_and_not_given_up(
    ledger: Ledger, bench: Bench
) -> None:
    ledger.connection.execute("CREATE TABLE plain (filler TEXT) STRICT")
    ledger.connection.pragma("max_page_count", ledger.connection.pragma("page_count") + 20)

    def stubborn(tx: Transaction, _verdict: str) -> None:
        with contextlib.suppress(apsw.FullError):
            tx.insert("plain", {"filler": "x" * 300_000})

    fail_at(bench, "wal", "sync", 1)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=stubborn)
    for _ in range(2 * batch.BARRIER_TRIES):
        bench.clock.advance(SECOND)
        assert (await bench.writer.probe()).word == "full"
    assert bench.fatal == []
    ledger.connection.pragma("max_page_count", 10_000)
    assert (await bench.writer.probe()).word == "ok"
    assert bench.look("SELECT length(filler) FROM plain") == [(300_000,)]


async def test_h19_what_is_owed_is_paid_at_the_stop(bench: Bench) -> None:
    fail_at(bench, "wal", "sync", 1, times=2)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    await bench.writer.close()
    assert bench.look("SELECT what FROM events WHERE what IN ('unanswered', 'commit failed')") == [
        ("unanswered",),
        ("commit failed",),
    ]


async def test_h19_in_a_failed_commit_each_operation_that_failed_by_itself_keeps_its_error(
    bench: Bench,
) -> None:
    marked: list[str] = []

    def fails(_tx: Transaction) -> str:
        raise ValueError("its own")

    fail_at(bench, "wal", "sync", 1)
    results = await bench.together(
        bench.writer.run(claim("k"), on_void=lambda _, verdict: marked.append(verdict)),
        bench.writer.run(fails, on_void=lambda _, verdict: marked.append(verdict)),
        bench.writer.run(note("third")),
    )
    assert [type(result) for result in results] == [CommitUnknown, ValueError, CommitUnknown]
    assert marked == ["accepted"]
    assert bench.events() == []


async def test_h19_an_error_of_any_kind_from_commit_is_an_unknown_outcome(bench: Bench) -> None:
    fail_at(bench, "wal", "sync", 1, lambda: RuntimeError("no error of SQLite's"))
    with pytest.raises(CommitUnknown) as unknown:
        await bench.writer.run(claim("k"), on_void=unclaim("k"))
    assert unknown.value.word == "failing"
    assert await bench.writer.run(claim("k")) == "accepted"


async def test_h19_a_commit_that_was_refused_before_it_wrote_is_no_unknown_outcome(
    ledger: Ledger, bench: Bench
) -> None:
    """No table of ours has a deferred constraint; one would fail at COMMIT, and alone (HOLES H20)."""
    ledger.connection.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
    ledger.connection.execute(
        "CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    results = await bench.together(
        bench.writer.run(note("first")),
        bench.writer.run(lambda tx: tx.insert("child", {"id": 7})),
        bench.writer.run(note("second")),
    )
    assert results[0::2] == ["first", "second"]
    assert isinstance(results[1], apsw.ConstraintError)
    assert bench.events() == ["first", "second"]
    assert bench.writer.health.word == "ok"


@pytest.mark.parametrize("what", ["write", "sync"])
async def test_h19_io_errors_anywhere_never_make_a_promise_that_a_kill_breaks(
    ledger: Ledger, bench: Bench, what: str
) -> None:
    """Every write and every sync of a busy minute fails once, one after the other."""
    ledger.connection.execute("PRAGMA cache_size = 10")  # pages are spilled before COMMIT
    accepted: list[str] = []
    for nth in range(1, 30):
        fail_at(bench, "wal", what, nth)
        keys = [f"{nth}-{n}" for n in range(3)]
        results = await bench.together(
            *(
                bench.writer.run(claim(key, "x" * 30_000), ticket=Ticket(), on_void=unclaim(key))
                for key in keys
            )
        )
        accepted += [key for key, result in zip(keys, results, strict=True) if result == "accepted"]
        bench.disk.before = None
        bench.clock.advance(SECOND)
        assert (await bench.writer.probe()).word == "ok"
    found = claims(ledger.copy("killed"))
    assert [key for key, unanswered in found.items() if not unanswered] == accepted
    assert bench.fatal == []


async def test_h19_fatal_that_fails_itself_does_not_stop_the_refusing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = threading.Event()

    def fatal(_reason: str) -> None:
        called.set()
        raise RuntimeError("the loop has closed")

    monkeypatch.setattr(bench.writer._committer, "_fatal", fatal)
    monkeypatch.setattr(batch, "BARRIER_TRIES", 1)
    fail_at(bench, "wal", "sync", 1, times=2)
    with pytest.raises(CommitUnknown):
        await bench.writer.run(claim("k"))
    assert called.is_set()
    with pytest.raises(LedgerUnavailable, match="failing"):
        await bench.writer.run(note("later"))
