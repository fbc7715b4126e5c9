"""One bad operation fails alone: not its neighbours, not the thread, not the next hundred."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from app.clock import SECOND
from app.ledger.errors import LedgerUnavailable, OperationFailed, TicketLate
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from tests.ledger.bench import WAIT, Bench, Gate, claim, note


def raising(error: BaseException) -> Callable[[Transaction], Any]:
    def operation(tx: Transaction) -> None:
        tx.event(1, "test", "poison", "")
        raise error

    return operation


def running(*statements: str) -> Callable[[Transaction], Any]:
    def operation(tx: Transaction) -> None:
        tx.event(1, "test", "poison", "")
        for statement in statements:
            tx.execute(statement)

    return operation


def swallowing(statement: str) -> Callable[[Transaction], Any]:
    """Tries something forbidden, does not mind the refusal, and fails in the end."""

    def operation(tx: Transaction) -> None:
        tx.event(1, "test", "poison", "")
        try:
            tx.execute(statement)
        except apsw.AuthError:
            tx.event(1, "test", "poison", "")
        raise ValueError("in the end")

    return operation


FORBIDDEN = (
    "COMMIT",
    "END",
    "commit /* in disguise */",
    "ROLLBACK",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "SAVEPOINT mine",
    "SAVEPOINT operation",
    "RELEASE operation",
    "ROLLBACK TO operation",
    "SELECT 1; COMMIT",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA journal_mode = DELETE",
    "ATTACH ':memory:' AS other",
)

POISON: dict[str, tuple[Callable[[Transaction], Any], type[BaseException]]] = {
    "a Python error": (raising(ValueError("bad")), ValueError),
    "SystemExit": (raising(SystemExit(3)), OperationFailed),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), OperationFailed),
    "GeneratorExit": (raising(GeneratorExit()), OperationFailed),
    "CancelledError": (raising(asyncio.CancelledError()), OperationFailed),
    "StopIteration": (raising(StopIteration()), OperationFailed),
    "a SQL error": (running("SELECT nonsense FROM nowhere"), apsw.SQLError),
    "a second statement that is wrong": (running("SELECT 1; nonsense"), apsw.SQLError),
    "a broken constraint": (
        running("INSERT INTO meta (name, value) VALUES ('ledger_id', 'x')"),
        apsw.ConstraintError,
    ),
    "a broken foreign key": (
        running("INSERT INTO deliveries (received_at, source_id, verdict) VALUES (1, 'nobody', 'x')"),
        apsw.ConstraintError,
    ),
    "bindings that do not fit": (lambda tx: tx.execute("SELECT ?", ()), apsw.BindingsError),
    "a value that SQLite has no type for": (
        lambda tx: tx.execute("SELECT ?", (object(),)),  # type: ignore[arg-type]
        TypeError,
    ),
    "an event that is no JSON": (lambda tx: tx.event(1, "test", "poison", "", {"x": object()}), TypeError),
    **{sql: (running(sql), apsw.AuthError) for sql in FORBIDDEN},
    **{f"{sql}, swallowed": (swallowing(sql), ValueError) for sql in FORBIDDEN},
}


@pytest.mark.parametrize("name", POISON)
async def test_h20_poison_fails_alone_and_a_hundred_good_ones_follow(bench: Bench, name: str) -> None:
    operation, error = POISON[name]
    results = await bench.together(
        bench.writer.run(note("before")),
        bench.writer.run(operation),
        bench.writer.run(operation, ticket=Ticket()),
        bench.writer.run(note("after")),
    )
    assert [results[0], results[3]] == ["before", "after"]
    assert isinstance(results[1], error)
    assert isinstance(results[2], error)
    commits = bench.writer.health.commits
    await bench.together(*(bench.writer.run(note(f"n{i}")) for i in range(100)))
    assert bench.writer.health.commits - commits == 2
    assert bench.events() == ["before", "after", *(f"n{i}" for i in range(100))]
    assert bench.writer.health.word == "ok"
    assert bench.ledger.connection.pragma("foreign_keys") == 1


@pytest.mark.parametrize("sql", FORBIDDEN)
async def test_h20_a_refused_statement_is_refused_each_time(bench: Bench, sql: str) -> None:
    """The writer's own COMMIT may not be found, prepared and allowed, in the statement cache."""
    for _ in range(3):
        with pytest.raises(apsw.AuthError):
            await bench.writer.run(running(sql))
        await bench.writer.run(note("good"))
    assert bench.events() == ["good"] * 3


async def test_h20_an_operation_that_swallows_the_refusal_goes_on_whole(bench: Bench) -> None:
    def stubborn(tx: Transaction) -> str:
        tx.event(1, "test", "one", "")
        for sql in FORBIDDEN:
            with pytest.raises(apsw.AuthError):
                tx.execute(sql)
        tx.event(1, "test", "two", "")
        return "done"

    results = await bench.together(bench.writer.run(stubborn), bench.writer.run(raising(ValueError("bad"))))
    assert results[0] == "done"
    assert bench.events() == ["one", "two"]


async def test_h20_a_poisonous_post_is_logged_and_forgotten(bench: Bench) -> None:
    bench.writer.post(raising(SystemExit(1)))
    await bench.writer.run(note("good"))
    assert bench.events() == ["good"]


async def test_h20_a_bug_in_the_writer_itself_fails_one_batch_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever escapes after COMMIT: nobody is told a yes that may not be, and the thread goes on."""
    answered = [0]

    def broken_once() -> None:
        answered[0] += 1
        if answered[0] == 1:
            raise MemoryError

    marked: list[str] = []
    bench.points["after_commit"] = broken_once
    ticket = Ticket()
    with pytest.raises(LedgerUnavailable):
        await bench.writer.run(claim("k"), ticket=ticket, on_void=lambda _, verdict: marked.append(verdict))
    assert ticket.expire()
    assert marked == ["accepted"]
    assert await bench.writer.run(note("good")) == "good"

    def broken() -> None:
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(bench.writer._committer.wal, "copy", lambda _: broken())
    await bench.writer.run(note("then"))
    assert await asyncio.wait_for(bench.writer.run(note("last")), WAIT) == "last"


def overdue(bench: Bench) -> bool:
    return bench.writer.is_overdue


async def test_h20_overdue_while_the_lock_is_held(bench: Bench) -> None:
    assert not overdue(bench)
    with bench.locked():
        ticket = Ticket()
        run = bench.start(bench.writer.run(claim("k")))
        late = bench.start(bench.writer.run(note("late"), ticket=ticket))
        await asyncio.sleep(0)
        bench.clock.advance(5 * SECOND)
        assert not overdue(bench)
        bench.clock.advance(1)
        # A wall clock that is set does not matter.
        bench.clock.step(-3_600 * SECOND)
        assert overdue(bench)
        assert bench.writer.health.word == "locked"
        ticket.expire()
        with pytest.raises(TicketLate):
            await late
        assert overdue(bench)
        bench.clock.advance(5 * SECOND)
        with pytest.raises(LedgerUnavailable, match="locked"):
            await asyncio.wait_for(run, WAIT)
    assert await bench.writer.run(note("good")) == "good"
    assert not overdue(bench)
    assert bench.writer.health.word == "ok"


async def test_h20_overdue_while_an_operation_or_a_commit_takes_too_long(bench: Bench) -> None:
    gate = Gate()
    run = bench.start(bench.writer.run(gate))
    await gate.reached()
    bench.clock.advance(6 * SECOND)
    assert overdue(bench)
    assert bench.writer.health.word == "locked"
    gate.open()
    await run
    await bench.writer.run(note("good"))
    assert not overdue(bench)
