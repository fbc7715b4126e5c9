"""Retention: what goes, what stays whatever its age, in how small steps, and what a kill leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.clock import ManualClock
from app.ledger import retention
from app.ledger.queries import rfc3339
from app.ledger.reader import Reader
from app.ledger.retention import Cutoffs, Plan, Purged, begin, drop_bodies, forget_keys, measure, purge
from app.ledger.store import FILE_NAME, broken_chain
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from tests.ledger.ledger_rows import NOON, SECOND, Rows

DAY = 86_400 * SECOND
OLD = NOON - 100 * DAY
CUT = NOON - 90 * DAY
ALL = Cutoffs(bodies=CUT, keys=CUT, ghosts=NOON - DAY)


class Killed(Exception):
    """The program ended here."""


class Keeper:
    """A ledger with its writer and reader, and rows put in past the door."""

    def __init__(self, rows: Rows, home: Path) -> None:
        self.rows, self.home = rows, home
        self.writer = Writer(rows.connection, ManualClock(NOON), lambda _why: None)
        self.reader = Reader(home / FILE_NAME)
        self.sizes: list[int] = []

    async def fill(self, work: Callable[[Rows], Any]) -> None:
        await asyncio.to_thread(work, self.rows)

    async def measure(self, cutoffs: Cutoffs = ALL) -> Plan:
        return await measure(self.reader, cutoffs)

    async def purge(self, cutoffs: Cutoffs = ALL) -> Purged:
        plan = await self.measure(cutoffs)
        return await purge(self.writer, self.reader, plan, cutoffs, at=NOON, actor="test", why="room")

    async def look(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in await self.reader.rows(sql)]


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    made = Rows(tmp_path)
    yield made
    made.close()


@pytest.fixture
async def keeper(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keeper]:
    monkeypatch.setattr(retention, "PAUSE", 0)
    made = Keeper(rows, tmp_path)
    yield made
    await made.reader.close()
    await made.writer.close()


def signal(rows: Rows, key: str, at: int = OLD, *, state: str = "DONE", **claim: Any) -> int:
    """A claim with its time, one delivery with a body, and one order that went as far as `state`."""
    number = rows.claim(key, at, **{"signal_time": at, **claim})
    rows.delivery(number, at=at, body="{}")
    order = rows.order(number, at)
    steps = {
        "PENDING": (),
        "DENIED": ("DENIED",),
        "SUBMITTING": ("SUBMITTING",),
        "AMBIGUOUS": ("SUBMITTING", "AMBIGUOUS"),
        "NEEDS_OPERATOR": ("NEEDS_OPERATOR",),
        "NOT_PLACED": ("SUBMITTING", "NOT_PLACED"),
        "WORKING": ("SUBMITTING", "WORKING"),
        "DONE": ("SUBMITTING", "WORKING", "DONE"),
    }
    rows.move(order, *steps[state])
    return number


async def test_old_bodies_and_keys_go_and_young_ones_stay(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        for n in range(3):
            signal(rows, f"old-{n}")
            signal(rows, f"young-{n}", NOON - DAY)

    await keeper.fill(fill)
    assert await keeper.measure() == Plan(bodies=3, bodies_kept=0, keys={"src": 3}, keys_kept=0)
    assert await keeper.purge() == Purged(bodies=3, keys=3)
    assert await keeper.measure() == Plan()
    assert await keeper.purge() == Purged(bodies=0, keys=0)
    assert await keeper.look("SELECT count(*) FROM bodies") == [(3,)]
    assert await keeper.look("SELECT key FROM v_signals ORDER BY number") == [
        ("(forgotten S1)",),
        ("young-0",),
        ("(forgotten S3)",),
        ("young-1",),
        ("(forgotten S5)",),
        ("young-2",),
    ]


async def test_nothing_but_bodies_and_keys_ever_goes(keeper: Keeper) -> None:
    tables = ("claims", "deliveries", "orders", "events", "v_signals", "v_orders", "v_deliveries")
    columns = "id, symbol, action, quantity, first_seen, deliveries, outcome, source, key_source"
    await keeper.fill(lambda rows: [signal(rows, f"k{n}", state="DENIED") for n in range(5)])
    before = {table: await keeper.look(f"SELECT count(*) FROM {table}") for table in tables}
    seen = await keeper.look(f"SELECT {columns} FROM v_signals")
    ordered = await keeper.look("SELECT * FROM v_orders")
    assert (await keeper.purge()).keys == 5
    after = {table: await keeper.look(f"SELECT count(*) FROM {table}") for table in tables}
    assert after == {**before, "events": [(before["events"][0][0] + 1,)]}
    assert await keeper.look(f"SELECT {columns} FROM v_signals") == seen
    assert await keeper.look("SELECT * FROM v_orders") == ordered


@pytest.mark.parametrize("state", ["PENDING", "SUBMITTING", "AMBIGUOUS", "NEEDS_OPERATOR", "WORKING"])
async def test_nothing_open_or_unresolved_is_touched(keeper: Keeper, state: str) -> None:
    await keeper.fill(lambda rows: signal(rows, "open", state=state))
    assert await keeper.measure() == Plan(bodies=0, bodies_kept=1, keys={}, keys_kept=1)
    assert await keeper.purge() == Purged(0, 0)


async def test_an_order_called_absent_is_watched_for_a_while(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        signal(rows, "called absent long ago", state="NOT_PLACED")
        watched = signal(rows, "called absent today", state="NOT_PLACED")
        rows.tx.execute("UPDATE orders SET updated_at = ? WHERE claim_id = ?", (NOON - SECOND, watched))

    await keeper.fill(fill)
    assert await keeper.purge() == Purged(1, 1)
    assert (await keeper.measure()).keys_kept == 1


async def test_one_open_generation_keeps_the_claim(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        number = signal(rows, "replayed", state="DENIED")
        rows.order(number, OLD, generation=2)

    await keeper.fill(fill)
    assert await keeper.purge() == Purged(0, 0)


async def test_h40_a_claim_without_a_signal_time_is_never_forgotten(keeper: Keeper) -> None:
    await keeper.fill(lambda rows: signal(rows, "no time", signal_time=None))
    assert (await keeper.measure()).keys_kept == 1
    assert await keeper.purge() == Purged(bodies=1, keys=0)


@pytest.mark.parametrize(
    ("what", "claim"),
    [
        ("its signal states a later time than it came", {"signal_time": CUT + 1}),
        ("its bar is younger", {"bar_time": NOON - 80 * DAY}),
        ("its sender was told 503", {"unanswered": 1}),
    ],
)
async def test_h40_what_a_copy_could_bring_back_is_not_forgotten(
    keeper: Keeper, what: str, claim: dict[str, Any]
) -> None:
    at = CUT - 40 * SECOND if "signal_time" in claim else OLD
    await keeper.fill(lambda rows: signal(rows, what, at, **claim))
    assert (await keeper.purge()).keys == 0


async def test_h40_a_signal_without_a_bar_that_came_twice_is_not_forgotten(keeper: Keeper) -> None:
    """One of the copies may have stated no time at all, and would come back past every watermark."""

    def fill(rows: Rows) -> None:
        twice = signal(rows, "twice without a bar")
        rows.delivery(twice, "duplicate", OLD)
        with_bar = signal(rows, "twice with its bar", bar_time=OLD)
        rows.delivery(with_bar, "duplicate", OLD)

    await keeper.fill(fill)
    await keeper.purge()
    assert await keeper.look("SELECT key FROM claims ORDER BY id") == [
        ("twice without a bar",),
        ("(forgotten S2)",),
    ]


async def test_h40_a_copy_that_came_lately_keeps_the_key(keeper: Keeper) -> None:
    """A copy states its own fire time; it was at most 30 s ahead of its receipt."""

    def fill(rows: Rows) -> None:
        for key, at in (("lately", NOON), ("just before", CUT - SECOND), ("before", CUT - DAY)):
            number = signal(rows, key, bar_time=OLD)
            rows.delivery(number, "duplicate", at)

    await keeper.fill(fill)
    await keeper.purge()
    assert await keeper.look("SELECT key FROM claims ORDER BY id") == [
        ("lately",),
        ("just before",),
        ("(forgotten S3)",),
    ]


async def test_a_conflict_keeps_the_key_for_good_and_its_body_until_it_is_settled(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        first = signal(rows, "contested", bar_time=OLD)
        waits = rows.delivery(first, "conflict", OLD, body="the other one")
        settled = rows.delivery(first, "conflict", OLD, body="an admitted one")
        assert (waits, settled) == (2, 3)
        rows.tx.event(OLD, "command:me", retention.SETTLED[0], f"D{settled}")

    await keeper.fill(fill)
    assert await keeper.measure() == Plan(bodies=2, bodies_kept=1, keys={}, keys_kept=1)
    assert await keeper.purge() == Purged(bodies=2, keys=0)
    assert await keeper.look("SELECT delivery_id FROM bodies") == [(2,)]


async def test_bodies_that_claimed_nothing_go_by_their_age_alone(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        rows.delivery(None, "invalid", OLD, body="?")
        rows.delivery(None, "invalid", NOON, body="?")

    await keeper.fill(fill)
    assert await keeper.purge() == Purged(1, 0)


async def test_the_body_of_what_waits_for_a_persons_eyes_stays(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        waits = rows.delivery(None, "stale", OLD, body="an exit that was not placed")
        rows.tx.execute("UPDATE deliveries SET needs = 'exit' WHERE id = ?", (waits,))

    await keeper.fill(fill)
    assert await keeper.measure() == Plan(bodies=0, bodies_kept=1)
    await keeper.fill(lambda rows: rows.tx.execute("UPDATE deliveries SET needs = NULL"))
    assert await keeper.purge() == Purged(1, 0)


async def test_each_kind_goes_only_where_it_was_asked_for(keeper: Keeper) -> None:
    await keeper.fill(lambda rows: signal(rows, "one"))
    assert await keeper.purge(Cutoffs(None, CUT, ALL.ghosts)) == Purged(0, 1)
    assert await keeper.purge(Cutoffs(CUT, None, ALL.ghosts)) == Purged(1, 0)


async def test_the_watermark_is_set_only_where_keys_go_and_never_moves_back(keeper: Keeper) -> None:
    def fill(rows: Rows) -> None:
        rows.tx.insert("sources", {"id": "other", "name": "other"})
        rows.tx.execute("UPDATE sources SET watermark = 7 WHERE id = 'other'")
        signal(rows, "one")

    await keeper.fill(fill)
    marks = "SELECT id, watermark, era FROM sources ORDER BY id"
    await keeper.purge()
    assert await keeper.look(marks) == [("other", 7, 0), ("src", CUT, 1)]
    await keeper.fill(lambda rows: signal(rows, "older still", OLD - 300 * DAY))
    await keeper.purge(Cutoffs(None, OLD - 200 * DAY, 0))
    assert await keeper.look(marks) == [("other", 7, 0), ("src", CUT, 2)]


def test_h40_no_key_goes_without_its_watermark(rows: Rows) -> None:
    claim = signal(rows, "one")
    plan = Plan(keys={"src": 1})
    assert forget_keys(rows.tx, [claim], ALL, NOON) == 0
    begin(rows.tx, plan, Cutoffs(None, OLD - 1, 0), at=NOON, actor="test", why="an older purge")
    assert forget_keys(rows.tx, [claim], ALL, NOON) == 0
    begin(rows.tx, plan, ALL, at=NOON, actor="test", why="this purge")
    assert forget_keys(rows.tx, [claim], ALL, NOON) == 1
    assert forget_keys(rows.tx, [claim], ALL, NOON) == 0


def test_what_has_changed_since_it_was_looked_at_stays(rows: Rows) -> None:
    claim = signal(rows, "one", state="DENIED")
    begin(rows.tx, Plan(keys={"src": 1}), ALL, at=NOON, actor="test", why="")
    rows.order(claim, OLD, generation=2)
    assert drop_bodies(rows.tx, [1], ALL) == 0
    assert forget_keys(rows.tx, [claim], ALL, NOON) == 0


@pytest.mark.blocking_allowed("another program looks at the ledger between two batches")
async def test_h40_the_watermark_is_on_disk_before_the_first_key_goes(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between any two batches leaves a ledger in which no forgotten key is without a watermark."""
    monkeypatch.setattr(retention, "BATCH", 2)
    await keeper.fill(lambda rows: [signal(rows, f"k{n}") for n in range(7)])
    seen: list[tuple[Any, Any]] = []

    def as_on_disk(_name: str) -> None:
        with contextlib.closing(apsw.Connection(str(keeper.home / FILE_NAME))) as other:
            forgotten = other.execute("SELECT count(*) FROM claims WHERE forgotten_at IS NOT NULL").fetchall()
            watermark = other.execute("SELECT watermark FROM sources").fetchall()
        seen.append((forgotten[0][0], watermark[0][0]))

    monkeypatch.setattr(retention, "failpoint", as_on_disk)
    await keeper.purge(Cutoffs(None, CUT, ALL.ghosts))
    assert seen == [(0, CUT), (2, CUT), (4, CUT), (6, CUT)]


