"""The deadline and the ticket (HOLES H17): one outcome a delivery, and no claim is ever cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.claims.base import Verdict
from app.clock import SECOND, ManualClock, SystemClock
from app.domain.key import ChosenKey
from app.domain.signal import InvalidSignal
from app.ledger.errors import CommitUnknown, LedgerUnavailable, TicketLate
from app.ledger.ticket import Ticket
from app.listener import bounded
from app.listener.server import Door
from app.tasks import Tasks
from tests.listener.kit import HOOK, TOKEN, FakeStore, alert, ask, ledger, opened, post, request, wire

SHORT = SECOND // 20


class Holding(FakeStore):
    """Says when a claim or a refusal waits."""

    def __init__(self) -> None:
        super().__init__(hold=asyncio.Event())

    def release(self) -> None:
        assert self.hold is not None
        self.hold.set()


async def test_h17_a_claim_that_is_not_durable_in_time_is_503_and_its_ticket_is_late() -> None:
    store = Holding()
    async with opened(store, SystemClock(), deadline=SHORT) as door:
        response = await post(door, alert())
        assert (response.status, response.json["status"], response.reason) == (503, "not_accepted", "late")
        assert response.headers["retry-after"] == "5"
        assert store.outcomes == []
        store.release()
        await ask(door, request("/healthz", method="GET"))
    # The operation was not cancelled: it ran on, and saw that it was too late.
    assert store.outcomes == ["late"]
    assert store.answers == []


async def test_h17_what_the_writer_acknowledged_first_is_answered_200_however_late_it_is_heard() -> None:
    store = Holding()
    store.acknowledge_first = True
    async with opened(store, SystemClock(), deadline=SHORT) as door, wire(door) as line:
        await line.send(request(HOOK, alert()))
        deadline = time.monotonic() + SHORT / SECOND
        while time.monotonic() < deadline:
            await ask(door, request("/healthz", method="GET"))
        store.release()
        assert (await line.response()).status == 200


def _stall() -> None:
    time.sleep(2 * SHORT / SECOND)


@pytest.mark.blocking_allowed("the stall is what is tested")
async def test_h17_a_loop_that_stood_still_past_the_deadline_still_answers_what_stands() -> None:
    """The verdict came while the loop was stalled; the deadline's timer and the verdict wake it together."""

    class Stalling(FakeStore):
        async def decide(self, *arguments: object) -> Verdict:
            verdict = await super().decide(*arguments)  # type: ignore[arg-type]
            _stall()
            return verdict

    store = Stalling()
    async with opened(store, SystemClock(), deadline=SHORT) as door:
        response = await post(door, alert())
    assert (response.status, response.json["status"]) == (200, "accepted")
    assert store.answers[0][2] >= 2 * SHORT


class Timers:
    """A loop's timers, fired by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        self._waiting: list[Callable[[], object]] = []
        patch.setattr(asyncio.get_running_loop(), "call_later", self._call_later)

    def _call_later(self, delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        self.delays.append(delay)
        self._waiting.append(callback)
        return asyncio.TimerHandle(0.0, callback, (), asyncio.get_running_loop())

    def fire(self) -> None:
        self._waiting.pop(0)()


@dataclass
class Waiting:
    """Somebody who waits for a future with a deadline in two seconds of the clock."""

    clock: ManualClock = field(default_factory=ManualClock)
    ticket: Ticket = field(default_factory=Ticket)

    async def begin(self) -> None:
        self.work: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        until = self.clock.boot() + 2 * SECOND
        self.task = asyncio.get_running_loop().create_task(
            bounded.settle(self.work, self.ticket, self.clock, until)
        )
        await asyncio.sleep(0)


async def test_a_timer_that_fires_early_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the Qt loop a second's sleep can end 48 ms early: the clock decides, not the waking."""
    timers, waiting = Timers(monkeypatch), Waiting()
    await waiting.begin()
    waiting.clock.advance(SECOND)
    timers.fire()
    assert not waiting.work.done()
    assert waiting.ticket.outcome.value == "open"
    waiting.clock.advance(SECOND)
    timers.fire()
    with pytest.raises(TicketLate):
        await waiting.task
    assert timers.delays == [2.0, 1.0]
    assert waiting.ticket.outcome.value == "late"


