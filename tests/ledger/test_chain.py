"""The audit chain: it holds under rollbacks, failed commits and crowds, and shows any change of any row."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.ledger.store import FILE_NAME, broken_chain, open_ledger
from app.ledger.transaction import GENESIS, Transaction, event_hash
from tests.ledger.bench import Bench, Ledger, note
from tests.ledger.faulty_vfs import Call, disk_broken, disk_full


def chain_of(folder: Path, newest: int = 10_000) -> int | None:
    with contextlib.closing(apsw.Connection(str(folder / FILE_NAME))) as connection:
        return broken_chain(connection, newest)


async def test_h23_holds_when_savepoints_are_rolled_back(bench: Bench) -> None:
    def fails(tx: Transaction) -> None:
        tx.event(1, "test", "undone", "")
        tx.event(1, "test", "undone", "")
        raise ValueError

    works = [bench.writer.run(fails if n % 3 == 1 else note(f"n{n}")) for n in range(12)]
    await bench.together(*works)
    assert len(bench.events()) == 8
    assert await asyncio.to_thread(chain_of, bench.home) is None


@pytest.mark.parametrize("error", [disk_full, disk_broken])
async def test_h23_holds_when_commits_fail(bench: Bench, error: Any) -> None:
    for nth in range(6):
        await bench.writer.run(note(f"n{nth}"))
        failed: list[Call] = []

        def before(call: Call, failed: list[Call] = failed) -> None:
            if not failed and (call.file, call.what) == ("wal", "sync"):
                failed.append(call)
                raise error()

        bench.disk.before = before
        await bench.together(*(bench.writer.run(note(f"n{nth}.{n}")) for n in range(4)))
        assert failed
    assert bench.events("n_") == [f"n{nth}" for nth in range(6)]
    assert await asyncio.to_thread(chain_of, bench.home) is None
    assert await asyncio.to_thread(chain_of, bench.ledger.copy("killed")) is None


async def test_h23_holds_when_a_full_disk_voids_a_batch(ledger: Ledger, bench: Bench) -> None:
    ledger.connection.pragma("max_page_count", ledger.connection.pragma("page_count") + 10)

    def large(tx: Transaction) -> None:
        tx.event(1, "test", "large", "", {"filler": "x" * 100_000})

    await bench.together(*(bench.writer.run(large if n in (2, 5) else note(f"n{n}")) for n in range(8)))
    assert bench.events() == ["n0", "n1", "n3", "n4", "n6", "n7"]
    assert await asyncio.to_thread(chain_of, bench.home) is None


async def test_h23_holds_when_many_write_at_once(bench: Bench) -> None:
    async def many(name: str) -> None:
        for n in range(10):
            await bench.writer.run(note(f"{name}{n}"))

    await asyncio.gather(*(many(name) for name in "abcdefgh"))
    assert len(bench.events()) == 80
    assert await asyncio.to_thread(chain_of, bench.home) is None


@pytest.fixture
def chained(empty_home: Path) -> Iterator[apsw.Connection]:
    """A ledger of five events (the first is its own creation) that can be tampered with."""
    connection = open_ledger(empty_home, 1)
    transaction = Transaction(connection, set())
    for n in range(4):
        transaction.event(10 + n, "actor", f"what {n}", f"S{n}", {"n": n, "text": "ü\u2028\x00\U0001f600"})
    for name in ("events_stay", "events_fixed"):
        connection.execute(f"DROP TRIGGER {name}")
    yield connection
    connection.close()


CHANGES = {
    "id": "id = id + 100",
    "at": "at = at + 1",
    "actor": "actor = actor || ' '",
    "what": "what = ''",
    "subject": "subject = 'S99'",
    "detail": "detail = '{}'",
    "hash": "hash = zeroblob(32)",
    "detail, not UTF-8": "detail = CAST(x'ff' AS TEXT)",
    "swapped columns": "actor = what, what = actor",
}


def test_h23_an_untouched_chain_is_whole(chained: apsw.Connection) -> None:
    assert broken_chain(chained) is None
    for newest in range(1, 8):
        assert broken_chain(chained, newest) is None


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("row", [1, 2, 3, 4, 5])
def test_h23_any_change_of_any_row_is_found(chained: apsw.Connection, row: int, change: str) -> None:
    chained.execute(f"UPDATE events SET {CHANGES[change]} WHERE id = ?", (row,))
    found = broken_chain(chained)
    assert found is not None
    assert row <= found or found == row + 100
    # Even if only the newest rows are looked at, as at the start.
    if change != "id":
        assert broken_chain(chained, 5 - row + 1) == row


@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_h23_a_row_taken_away_is_found(chained: apsw.Connection, row: int) -> None:
    chained.execute("DELETE FROM events WHERE id = ?", (row,))
    assert broken_chain(chained) == row + 1


def test_h23_a_row_put_in_is_found(chained: apsw.Connection) -> None:
    chained.execute("UPDATE events SET id = id + 1 WHERE id = 5")
    chained.execute(
        "INSERT INTO events SELECT 5, at, actor, what, subject, detail, hash FROM events WHERE id = 4"
    )
    assert broken_chain(chained) == 5


def test_h23_rows_that_changed_places_are_found(chained: apsw.Connection) -> None:
    chained.execute("UPDATE events SET id = 99 WHERE id = 2")
    chained.execute("UPDATE events SET id = 2 WHERE id = 3")
    chained.execute("UPDATE events SET id = 3 WHERE id = 99")
    assert broken_chain(chained) == 2


def test_h23_a_cut_tail_is_not_found_and_a_broken_chain_does_not_refuse_the_ledger(
    chained: apsw.Connection, empty_home: Path
) -> None:
    """What a chain cannot show needs the head from elsewhere; and exits go on whatever it shows."""
    chained.execute("DELETE FROM events WHERE id = 5")
    assert broken_chain(chained) is None
    chained.execute("UPDATE events SET at = 0 WHERE id = 3")
    chained.close()
    again = open_ledger(empty_home, 2)
    assert broken_chain(again) == 3
    Transaction(again, set()).event(1, "test", "goes on", "")
    assert broken_chain(again) == 3
    again.close()


def test_h23_the_hash_is_what_the_paper_says() -> None:
    """Fixed for ever: another program, or a later Onefill, must be able to check an old ledger."""
    digest = event_hash(GENESIS, 1, 2, "onefill", "migrated", "ledger", '{"to":1}')
    assert digest.hex() == "6d59b4d70fc1b401d6eea85d4421596fe16fdf38c548501c4ef3093fbffdd692"


def test_h23_an_empty_chain_is_whole() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, at, actor, what, subject, detail, hash)")
    assert broken_chain(connection) is None
    connection.close()
