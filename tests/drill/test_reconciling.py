"""Scenarios 23, 28 to 32, 34, 37 and 40 of facts section 5: ledger and venue compared, over restarts too."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND, ManualClock
from app.drill import times
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from app.drill.server import SimulatedExchange
from app.ledger.backup import make_backup
from app.ledger.restore import mark_restored, restore_ledger
from app.ledger.transaction import Transaction
from tests.drill.exchange_kit import NUMBER, furnish
from tests.drill.kit import also, venue

Findings = list[dict[str, Any]]


def kinds(run: dict[str, Any], subject: str | None = None) -> list[tuple[str, str]]:
    found: Findings = run["findings"]
    return [(one["severity"], one["kind"]) for one in found if subject in (None, one["subject"])]


async def test_s23_the_venue_is_down_at_the_start(tmp_path: Path) -> None:
    """What came meanwhile waits and goes stale; nothing is fired when the venue is back (tqsdk 71)."""
    async with venue(tmp_path, Rules(filling="in_reply"), up=False, ready=False) as v:
        await v.buy()
        await v.desk.waits(1, "WAITING_FOR_BROKER")
        await v.desk.until_logged("account not ready")
        v.clock.advance(61 * SECOND)
        order = await v.over()
        assert order["state"] == "DENIED"
        assert order["reason"].startswith("STALE")
        await v.exchange.start()
        await v.desk.ready("venue")
        assert await v.at_exchange() == []
        assert (await v.filled("1"))["id"] == "O2"


async def test_s28_orders_of_others_are_shown_and_never_touched(tmp_path: Path) -> None:
    """A person's, and one with an id like ours and no row: another replica's, or of a ledger that is lost."""
    async with venue(tmp_path) as v:
        manual = await v.by_hand("buy", "3", type="limit", limit_price="90")
        ours = f"{uuid.uuid4().hex[:12]}8{uuid.uuid4().hex[13:]}"
        replica = await v.by_hand("buy", "4", type="limit", limit_price="80", client_order_id=ours)
        run = await v.reconcile()
        assert kinds(run, manual["id"]) == [("info", "external_order")]
        assert kinds(run, replica["id"]) == [("warning", "our_id_without_row")]
        await v.buy("1")
        await v.ended()
        assert "cancel" not in v.plan.calls
        assert {
            row["status"] for row in await v.exchange.rows("SELECT status FROM orders WHERE origin = 'hand'")
        } == {"new"}


async def test_s29_a_position_changed_outside_is_drift_and_is_corrected_by_nobody(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        await v.filled("10")
        await v.exchange.ask(Book.move_outside, NUMBER, "AAPL", "-4")
        runs = [await v.reconcile() for _ in range(2)]
        assert "drift" in [kind for _, kind in kinds(runs[-1], "AAPL")]
        assert len(await v.at_exchange()) == 1
        # H2: the exit closes what is there, and no more, once it is sure that the position is not just late.
        await v.exit()
        async with v.time_runs():
            order = await v.over(2)
            rest = await v.over(3)
        assert order["quantity"] == "6"
        # The four that our book still names are not there: said, and nothing more is sent for them.
        assert (rest["state"], rest["reason"].split()[0]) == ("DENIED", "DRIFT")
        assert await v.position() == "0"


async def test_s29_a_hand_close_is_explained_by_its_fill(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        await v.filled("10")
        await v.by_hand("sell", "4")
        found = kinds(await v.reconcile())
        assert ("info", "external_fill") in found
        assert "critical" not in [severity for severity, _ in found]
        assert len(await v.at_exchange()) == 1


@pytest.mark.parametrize("reply", [Reply.STATUS, *also(Reply.HTML, Reply.RESET)])
async def test_s30_positions_that_cannot_be_read_are_unknown_and_never_flat(
    tmp_path: Path, reply: Reply
) -> None:
    async with venue(tmp_path) as v:
        await v.filled("10")
        v.fault("positions", reply, times=None, status=500)
        run = await v.reconcile()
        assert run["result"] in ("PARTIAL", "FAILED")
        assert "drift" not in [kind for _, kind in kinds(run)]
        assert "0" not in [row["broker"] for row in json.loads(run["report"]).get("positions", [])]
        # An exit waits: it is never told that there is nothing to close.
        await v.exit()
        await v.desk.waits(2, "WAITING_FOR_BROKER")
        v.plan.clear()
        async with v.time_runs():
            assert (await v.over(2))["quantity"] == "10"
        assert await v.position() == "0"


async def _crowd(exchange: SimulatedExchange, count: int) -> None:
    """So many orders of somebody else's, all over."""

    def write(book: Book) -> None:
        with book.store.writing():
            for number in range(count):
                ns = book._stamp()
                book.store.insert(
                    "orders",
                    id=str(uuid.uuid4()),
                    start=1,
                    account=NUMBER,
                    client_order_id=f"crowd-{ns}-{number}",
                    origin="hand",
                    symbol="MSFT",
                    side="buy",
                    qty="1",
                    type="limit",
                    limit_price="1",
                    tif="day",
                    extended_hours=0,
                    status="canceled",
                    filled_qty="0",
                    filled_value="0",
                    stop_reached=0,
                    created_ns=ns,
                    updated_ns=ns,
                    ended_at=ns // 1_000,
                    body_digest="",
                )

    await exchange.ask(write)


