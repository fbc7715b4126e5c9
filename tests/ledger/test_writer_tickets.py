"""A delivery's one answer: late before its operation ran, late during COMMIT, or acknowledged after it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable

import pytest

from app.ledger.errors import LedgerUnavailable, TicketLate
from app.ledger.ticket import Outcome, Ticket
from app.ledger.transaction import Transaction
from tests.ledger.bench import WAIT, Bench, Gate, claim, note, unclaim
from tests.ledger.faulty_vfs import Call


class Door:
    """The door in small: answers 503 at a deadline that the test sets off, 200 only when acknowledged."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def deliver(self, key: str) -> tuple[asyncio.Task[int], asyncio.Event]:
        """One delivery and its deadline; the task's value is the status that was answered."""
        deadline = asyncio.Event()
        return self._bench.start(self._answer(key, deadline)), deadline

    async def _answer(self, key: str, deadline: asyncio.Event) -> int:
        ticket = Ticket()
        run = self._bench.start(
            self._bench.writer.run(claim(key), ticket=ticket, on_void=unclaim(key), about=key)
        )
        late = self._bench.start(deadline.wait())
        await asyncio.wait({run, late}, return_when=asyncio.FIRST_COMPLETED)
        deadline.set()
        if not run.done() and ticket.expire():
            return 503
        try:
            await run
        except (TicketLate, LedgerUnavailable):
            return 503
        return 200


