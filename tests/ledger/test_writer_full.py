"""A full disk: SQLite may roll a whole batch back by itself, and each verdict must be what is on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from app.ledger.errors import LedgerUnavailable, TicketLate
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from tests.ledger.bench import Bench, Ledger, claim, digest, look, note
from tests.ledger.faulty_vfs import Call, disk_full

BATCH = 8
BIG, SMALL = 300_000, 10


def write_plain(tx: Transaction, number: int, filler: str) -> None:
    tx.insert("plain", {"number": number, "filler": filler})


def write_meta(tx: Transaction, number: int, filler: str) -> None:
    tx.set_meta(f"n{number}", filler)


def write_event(tx: Transaction, number: int, filler: str) -> None:
    tx.event(1, "test", str(number), "", {"filler": filler})


def write_claim(tx: Transaction, number: int, filler: str) -> None:
    claim(str(number), filler)(tx)


def write_delivery(tx: Transaction, number: int, filler: str) -> None:
    delivery = tx.insert("deliveries", {"received_at": number, "source_id": "src", "verdict": "invalid"})
    tx.insert("bodies", {"delivery_id": delivery, "body": filler})


WRITES: dict[str, tuple[Callable[[Transaction, int, str], None], str]] = {
    "plain": (write_plain, "SELECT number FROM plain"),
    "meta": (write_meta, "SELECT CAST(substr(name, 2) AS INTEGER) FROM meta WHERE name LIKE 'n%'"),
    "events": (write_event, "SELECT CAST(what AS INTEGER) FROM events WHERE actor = 'test'"),
    "claims": (write_claim, "SELECT CAST(key AS INTEGER) FROM claims"),
    "deliveries and bodies": (
        write_delivery,
        "SELECT received_at FROM deliveries JOIN bodies ON delivery_id = id",
    ),
}


@pytest.fixture
def plain_table(ledger: Ledger) -> None:
    """A table without any index, as in the run that found the hole."""
    ledger.connection.execute("CREATE TABLE plain (number INTEGER, filler TEXT) STRICT")


def leave_pages(connection: apsw.Connection, pages: int) -> None:
    connection.pragma("max_page_count", connection.pragma("page_count") + pages)


def write(table: str, number: int, size: int) -> Callable[[Transaction], int]:
    def operation(tx: Transaction) -> int:
        WRITES[table][0](tx, number, "x" * size)
        return number

    return operation


def verdicts(results: list[Any]) -> list[int]:
    """The numbers that were promised; every other result is a refusal with the word `full`."""
    for result in results:
        assert isinstance(result, int) or (isinstance(result, LedgerUnavailable) and result.word == "full")
    return [result for result in results if isinstance(result, int)]


def reopened(ledger: Ledger, table: str) -> list[int]:
    """What a killed and reopened ledger holds, read by another SQLite."""
    numbers = look(ledger.copy("killed"), WRITES[table][1])
    return sorted(row[0] for row in numbers)


@pytest.mark.parametrize("table", WRITES)
@pytest.mark.parametrize("position", range(BATCH))
async def test_h18_each_verdict_is_what_a_reopened_ledger_holds(
    ledger: Ledger, plain_table: None, bench: Bench, table: str, position: int
) -> None:
    leave_pages(ledger.connection, 20)
    results = await bench.together(
        *(bench.writer.run(write(table, n, BIG if n == position else SMALL)) for n in range(BATCH))
    )
    assert verdicts(results) == [n for n in range(BATCH) if n != position]
    assert reopened(ledger, table) == verdicts(results)
    assert bench.writer.health.word == "full"


@pytest.mark.parametrize("table", WRITES)
@pytest.mark.parametrize("pages", [0, 3, 8, 13])
async def test_h18_when_the_last_pages_are_shared_by_all(
    ledger: Ledger, plain_table: None, bench: Bench, table: str, pages: int
) -> None:
    leave_pages(ledger.connection, pages)
    results = await bench.together(*(bench.writer.run(write(table, n, 9_000)) for n in range(BATCH)))
    assert len(verdicts(results)) < BATCH
    assert reopened(ledger, table) == verdicts(results)


async def test_h18_an_operation_that_swallows_the_error_promises_nothing(
    ledger: Ledger, plain_table: None, bench: Bench
) -> None:
    """SQLite has rolled back under it: its next statement would commit on its own."""
    leave_pages(ledger.connection, 20)
    reached: list[str] = []

    def stubborn(tx: Transaction) -> str:
        tx.event(1, "test", "before", "")
        try:
            write_plain(tx, 1, "x" * BIG)
        except apsw.FullError:
            reached.append("swallowed")
        try:
            tx.event(1, "test", "after", "")
        except apsw.FullError:
            reached.append("again")
        return "done"

    results = await bench.together(bench.writer.run(note("other")), bench.writer.run(stubborn))
    assert results[0] == "other"
    assert isinstance(results[1], LedgerUnavailable)
    assert reached == ["swallowed", "again"] * 2
    assert bench.events() == ["other"]
    assert look(ledger.copy("killed"), "SELECT what FROM events WHERE actor = 'test'") == [("other",)]


async def test_h18_every_other_error_that_ends_the_transaction(
    ledger: Ledger, plain_table: None, bench: Bench
) -> None:
    """A trigger's ROLLBACK and an interrupt: the batch is run again one by one, and only one is refused."""
    connection = ledger.connection
    connection.execute(
        "CREATE TRIGGER ends BEFORE INSERT ON plain WHEN NEW.number = 0 "
        "BEGIN SELECT RAISE(ROLLBACK, 'ended'); END"
    )

    def interrupted(tx: Transaction) -> None:
        tx.event(1, "test", "interrupted", "")
        connection.set_progress_handler(lambda: True, 1)
        try:
            tx.execute("UPDATE events SET at = at WHERE actor = 'nobody'")
        finally:
            connection.set_progress_handler(None)

    results = await bench.together(
        bench.writer.run(note("first")),
        bench.writer.run(write("plain", 0, 1)),
        bench.writer.run(note("second")),
        bench.writer.run(interrupted),
        bench.writer.run(note("third")),
    )
    assert [results[0], results[2], results[4]] == ["first", "second", "third"]
    assert isinstance(results[1], apsw.ConstraintError)
    assert isinstance(results[3], LedgerUnavailable)
    assert bench.events() == ["first", "second", "third"]


