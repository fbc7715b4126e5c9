"""Reading: read-only for real, one moment for one call, everything copied out, no lock left behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.ledger.errors import LedgerUnavailable
from app.ledger.reader import CursorLeftOpen, Reader, open_read_only, read
from app.ledger.store import FILE_NAME
from tests.ledger.bench import WAIT, Bench, Ledger, note

EVENTS = "SELECT count(*) FROM events"


@pytest.fixture
async def reader(ledger: Ledger) -> AsyncIterator[Reader]:
    made = Reader(ledger.home / FILE_NAME)
    yield made
    await made.close()


def assert_no_lock_is_left(ledger: Ledger) -> None:
    """Nothing keeps the log: it can be copied whole and cut to nothing."""
    ledger.connection.execute("INSERT INTO meta VALUES ('x' || hex(randomblob(8)), '')")
    ledger.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert (ledger.home / (FILE_NAME + "-wal")).stat().st_size == 0


async def test_rows_come_as_dicts_and_stay_what_they_were(ledger: Ledger, reader: Reader) -> None:
    rows = await reader.rows("SELECT id AS source, name FROM sources WHERE id = ?", ("src",))
    ledger.connection.execute("UPDATE sources SET name = 'other'")
    assert rows == [{"source": "src", "name": "tradingview"}]
    assert await reader.rows("SELECT name FROM sources") == [{"name": "other"}]
    assert await reader.rows("SELECT name FROM sources WHERE 0") == []
    assert_no_lock_is_left(ledger)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO meta VALUES ('x', 'y')",
        "UPDATE sources SET name = 'x'",
        "DELETE FROM meta",
        "CREATE TABLE more (x)",
        "PRAGMA user_version = 9",
        "VACUUM",
    ],
)
async def test_nothing_can_be_written(ledger: Ledger, reader: Reader, sql: str) -> None:
    def write(connection: apsw.Connection) -> None:
        connection.execute("PRAGMA query_only = OFF").fetchall()
        connection.execute(sql).fetchall()

    before, version = ledger.look("SELECT * FROM meta"), ledger.look("PRAGMA user_version")
    with pytest.raises((LedgerUnavailable, apsw.Error)):
        await reader.call(write)
    assert ledger.look("SELECT * FROM meta") == before
    assert ledger.look("PRAGMA user_version") == version
    assert await reader.rows(EVENTS) == [{"count(*)": 1}]
    assert_no_lock_is_left(ledger)


async def test_one_call_sees_one_moment(ledger: Ledger, reader: Reader) -> None:
    looked, written = threading.Event(), threading.Event()

    def twice(connection: apsw.Connection) -> tuple[Any, Any]:
        first = read(connection, "SELECT count(*) AS n FROM meta")
        looked.set()
        assert written.wait(WAIT)
        return first, read(connection, "SELECT count(*) AS n FROM meta")

    call = asyncio.get_running_loop().create_task(reader.call(twice))
    await asyncio.to_thread(looked.wait, WAIT)
    ledger.connection.execute("INSERT INTO meta VALUES ('x', 'y')")
    written.set()
    first, second = await call
    assert first == second
    assert await reader.rows("SELECT count(*) AS n FROM meta") != first
    assert_no_lock_is_left(ledger)


async def test_a_cursor_that_is_left_open_is_an_error_and_leaves_no_lock(
    ledger: Ledger, reader: Reader
) -> None:
    kept: list[apsw.Cursor] = []

    def careless(connection: apsw.Connection) -> apsw.Cursor:
        cursor = connection.execute("SELECT name FROM sqlite_schema")
        kept.append(cursor)
        return cursor

    with pytest.raises(CursorLeftOpen):
        await reader.call(careless)
    assert_no_lock_is_left(ledger)
    assert await reader.rows(EVENTS) == [{"count(*)": 1}]


async def test_an_error_goes_to_the_caller_and_leaves_no_lock(ledger: Ledger, reader: Reader) -> None:
    def fails(connection: apsw.Connection) -> None:
        read(connection, EVENTS)
        raise KeyError("theirs")

    with pytest.raises(KeyError):
        await reader.call(fails)
    with pytest.raises(apsw.SQLError):
        await reader.rows("SELECT nonsense")
    assert_no_lock_is_left(ledger)
    assert await reader.rows(EVENTS) == [{"count(*)": 1}]


async def test_calls_run_one_after_the_other(reader: Reader) -> None:
    running: list[int] = []

    def alone(connection: apsw.Connection) -> int:
        running.append(1)
        read(connection, "SELECT count(*) FROM sqlite_schema")
        return len([running.pop(), *running])

    assert set(await asyncio.gather(*(reader.call(alone) for _ in range(20)))) == {1}


async def test_reading_goes_on_while_the_writer_holds_its_lock(bench: Bench, reader: Reader) -> None:
    with bench.locked():
        run = bench.start(bench.writer.run(note("waits")))
        assert await reader.rows(EVENTS) == [{"count(*)": 1}]
    await run
    assert await reader.rows(EVENTS) == [{"count(*)": 2}]


async def test_a_missing_ledger_is_told_and_not_made(tmp_path: Path) -> None:
    reader = Reader(tmp_path / FILE_NAME)
    with pytest.raises(LedgerUnavailable) as refused:
        await reader.rows(EVENTS)
    assert refused.value.word == "failing"
    await reader.close()
    assert list(tmp_path.iterdir()) == []


async def test_after_the_close_it_refuses(ledger: Ledger, reader: Reader) -> None:
    await reader.rows(EVENTS)
    await reader.close()
    await reader.close()
    with pytest.raises(LedgerUnavailable, match="stopping"):
        await reader.rows(EVENTS)
    assert_no_lock_is_left(ledger)


async def test_a_close_waits_for_the_read_that_runs(reader: Reader) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(connection: apsw.Connection) -> int:
        inside.set()
        assert go_on.wait(WAIT)
        return len(read(connection, EVENTS))

    call = asyncio.get_running_loop().create_task(reader.call(slow))
    await asyncio.to_thread(inside.wait, WAIT)
    closing = asyncio.get_running_loop().create_task(reader.close())
    await asyncio.sleep(0)
    assert not closing.done()
    go_on.set()
    assert await call == 1
    await closing


def test_open_read_only_cannot_write_and_reads_a_ledger_whose_program_is_gone(ledger: Ledger) -> None:
    ledger.connection.close()
    with contextlib.closing(open_read_only(ledger.home / FILE_NAME)) as connection:
        assert read(connection, "SELECT name FROM sources") == [{"name": "tradingview"}]
        with pytest.raises(apsw.ReadOnlyError):
            connection.execute("DELETE FROM meta")