class Lane:
    """Places whatever the writer's announcements let it see: each answered claim once, at once."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.orders: set[int] = set()
        self._end = bench.writer.listen(self._look)

    def _look(self, _topics: frozenset[str]) -> None:
        self.orders |= {row[0] for row in self._bench.look("SELECT id FROM claims WHERE unanswered = 0")}

    async def stop(self) -> int:
        """How many orders the broker has, once everything that was announced has been heard."""
        await self._bench.writer.run(lambda tx: tx.execute("SELECT 1"))
        self._end()
        return len(self.orders)


HELD = (1.9, 2.1, 5.0)
RESENDS = ("no", "yes", "same batch")


@pytest.mark.parametrize(("held", "resend"), list(itertools.product(HELD, RESENDS)))
async def test_h17_an_order_exactly_if_some_delivery_was_answered_200(
    bench: Bench, held: float, resend: str
) -> None:
    """The lock is held for `held` seconds, each deadline is 2 s after its delivery, a resend comes at 4.5 s.

    No second passes: what matters is only the order of the moments.
    """
    door, lane = Door(bench), Lane(bench)
    moments: list[tuple[float, Callable[[], None]]] = []
    answers: list[asyncio.Task[int]] = []
    released = asyncio.Event()

    def deliver(at: float) -> None:
        answer, deadline = door.deliver("k")
        answers.append(answer)
        moments.append((at + 2.0, deadline.set))

    async def hold() -> None:
        with bench.locked():
            await released.wait()

    lock = bench.start(hold())
    await asyncio.sleep(0)
    deliver(0.0)
    if resend == "same batch":
        deliver(0.0)
    if resend == "yes":
        moments.append((4.5, lambda: deliver(4.5)))
    moments.append((held, released.set))
    while moments:
        at = min(moment[0] for moment in moments)
        due = [act for when, act in moments if when == at]
        moments[:] = [moment for moment in moments if moment[0] != at]
        for act in due:
            act()
        if released.is_set():
            await lock
            await asyncio.wait(answers)
        elif at == 2.0:
            # The first deadline: what was there has its answer although the lock is still held.
            await asyncio.wait(answers)
    statuses = [await answer for answer in answers]
    expected = {
        1.9: {"no": [200], "yes": [200, 200], "same batch": [200, 200]},
        2.1: {"no": [503], "yes": [503, 200], "same batch": [503, 503]},
        5.0: {"no": [503], "yes": [503, 200], "same batch": [503, 503]},
    }
    assert statuses == expected[held][resend]
    assert await lane.stop() == (1 if 200 in statuses else 0)


async def test_h17_a_ticket_that_was_late_before_its_turn_is_skipped(bench: Bench) -> None:
    late = Ticket()
    ran: list[Transaction] = []
    assert late.expire()
    results = await bench.together(bench.writer.run(ran.append, ticket=late), bench.writer.run(note("other")))
    assert isinstance(results[0], TicketLate)
    assert not results[0].ran
    assert ran == []
    assert bench.events() == ["other"]


async def test_h17_a_late_one_leaves_the_queue_while_the_lock_is_still_held(bench: Bench) -> None:
    ticket, other = Ticket(), Ticket()
    with bench.locked():
        late = bench.start(bench.writer.run(claim("k"), ticket=ticket))
        patient = bench.start(bench.writer.run(claim("l"), ticket=other))
        await asyncio.sleep(0)
        ticket.expire()
        with pytest.raises(TicketLate) as refused:
            await asyncio.wait_for(late, WAIT)
        assert not refused.value.ran
        assert not patient.done()
    assert await patient == "accepted"
    assert bench.look("SELECT key FROM claims") == [("l",)]


async def test_h17_what_waits_for_the_lock_keeps_its_turn(bench: Bench) -> None:
    with bench.locked():
        first = bench.start(bench.writer.run(claim("k")))
        await bench.clock.lock_refused()
        then = bench.start(bench.writer.run(claim("k")))
        await asyncio.sleep(0)
        await bench.clock.lock_refused(times=2)
    assert (await first, await then) == ("accepted", "duplicate")


async def test_h17_acknowledged_only_after_commit_has_returned(bench: Bench) -> None:
    seen: list[int] = []

    class Watched(Ticket):
        def acknowledge(self) -> bool:
            seen.append(len(bench.look("SELECT 1 FROM claims")))
            return super().acknowledge()

    commit = pause_commit(bench)
    ticket = Watched()
    run = bench.start(bench.writer.run(claim("k"), ticket=ticket))
    await commit.reached()
    before = ticket.outcome
    assert before is Outcome.OPEN
    assert not run.done()
    assert bench.look("SELECT 1 FROM claims") == []
    commit.open()
    assert await run == "accepted"
    assert seen == [1]
    assert ticket.outcome is Outcome.ACK
    assert not ticket.expire()


def pause_commit(bench: Bench) -> Gate:
    """Holds up the next COMMIT in its sync: its frames are written, nobody has been told."""
    gate, first = Gate(), threading.Event()

    def before(call: Call) -> None:
        if (call.file, call.what) == ("wal", "sync") and not first.is_set():
            first.set()
            gate()

    bench.disk.before = before
    return gate


@pytest.mark.parametrize("lock_comes_between", [False, True])
async def test_h17_late_during_commit_is_marked_before_anything_else_and_before_any_lane_hears(
    bench: Bench, lock_comes_between: bool
) -> None:
    lane, commit, ticket = Lane(bench), pause_commit(bench), Ticket()
    lock = bench.locked()

    def take_the_lock() -> None:
        bench.points.clear()
        lock.__enter__()

    if lock_comes_between:
        bench.points["after_commit"] = take_the_lock
    run = bench.start(bench.writer.run(claim("k"), ticket=ticket, on_void=unclaim("k"), about="k"))
    await commit.reached()
    later = bench.start(
        bench.writer.run(lambda tx: tx.execute("SELECT unanswered FROM claims"), ticket=Ticket())
    )
    await asyncio.sleep(0)
    ticket.expire()
    commit.open()
    with pytest.raises(TicketLate) as refused:
        await asyncio.wait_for(run, WAIT)
    assert refused.value.ran
    if lock_comes_between:
        # Committed, not yet marked: nothing runs, nobody hears.
        assert bench.look("SELECT unanswered FROM claims") == [(0,)]
        assert not later.done()
        assert lane.orders == set()
        lock.__exit__(None, None, None)
    assert await later == [(1,)]
    assert await lane.stop() == 0


async def test_h17_a_resend_after_a_late_commit_is_admitted(bench: Bench) -> None:
    lane, commit, ticket = Lane(bench), pause_commit(bench), Ticket()
    run = bench.start(bench.writer.run(claim("k"), ticket=ticket, on_void=unclaim("k")))
    await commit.reached()
    resend = bench.start(bench.writer.run(claim("k"), ticket=Ticket(), on_void=unclaim("k")))
    await asyncio.sleep(0)
    ticket.expire()
    commit.open()
    assert await resend == "accepted"
    with pytest.raises(TicketLate):
        await run
    assert await lane.stop() == 1


async def test_h17_a_duplicate_in_the_same_commit_as_a_late_claim_is_late_too(bench: Bench) -> None:
    """Else its sender is told 200 `duplicate` of a claim that is then marked and never placed."""
    lane, gate = Lane(bench), Gate()
    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    tickets = {name: Ticket() for name in ("first", "same key", "other key", "unnamed")}
    runs = {
        name: bench.start(
            bench.writer.run(
                claim("k" if name in ("first", "same key") else name),
                ticket=ticket,
                on_void=unclaim("k" if name in ("first", "same key") else name),
                about={"first": "k", "same key": "k", "other key": "other key"}.get(name),
            )
        )
        for name, ticket in tickets.items()
    }
    await asyncio.sleep(0)
    commit = pause_commit(bench)
    gate.open()
    await held
    await commit.reached()
    tickets["first"].expire()
    commit.open()
    results = dict(zip(runs, await asyncio.gather(*runs.values(), return_exceptions=True), strict=True))
    assert isinstance(results["first"], TicketLate)
    assert isinstance(results["same key"], TicketLate)
    assert results["other key"] == "accepted"
    # What it decided on was not said, so it may have been the late claim.
    assert isinstance(results["unnamed"], TicketLate)
    assert [tickets[name].outcome for name in tickets] == [
        Outcome.LATE,
        Outcome.LATE,
        Outcome.ACK,
        Outcome.LATE,
    ]
    assert await lane.stop() == 1
    assert bench.look("SELECT key FROM claims WHERE unanswered = 0") == [("other key",)]


async def test_h17_no_lane_shares_a_transaction_with_a_claim_that_can_still_be_late(bench: Bench) -> None:
    """A lane's own operation looks for work; it may not find, uncommitted, what is about to be refused."""
    commit, ticket, gate = pause_commit(bench), Ticket(), Gate()

    def take(tx: Transaction) -> int:
        tx.event(1, "test", "looked", "")
        return len(tx.execute("SELECT 1 FROM claims WHERE unanswered = 0"))

    held = bench.start(bench.writer.run(gate))
    await gate.reached()
    run = bench.start(bench.writer.run(claim("k"), ticket=ticket, on_void=unclaim("k")))
    taken = bench.start(bench.writer.run(take))
    await asyncio.sleep(0)
    gate.open()
    await held
    await commit.reached()
    ticket.expire()
    commit.open()
    assert await taken == 0
    with pytest.raises(TicketLate):
        await run
    assert await bench.writer.run(take) == 0


async def test_h17_refused_for_the_ledgers_sake_settles_the_ticket(bench: Bench) -> None:
    ticket = Ticket()
    with bench.locked():
        run = bench.start(bench.writer.run(claim("k"), ticket=ticket))
        await asyncio.sleep(0)
        bench.clock.advance(11_000_000)
        with pytest.raises(LedgerUnavailable, match="locked"):
            await asyncio.wait_for(run, WAIT)
    assert ticket.outcome is Outcome.LATE
    assert ticket.expire()


def test_h17_exactly_one_side_wins_a_ticket() -> None:
    for _ in range(200):
        ticket, start = Ticket(), threading.Barrier(2)
        late: list[bool] = []
        door = threading.Thread(target=lambda t=ticket, s=start, w=late: (s.wait(WAIT), w.append(t.expire())))
        door.start()
        start.wait(WAIT)
        acknowledged = ticket.acknowledge()
        door.join()
        assert acknowledged is not late[0]
        assert ticket.outcome is (Outcome.ACK if acknowledged else Outcome.LATE)
        # And it stays so, whoever asks again.
        assert (ticket.acknowledge(), ticket.expire()) == (acknowledged, not acknowledged)
