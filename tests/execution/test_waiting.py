"""What waits: shown at once, woken by what it waits for, ended in time, and quiet meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

from app.brokers.base import DuplicateId, Unsent
from app.claims.base import Verdict
from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, Desk, desk


async def doubtful(d: Desk, faults: Faults) -> Verdict:
    """An order that stays AMBIGUOUS: the broker cannot prove its absence by one look."""
    await d.ready()
    faults.paper.slow_proof = True
    faults.paper.plan.append("lost_before")
    verdict = await d.deliver(action="buy", quantity="1")
    await d.until("SELECT state FROM orders WHERE claim_id = ?", "AMBIGUOUS", verdict.claim_id)
    return verdict


async def many_sweeps(d: Desk) -> None:
    """Lets the sweep pass often: each one reads the ledger, which is counted."""
    swept = 0
    real, enough = d.trading._sweep, asyncio.Event()

    async def counted() -> None:
        nonlocal swept
        await real()
        swept += 1
        if swept >= 20:
            enough.set()

    d.trading._sweep = counted  # type: ignore[method-assign]
    async with asyncio.timeout(30):
        await enough.wait()
    d.trading._sweep = real  # type: ignore[method-assign]


async def test_an_idle_desk_with_waiting_orders_writes_nothing_and_asks_no_broker(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await doubtful(d, faults)
        await d.deliver(action="exit")
        await d.deliver(action="buy", quantity="2", strategy="B")
        await d.deliver(action="buy", quantity="3", type="limit", limit_price="90", strategy="B")
        for number in (2, 3, 4):
            await d.waits(number, "WAITING_FOR_O1")
        await many_sweeps(d)
        faults.paper.calls.clear()
        before, changes = d.writer.health, d.writer._connection.total_changes()
        await many_sweeps(d)
        # Looks at what is in doubt go on; nothing else is asked, and nothing is written.
        assert set(faults.paper.calls) <= {"find", "fills", "snapshot", "position"}
        assert d.writer._connection.total_changes() == changes
        assert d.writer.health.word == before.word == "ok"


async def test_resting_and_waiting_orders_cost_no_operation_while_nothing_happens(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        for price in ("110", "120"):
            await d.deliver(action="sell", quantity="5", type="limit", limit_price=price)
        await d.deliver(action="sell", quantity="5", type="limit", limit_price="130")
        await d.state(2, "WORKING")
        await d.state(3, "WORKING")
        await d.waits(4, "WAITING_FOR_O2")
        await many_sweeps(d)
        before = d.writer.health
        await many_sweeps(d)
        after = d.writer.health
        assert (after.commits, after.operations) == (before.commits, before.operations)


async def test_an_entry_that_waits_too_long_is_denied_visibly_and_names_what_it_waited_for(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await doubtful(d, faults)
        await d.deliver(action="buy", quantity="2")
        await d.waits(2, "WAITING_FOR_O1")
        d.clock.advance(60 * SECOND)
        await d.deliver(action="buy", quantity="3")
        await d.waits(3, "WAITING_FOR_O1")
        assert (await d.order(2))["state"] == "PENDING"
        d.clock.advance(1)
        denied = await d.state(2, "DENIED")
        assert denied["reason"] == "STALE age=60.0s limit=60s waited_for=O1"


async def test_an_exit_waits_without_an_age_limit_and_goes_on_by_itself(tmp_path: Path) -> None:
    faults = Faults()
    patient = CONFIG + '[reconciliation]\nresolve_deadline = "2d"\nabsent_min_age = "2d"\n'
    async with desk(tmp_path, patient, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await doubtful(d, faults)
        await d.deliver(action="exit")
        await d.waits(3, "WAITING_FOR_O2")
        d.clock.advance(24 * 3_600 * SECOND)
        await many_sweeps(d)
        assert (await d.order(3))["state"] == "PENDING"
        faults.paper.slow_proof = False
        assert (await d.state(3, "DONE"))["quantity"] == "10"


async def test_a_waiting_exit_survives_a_restart(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await doubtful(d, faults)
        await d.deliver(action="exit")
        await d.waits(3, "WAITING_FOR_O2")
        clock = d.clock
    clock.advance(3_600 * SECOND)
    async with desk(tmp_path, clock=clock) as d:
        assert (await d.state(3, "DONE"))["quantity"] == "10"
        assert await d.book() == 0


async def test_what_waits_for_its_broker_says_so_and_ends_in_time(tmp_path: Path) -> None:
    def down(broker: object) -> None:
        broker.failing.add("connect")  # type: ignore[attr-defined]

    faults = Faults(down)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="2")
        await d.deliver(action="exit")
        await d.waits(1, "WAITING_FOR_BROKER")
        await d.waits(2, "WAITING_FOR_BROKER")
        d.clock.advance(61 * SECOND)
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE age=61.0s limit=60s waited_for=BROKER"
        faults.paper.failing.clear()
        assert (await d.state(2, "DONE"))["reason"].startswith("NOTHING_TO_DO")


async def test_a_failed_look_before_the_decision_loses_nothing_and_is_not_repeated_hotly(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.failing.add("position")
        await d.deliver(action="buy", quantity="2")
        await d.waits(1, "WAITING_FOR_BROKER")
        await many_sweeps(d)
        assert faults.paper.calls["position"] == 1
        for expected in (2, 3):
            d.clock.advance(2 * SECOND)
            await many_sweeps(d)
            assert faults.paper.calls["position"] == expected
        faults.paper.failing.clear()
        d.clock.advance(5 * SECOND)
        assert (await d.state(1, "DONE"))["filled_quantity"] == "2"


async def test_what_is_proved_unsent_is_tried_again_under_the_same_id_and_not_hotly(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.extend([Unsent("no route"), Unsent("no route")])
        await d.deliver(action="buy", quantity="2")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes no route")
        await many_sweeps(d)
        assert faults.paper.calls["submit"] == 1
        d.clock.advance(SECOND)
        await d.until("SELECT count(*) FROM attempts WHERE ended_at IS NOT NULL", 2)
        await many_sweeps(d)
        assert faults.paper.calls["submit"] == 2
        d.clock.advance(2 * SECOND)
        order = await d.state(1, "DONE")
        assert {request.client_order_id for request in faults.paper.sent} == {order["client_order_id"]}
        assert len(d.paper_orders()) == 1
        rows = await d.reader.rows("SELECT number, bytes_left FROM attempts ORDER BY number")
        assert [(row["number"], row["bytes_left"]) for row in rows] == [(1, 0), (2, 0), (3, 1)]


async def test_a_try_that_never_left_does_not_count_against_the_rate_or_the_cooldown(tmp_path: Path) -> None:
    config = CONFIG + '[risk]\nmax_orders_per_minute = 1\ncooldown = "30s"\n'
    faults = Faults()
    async with desk(tmp_path, config, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Unsent("no route"))
        await d.deliver(action="buy", quantity="2")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes no route")
        d.clock.advance(SECOND)
        await d.state(1, "DONE")


async def test_an_unsent_entry_goes_stale_like_any_other(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Unsent("no route"))
        await d.deliver(action="buy", quantity="2")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes no route")
        d.clock.advance(61 * SECOND)
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE age=61.0s limit=60s waited_for=BROKER"
        assert d.paper_orders() == []


async def test_a_claim_answered_503_is_not_placed_and_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with desk(tmp_path, start=False) as d:
        verdict = await d.deliver(action="buy", quantity="2")
        await d.writer.run(lambda tx: tx.change("claims", "UPDATE claims SET unanswered = 1"))
        await d.trading.start(0)
        await d.waits(1, "WAITING_FOR_RESEND")
        await many_sweeps(d)
        assert d.paper_orders() == []
        d.clock.advance(61 * SECOND)
        (denied,) = await d.settled(verdict)
        assert (denied["state"], denied["reason"]) == ("DENIED", "STALE unanswered=503 waited_for=RESEND")


async def test_several_lanes_that_wait_for_one_order_do_not_wake_each_other(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, CONFIG + 'gate = "hold_account"\n', wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(DuplicateId("seen"))
        await d.trade(action="buy", quantity="1")
        symbols = ["AAPL", "MSFT", "TSLA", "SPY"]
        for symbol in symbols * 2:
            await d.deliver(symbol=symbol, action="buy", quantity="1")
        for number in range(2, 10):
            await d.waits(number, "WAITING_FOR_O1")
        await many_sweeps(d)
        faults.paper.calls.clear()
        before = d.writer.health
        await many_sweeps(d)
        after = d.writer.health
        assert (after.commits, after.operations) == (before.commits, before.operations)
        assert not faults.paper.calls


async def test_h34_an_order_that_no_wake_up_told_of_is_found_by_the_sweep(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        d.trading._ignore()
        await d.deliver(action="buy", quantity="1")
        await d.state(1, "DONE")


async def test_an_entry_does_not_wait_for_an_exit_whose_sender_was_told_503(tmp_path: Path) -> None:
    async with desk(tmp_path, start=False) as d:
        await d.deliver(action="exit")
        await d.writer.run(lambda tx: tx.change("claims", "UPDATE claims SET unanswered = 1"))
        await d.trading.start(0)
        await d.waits(1, "WAITING_FOR_RESEND")
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"


async def test_an_entry_behind_a_doubt_on_another_symbol_does_not_wait(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await doubtful(d, faults)
        order = await d.trade(symbol="MSFT", action="buy", quantity="1")
        assert order["state"] == "DONE"


async def test_an_order_that_a_person_must_look_at_but_that_never_left_holds_nobody(tmp_path: Path) -> None:
    """HOLES H34: NEEDS_OPERATOR(INTERNAL) is in nobody's way; nothing of it can be at the broker."""
    async with desk(tmp_path, start=False) as d:
        await d.deliver(action="buy", quantity="1")
        await d.writer.run(lambda tx: tx.change("claims", "UPDATE claims SET signal = '{}' WHERE id = 1"))
        await d.trading.start(0)
        broken = await d.state(1, "NEEDS_OPERATOR")
        assert broken["reason"].startswith("INTERNAL")
        assert (await d.trade(action="buy", quantity="2"))["state"] == "DONE"
        assert (await d.trade(action="exit"))["quantity"] == "2"