async def test_h18_an_operation_run_again_announces_and_returns_only_its_last_run(
    ledger: Ledger, plain_table: None, bench: Bench
) -> None:
    leave_pages(ledger.connection, 20)
    heard: list[frozenset[str]] = []
    bench.writer.listen(heard.append)
    runs: list[int] = []

    def counts(tx: Transaction) -> int:
        runs.append(1)
        if len(runs) == 1:
            tx.set_meta("only the first time", "")
        else:
            tx.event(1, "test", "again", "")
        return len(runs)

    results = await bench.together(bench.writer.run(counts), bench.writer.run(write("plain", 1, BIG)))
    assert results[0] == 2
    await bench.writer.run(lambda tx: tx.execute("SELECT 1"))
    assert heard == [frozenset({"events"})]
    assert bench.look("SELECT 1 FROM meta WHERE name = 'only the first time'") == []


async def test_h18_a_lock_that_comes_between_the_single_runs_loses_none_of_them(
    ledger: Ledger, plain_table: None, bench: Bench
) -> None:
    leave_pages(ledger.connection, 20)
    lock = bench.locked()
    commits: list[int] = []

    def take_the_lock_after_the_second() -> None:
        commits.append(1)
        if len(commits) == 3:  # the first is the one that held the writer up
            lock.__enter__()

    bench.points["after_commit"] = take_the_lock_after_the_second
    ticket = Ticket()
    works = [bench.writer.run(write("plain", n, BIG if n == 4 else SMALL)) for n in range(BATCH)]
    results = bench.start(bench.together(*works, bench.writer.run(claim("late"), ticket=ticket)))
    await bench.clock.lock_refused(times=3)
    assert len(bench.look(WRITES["plain"][1])) == 2
    ticket.expire()
    lock.__exit__(None, None, None)
    answers = await results
    assert isinstance(answers.pop(), TicketLate)
    assert verdicts(answers) == [n for n in range(BATCH) if n != 4]
    assert reopened(ledger, "plain") == verdicts(answers)


async def test_h18_no_savepoint_is_issued_outside_a_transaction(
    ledger: Ledger, plain_table: None, bench: Bench
) -> None:
    leave_pages(ledger.connection, 20)
    open_at: list[tuple[str, bool]] = []

    def trace(cursor: apsw.Cursor, sql: str, _bindings: apsw.Bindings | None) -> bool:
        open_at.append((sql.split(maxsplit=1)[0], cursor.connection.in_transaction))
        return True

    ledger.connection.exec_trace = trace
    await bench.together(
        *(bench.writer.run(write("plain", n, BIG if n == 3 else SMALL)) for n in range(BATCH))
    )
    ledger.connection.exec_trace = None
    assert ("SAVEPOINT", True) in open_at
    for word, is_open in open_at:
        assert is_open is (word != "BEGIN"), (word, is_open)


@pytest.mark.parametrize("how", ["max_page_count", "the disk"])
async def test_h19_a_full_disk_is_told_and_recovers_without_restart(
    ledger: Ledger, plain_table: None, bench: Bench, how: str
) -> None:
    def no_room(call: Call) -> None:
        if call.what == "write":
            raise disk_full()

    if how == "max_page_count":
        leave_pages(ledger.connection, 0)
    else:
        bench.disk.before = no_room
    with pytest.raises(LedgerUnavailable) as refused:
        await bench.writer.run(claim("k", "x" * 20_000))
    assert refused.value.word == "full"
    assert bench.writer.health.word == "full"
    # Nobody delivers anything: the timer's probe is what notices, both ways.
    assert (await bench.writer.probe()).word == "full"
    assert bench.fatal == []
    if how == "max_page_count":
        leave_pages(ledger.connection, 1_000)
    else:
        bench.disk.before = None
    assert (await bench.writer.probe()).word == "ok"
    assert await bench.writer.run(claim("k", "x" * 20_000)) == "accepted"
    assert bench.look("SELECT digest, unanswered FROM claims") == [(digest("k"), 0)]


async def test_h19_the_probe_finds_a_full_disk_before_any_delivery_does(ledger: Ledger, bench: Bench) -> None:
    leave_pages(ledger.connection, 0)
    health = await bench.writer.probe()
    assert (health.word, bench.writer.health.word) == ("full", "full")
    leave_pages(ledger.connection, 100)
    for _ in range(3):
        assert (await bench.writer.probe()).word == "ok"
    # What it took it gave back: the ledger does not grow by being asked.
    pages = ledger.connection.pragma("page_count")
    for _ in range(5):
        await bench.writer.probe()
    assert ledger.connection.pragma("page_count") == pages
    assert bench.look("SELECT 1 FROM meta WHERE name = 'probe'") == []


def test_another_sqlite_reads_what_was_written(ledger: Ledger) -> None:
    """The standard library's SQLite, another version than the writer's, finds the file whole."""
    ledger.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    other = sqlite3.connect(ledger.home / "ledger.sqlite3")
    assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    other.close()