async def test_a_purge_that_was_cut_off_is_simply_done_again(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    await keeper.fill(lambda rows: [signal(rows, f"k{n}") for n in range(7)])
    passes = iter(range(5))

    def cut_off(_name: str) -> None:
        if next(passes, None) is None:
            raise Killed

    with monkeypatch.context() as armed:
        armed.setattr(retention, "failpoint", cut_off)
        with pytest.raises(Killed):
            await keeper.purge()
    left = await keeper.measure()
    assert (left.bodies, left.keys) == (0, {"src": 5})
    assert await keeper.purge() == Purged(0, 5)
    assert await keeper.measure() == Plan()


async def test_batches_are_small_in_rows_and_in_bytes(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(rows: Rows) -> None:
        with rows.connection:
            for n in range(retention.BATCH * 2 + 1):
                rows.delivery(None, "invalid", OLD, body=str(n))
            for _ in range(9):
                rows.delivery(None, "invalid", OLD, body="x" * 64 * 1024)

    await keeper.fill(fill)
    changed: list[int] = []

    def noted(tx: Transaction, deliveries: list[int], cutoffs: Cutoffs) -> int:
        changed.append(len(deliveries))
        return drop_bodies(tx, deliveries, cutoffs)

    monkeypatch.setattr(retention, "drop_bodies", noted)
    assert (await keeper.purge()).bodies == retention.BATCH * 2 + 10
    whole = retention.BATCH_BYTES // (64 * 1024)
    assert changed[:2] == [retention.BATCH, retention.BATCH]
    assert max(changed[2:]) <= whole
    assert sum(changed) == retention.BATCH * 2 + 10


async def test_more_than_one_page_is_read(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE", 4)
    await keeper.fill(lambda rows: [signal(rows, f"k{n}") for n in range(8)])
    assert await keeper.measure() == Plan(bodies=8, keys={"src": 8})
    assert await keeper.purge() == Purged(8, 8)


async def test_a_claim_that_comes_meanwhile_is_not_made_to_wait_for_the_purge(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two batches the writer is free: each of these claims commits before the next batch."""
    monkeypatch.setattr(retention, "BATCH", 1)
    await keeper.fill(lambda rows: [signal(rows, f"k{n}") for n in range(6)])
    left: list[int] = []

    async def claims() -> None:
        for _ in range(3):
            rows = await keeper.writer.run(lambda tx: tx.execute("SELECT count(*) FROM bodies"))
            left.append(rows[0][0])

    await asyncio.gather(keeper.purge(Cutoffs(CUT, None, 0)), claims())
    assert len(left) == 3
    assert left[-1] > 0


async def test_the_audit_chain_says_who_purged_what_and_why(keeper: Keeper) -> None:
    await keeper.fill(lambda rows: signal(rows, "one"))
    await keeper.purge()
    events = await keeper.look("SELECT actor, what, detail FROM events WHERE id > 1")
    assert events == [
        (
            "test",
            "purge begun",
            f'{{"bodies":1,"bodies_before":"{rfc3339(CUT)}","keys":1,"keys_before":"{rfc3339(CUT)}","why":"room"}}',
        )
    ]
    assert await keeper.reader.call(broken_chain) is None


def test_h12_a_key_that_is_claimed_again_is_of_another_era(rows: Rows) -> None:
    first = signal(rows, "again", state="DONE")
    begin(rows.tx, Plan(keys={"src": 1}), ALL, at=NOON, actor="test", why="")
    assert forget_keys(rows.tx, [first], ALL, NOON) == 1
    second = rows.claim("again", NOON)
    eras = rows.tx.execute("SELECT id, era FROM claims")
    assert eras == [(first, 0), (second, 1)]
