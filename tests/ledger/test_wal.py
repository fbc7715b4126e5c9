"""The write-ahead log: copied when nothing waits, never inside a COMMIT, reported when a reader holds it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator

import apsw
import pytest

from app.ledger import wal
from tests.ledger.bench import Bench, Ledger, claim, note
from tests.ledger.faulty_vfs import Call


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pages instead of megabytes: what counts is when, not how much."""
    monkeypatch.setattr(wal, "PAGES_IDLE", 20)
    monkeypatch.setattr(wal, "PAGES_BUSY", 80)
    monkeypatch.setattr(wal, "WARN_BYTES", 700_000)
    monkeypatch.setattr(wal, "LOUD_BYTES", 1_200_000)


@contextlib.contextmanager
def pinned_reader(ledger: Ledger) -> Iterator[apsw.Connection]:
    with contextlib.closing(apsw.Connection(str(ledger.home / "ledger.sqlite3"))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM claims").fetchall()
        yield reader


def log_size(ledger: Ledger) -> int:
    return (ledger.home / "ledger.sqlite3-wal").stat().st_size


async def settle(bench: Bench) -> None:
    """Until the writer's thread has done what follows the last commit, too."""
    await asyncio.get_running_loop().run_in_executor(bench.writer._executor, lambda: None)


async def test_h24_copied_when_nothing_waits(bench: Bench, small_limits: None) -> None:
    for n in range(3):
        await bench.writer.run(claim(f"k{n}", "x" * 100_000))
    await settle(bench)
    assert bench.writer.health.wal_bytes == 0
    assert bench.disk.count("main", "write") > 0


async def test_h24_a_small_log_is_left_alone(bench: Bench, small_limits: None) -> None:
    await bench.writer.run(note("the first, with what the creation left in the log"))
    await settle(bench)
    bench.disk.calls.clear()
    await bench.writer.run(note("small"))
    await settle(bench)
    assert 0 < bench.writer.health.wal_bytes < 20 * 4200
    assert bench.disk.count("main", "write") == 0


async def test_h24_never_inside_a_commit(bench: Bench, small_limits: None) -> None:
    """SQLite's own checkpoint would write into the main file between the begin and the end of some COMMIT."""
    for point in ("before_commit", "after_commit"):
        bench.points[point] = functools.partial(bench.disk.calls.append, Call("point", point))
    for n in range(40):
        await bench.together(*(bench.writer.run(claim(f"k{n}.{m}", "x" * 20_000)) for m in range(3)))
    inside = False
    copies = 0
    for call in bench.disk.calls:
        if call.file == "point":
            inside = call.what.startswith("before")
        elif call.file == "main":
            assert not inside, call
            copies += 1
    assert copies > 100


async def test_h24_a_pinned_reader_makes_it_grow_which_is_told_and_ends_with_the_reader(
    ledger: Ledger, bench: Bench, small_limits: None
) -> None:
    with pinned_reader(ledger) as reader:
        details = []
        for n in range(30):
            await bench.writer.run(claim(f"k{n}", "x" * 40_000))
            details.append(bench.writer.health.detail)
        await settle(bench)
        health = bench.writer.health
        assert health.word == "ok"  # writing goes on
        assert health.wal_bytes > 1_200_000
        assert log_size(ledger) >= health.wal_bytes
        assert details[0] == ""
        assert any(detail.endswith("MB") for detail in details)
        assert "a reader" in health.detail
        assert reader.execute("SELECT count(*) FROM claims").fetchall() == [(0,)]
    # Nobody delivers anything: the timer's probe is enough.
    assert (await bench.writer.probe()).word == "ok"
    await settle(bench)
    assert bench.writer.health.wal_bytes == 0
    assert bench.writer.health.detail == ""
    # And the log is begun anew instead of growing on.
    await bench.writer.run(note("next"))
    assert bench.writer.health.wal_bytes < 50_000


async def test_h24_a_reader_at_the_end_of_the_log_keeps_it_from_being_begun_anew_and_is_told_too(
    ledger: Ledger, bench: Bench, small_limits: None
) -> None:
    for n in range(5):
        await bench.writer.run(claim(f"a{n}", "x" * 100_000))
    with pinned_reader(ledger):
        for n in range(5):
            await bench.writer.run(claim(f"b{n}", "x" * 100_000))
        await bench.writer.run(note("last"))
        await settle(bench)
        assert bench.writer.health.wal_bytes > 0
        assert log_size(ledger) > 500_000
    await bench.writer.probe()
    await settle(bench)
    assert bench.writer.health.wal_bytes == 0


async def test_h24_a_failed_checkpoint_loses_nothing_and_stops_nothing(
    bench: Bench, small_limits: None
) -> None:
    def before(call: Call) -> None:
        if call.file == "main":
            raise apsw.IOError("disk I/O error")

    bench.disk.before = before
    for n in range(3):
        assert await bench.writer.run(claim(f"k{n}", "x" * 100_000)) == "accepted"
    await settle(bench)
    bench.disk.before = None
    assert await bench.writer.run(claim("last")) == "accepted"
    await settle(bench)
    assert bench.writer.health.wal_bytes == 0
    assert len(bench.look("SELECT 1 FROM claims")) == 4
    assert bench.look("PRAGMA integrity_check") == [("ok",)]


async def test_h24_the_log_file_is_cut_back_after_it_was_large(ledger: Ledger, bench: Bench) -> None:
    ledger.connection.pragma("journal_size_limit", 100_000)
    with pinned_reader(ledger):
        for n in range(10):
            await bench.writer.run(claim(f"k{n}", "x" * 500_000))
    assert log_size(ledger) > 4_000_000
    await bench.writer.probe()
    await settle(bench)
    await bench.writer.run(note("next"))
    await settle(bench)
    assert log_size(ledger) <= 200_000


async def test_h24_a_stop_leaves_no_log_even_beside_a_reader_that_ends(ledger: Ledger, bench: Bench) -> None:
    with contextlib.closing(apsw.Connection(str(ledger.home / "ledger.sqlite3"))) as idle:
        idle.execute("SELECT count(*) FROM claims").fetchall()
        await bench.writer.run(claim("k"))
        await bench.writer.close()
        assert log_size(ledger) == 0
        assert idle.execute("SELECT count(*) FROM claims").fetchall() == [(1,)]