async def test_a_timer_that_fires_late_ends_nothing_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the Qt loop a timer that was cancelled lingers."""
    timers, waiting = Timers(monkeypatch), Waiting()
    await waiting.begin()
    waiting.work.set_result("verdict")
    waiting.clock.advance(3 * SECOND)
    timers.fire()
    assert await waiting.task == "verdict"
    assert waiting.ticket.outcome.value == "open"


async def test_h17_at_the_deadline_an_acknowledged_verdict_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers, waiting = Timers(monkeypatch), Waiting()
    await waiting.begin()
    assert waiting.ticket.acknowledge()
    waiting.clock.advance(3 * SECOND)
    timers.fire()
    assert not waiting.work.done()
    waiting.work.set_result("verdict")
    assert await waiting.task == "verdict"


async def test_h17_a_deadline_that_is_over_before_the_wait_begins_is_late_at_once() -> None:
    waiting = Waiting()
    waiting.work = asyncio.get_running_loop().create_future()
    with pytest.raises(TicketLate):
        await bounded.settle(waiting.work, waiting.ticket, waiting.clock, waiting.clock.boot())
    assert waiting.ticket.outcome.value == "late"


async def test_h17_a_handler_that_is_cancelled_at_stop_lets_its_claim_go_late() -> None:
    waiting = Waiting()
    await waiting.begin()
    waiting.task.cancel()
    await asyncio.wait({waiting.task})
    assert waiting.task.cancelled()
    assert waiting.ticket.outcome.value == "late"


async def test_what_is_relayed_goes_on_when_nobody_waits_any_more() -> None:
    tasks, hold, done = Tasks(), asyncio.Event(), []

    async def work() -> str:
        await hold.wait()
        done.append("to its end")
        return "result"

    left = bounded.relayed(tasks.start("left", work()))
    heard = bounded.relayed(tasks.start("heard", work()))
    left.cancel()
    hold.set()
    assert await heard == "result"
    assert done == ["to its end"] * 2
    await tasks.stop()


async def test_an_error_and_an_end_are_relayed_too() -> None:
    tasks = Tasks()

    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error
        await asyncio.Event().wait()

    failed = bounded.relayed(asyncio.get_running_loop().create_task(work(LedgerUnavailable("full"))))
    with pytest.raises(LedgerUnavailable):
        await failed
    stopped = bounded.relayed(tasks.start("stopped", work(None)))
    await asyncio.sleep(0)
    await tasks.stop()
    with pytest.raises(asyncio.CancelledError):
        await stopped


@pytest.mark.parametrize(
    ("error", "reason", "posted"),
    [
        (LedgerUnavailable("full", "/home/x/ledger.sqlite3"), "full", True),
        (LedgerUnavailable("locked"), "locked", True),
        (LedgerUnavailable("read-only"), "read_only", True),
        (LedgerUnavailable("stopping"), "stopping", True),
        # The store records by itself what it may have on disk (HOLES H19).
        (CommitUnknown("failing"), "failing", False),
        (TicketLate(ran=False), "late", False),
        (RuntimeError(f"a bug, {TOKEN}"), "internal", True),
    ],
)
async def test_what_cannot_be_claimed_is_503_with_its_reason(
    error: Exception, reason: str, posted: bool
) -> None:
    store = FakeStore(error=error)
    async with opened(store) as door:
        response = await post(door, alert())
    assert (response.status, response.json["status"]) == (503, "not_accepted")
    assert response.reason == reason
    assert response.headers["retry-after"] == "5"
    assert "/home" not in response.json["detail"]
    assert [(refusal.http_status, refusal.reason) for _, refusal in store.posted] == [(503, reason)] * posted
    assert store.answers == []


async def test_a_meaning_refused_inside_the_transaction_is_still_400() -> None:
    store = FakeStore(error=InvalidSignal("contradictory", ("qty",), "why"))
    async with opened(store) as door:
        response = await post(door, alert())
    assert (response.status, response.json["fields"]) == (400, ["qty"])
    assert len(store.refused) == 1


async def test_h20_a_store_that_is_overdue_is_not_asked_at_all() -> None:
    store = FakeStore(refuses_at_once="locked")
    async with opened(store) as door:
        claim = await post(door, alert())
        invalid = await post(door, b"{")
    assert (claim.status, claim.reason) == (503, "locked")
    # Sending that one again would not mend it.
    assert (invalid.status, invalid.reason) == (400, "invalid_json")
    assert not store.claimed + store.refused
    assert [refusal.http_status for _, refusal in store.posted] == [503, 400]


@pytest.mark.parametrize(
    "error",
    [LedgerUnavailable("full"), CommitUnknown("failing"), TicketLate(ran=False), RuntimeError("a bug")],
)
async def test_a_refusal_that_cannot_be_recorded_is_answered_all_the_same(error: Exception) -> None:
    store = FakeStore(refuse_error=error)
    async with opened(store) as door:
        response = await post(door, b"{")
    assert (response.status, response.reason) == (400, "invalid_json")
    assert len(store.posted) == (0 if isinstance(error, RuntimeError) else 1)
    assert store.answers == []


async def test_a_refusal_that_cannot_be_recorded_in_time_is_answered_in_time() -> None:
    store = Holding()
    async with opened(store, SystemClock(), deadline=SHORT) as door:
        response = await post(door, b"{")
        assert response.status == 400
        store.release()


async def test_after_the_claim_a_fault_of_ours_does_not_take_the_200_back() -> None:
    def verdict(number: int, key: ChosenKey) -> Verdict:
        outcome = {"state": object()}
        return Verdict("accepted", 7, claim_id=7, key=key.key, key_source="body", outcome=outcome)

    store = FakeStore(verdict=verdict)
    async with opened(store) as door:
        response = await post(door, alert())
    assert (response.status, response.json) == (200, {"status": "accepted", "signal": "S7"})
    assert store.answers[0][:2] == (7, 200)


async def test_the_status_is_told_only_after_the_answer_was_written() -> None:
    store = FakeStore()
    async with opened(store) as door, wire(door) as line:
        await line.send(request(HOOK, alert()))
        assert store.answers == []
        await line.response()
        assert [answer[:2] for answer in store.answers] == [(1, 200)]


async def test_the_places_to_crash_at_lie_around_the_200_of_a_delivery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: list[tuple[str, int]] = []
    store = FakeStore()
    monkeypatch.setattr(
        "app.listener.server.failpoint", lambda name: passed.append((name, len(store.answers)))
    )
    async with opened(store) as door:
        await post(door, alert())
        assert passed == [("before_200", 0), ("after_200", 0)]
        await post(door, b"{")
        await post(door, alert(), "/hook/tv/wrong")
        await ask(door, request("/healthz", method="GET"))
    assert len(passed) == 2


async def test_the_deadline_counts_from_the_headers_of_a_pipelined_request_too() -> None:
    """The second one waited behind the first: its sender's 3 seconds did not wait."""
    clock = ManualClock()

    class Slow(FakeStore):
        async def decide(self, *arguments: object) -> Verdict:
            clock.advance(3 * SECOND // 2)
            return await super().decide(*arguments)  # type: ignore[arg-type]

    store = Slow()
    async with opened(store, clock) as door, wire(door) as line:
        await line.send(request(HOOK, alert("a-1")) + request(HOOK, alert("a-2")))
        assert (await line.response()).status == 200
        assert (await line.response()).status == 200
    assert [answer[2] for answer in store.answers] == [3 * SECOND // 2, 3 * SECOND]


async def test_h17_the_ledger_held_by_another_program(tmp_path: Path) -> None:
    """Held past the deadline: 503; the resend is accepted as if it were the first, and one order stands."""
    clock = SystemClock()
    short = SECOND // 2
    async with ledger(tmp_path, clock) as book, opened(book.store, clock, deadline=short) as door:
        other = await asyncio.to_thread(_lock, tmp_path)
        try:
            first = await post(door, alert())
        finally:
            await asyncio.to_thread(_unlock, other)
        assert (first.status, first.reason) == (503, "late")
        second = await post(door, alert())
        assert (second.status, second.json["status"]) == (200, "accepted")
        third = await post(door, alert())
        assert (third.json["status"], third.json["deliveries"]) == ("duplicate", 2)
        assert await book.rows("SELECT count(*) FROM orders") == [(1,)]
        verdicts = {row[0] for row in await book.rows("SELECT verdict FROM v_deliveries")}
        assert verdicts == {"not_accepted", "accepted", "duplicate"}


def _lock(home: Path) -> object:
    import apsw

    from app.ledger.store import FILE_NAME

    connection = apsw.Connection(str(home / FILE_NAME))
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _unlock(connection: object) -> None:
    import apsw

    assert isinstance(connection, apsw.Connection)
    connection.execute("ROLLBACK")
    connection.close()


async def _all(door: Door, bodies: list[bytes]) -> list[str]:
    responses = await asyncio.gather(*(post(door, body) for body in bodies))
    assert {response.status for response in responses} == {200}
    return [response.json["status"] for response in responses]


async def test_100_identical_at_once_among_200_others(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ledger(tmp_path, clock) as book, opened(book.store, clock) as door:
        others = [alert(f"other-{number}") for number in range(200)]
        same = [alert("one-1")] * 100
        mixed = [body for pair in zip(others[:100], same, strict=True) for body in pair] + others[100:]
        statuses = await _all(door, mixed)
        assert (statuses.count("accepted"), statuses.count("duplicate")) == (201, 99)
        assert await book.rows("SELECT count(*), count(DISTINCT claim_id) FROM orders") == [(201, 201)]
        assert await book.rows("SELECT deliveries FROM claims WHERE key = 'one-1'") == [(100,)]
        rows = await book.rows("SELECT count(*), min(http_status), max(http_status) FROM v_deliveries")
        assert rows == [(300, 200, 200)]
        assert door.facts.deliveries == 300