@pytest.mark.parametrize("page_fails", [True, *also(False)])
async def test_s31_the_order_is_on_the_third_page_of_1200(tmp_path: Path, page_fails: bool) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        v.lags(100_000, "find", "order")
        arrives = v.plan.hold("submit", reply=Reply.RESET, taken=Taken.LATE)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await _crowd(v.exchange, 1_150)
        arrives.release()
        await v.exchange.settle()
        await v.exchange.ask(Book.end, await v.cid(), "canceled")
        await _crowd(v.exchange, 50)
        if page_fails:
            # The third page of the first passes never comes: what was read so far is no evidence.
            for _ in range(3):
                v.fault("orders", Reply.STATUS, skip=3, status=500)
        began = v.clock.now()
        async with v.time_runs():
            order = await v.over()
        assert v.clock.now() - began < 900 * SECOND
        assert (order["state"], order["ord_status"]) == ("DONE", "Canceled")
        assert "NOT_PLACED" not in await v.states()


async def test_s32_an_order_that_vanished_while_we_were_off_goes_to_a_person(tmp_path: Path) -> None:
    """Cancelled by the venue and forgotten by it: a known broker id is not undone by not being found."""
    clock = ManualClock()
    exchange = SimulatedExchange(tmp_path / "exchange.sqlite3", clock)
    await exchange.start()
    await furnish(exchange)
    try:
        async with venue(tmp_path, exchange=exchange, clock=clock) as v:
            await v.buy(type="limit", limit_price="95")
            await v.state(1, "WORKING")
            known, cid = (await v.desk.order(1))["broker_order_id"], await v.cid()
        await exchange.ask(Book.end, cid, "canceled")
        exchange.rules.retention = {"canceled": 7_200 * SECOND}
        clock.advance(9_000 * SECOND)
        async with venue(tmp_path, exchange=exchange, clock=clock) as v:
            async with v.time_runs():
                order = await v.over()
            assert (order["state"], order["broker_order_id"]) == ("NEEDS_OPERATOR", known)
            assert "MISSING_AT_BROKER" in order["reason"]
    finally:
        await exchange.stop()


async def test_s34_fills_missed_while_the_line_was_dead_are_booked_once(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        await v.buy()
        await v.state(1, "WORKING")
        cid = await v.cid()
        await v.exchange.ask(Book.fill, cid, "3")
        await v.desk.until("SELECT filled_quantity FROM orders WHERE id = 1", "3")
        v.fault("*", Reply.RESET, Taken.NEVER, times=None)
        await v.desk.until_logged("account not ready", "a look failed")
        await v.exchange.ask(Book.fill, cid, "5")
        await v.exchange.ask(Book.fill, cid, "2")
        v.plan.clear()
        order = await v.over()
        assert (order["ord_status"], order["filled_quantity"]) == ("Filled", "10")
        fills = await v.desk.reader.rows("SELECT quantity FROM fills ORDER BY id")
        assert [fill["quantity"] for fill in fills] == ["3", "5", "2"]


async def test_s37_a_restored_ledger_does_not_send_what_it_has_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    exchange = SimulatedExchange(tmp_path / "exchange.sqlite3", clock, Rules(filling="in_reply"))
    await exchange.start()
    await furnish(exchange)
    body: dict[str, Any] = {"action": "buy", "quantity": "10", "key": "signal-20260302-000117"}
    home, copy = tmp_path / "home", tmp_path / "copy.sqlite3"

    def mark(tx: Transaction, _aside: str | None) -> dict[str, Any]:
        return {"denied": mark_restored(tx, clock.now(), "person").denied}

    try:
        async with venue(tmp_path, exchange=exchange, clock=clock) as v:
            await v.filled("1", key="before")
        await asyncio.to_thread(make_backup, home, copy, clock.now())
        async with venue(tmp_path, exchange=exchange, clock=clock) as v:
            await v.filled("10", key="signal-20260302-000117")
        await asyncio.to_thread(restore_ledger, home, copy, clock.now(), mark)
        clock.advance(SECOND)
        async with venue(tmp_path, exchange=exchange, clock=clock, judged=False) as v:
            await v.reconcile()
            rows = await v.desk.reader.rows("SELECT kind FROM findings WHERE severity <> 'info'")
            assert "our_id_without_row" in [row["kind"] for row in rows]
            await v.desk.halt("active")
            verdict = await v.desk.deliver(**body, fired_at=times.write(clock.now()))
            assert verdict.kind == "accepted", verdict
            async with v.time_runs():
                order = (await v.ended())[-1]
            assert order["state"] in ("DONE", "NEEDS_OPERATOR", "DENIED")
            assert (len(await v.at_exchange()), v.plan.calls["submit"]) == (2, 2)
    finally:
        await exchange.stop()


async def test_s40_closed_while_the_order_is_on_its_way(tmp_path: Path) -> None:
    clock = ManualClock()
    exchange = SimulatedExchange(tmp_path / "exchange.sqlite3", clock, Rules(filling="in_reply"))
    await exchange.start()
    await furnish(exchange)
    try:
        async with venue(tmp_path, exchange=exchange, clock=clock, judged=False) as v:
            sent = v.plan.hold("submit")
            await v.buy()
            await sent.arrived.wait()
        exchange.plan.clear()
        async with venue(tmp_path, exchange=exchange, clock=clock) as v:
            async with v.time_runs():
                order = await v.over()
            assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
            assert len(await v.at_exchange()) == 1
    finally:
        await exchange.stop()
