"""Parts that fail: a broker that is down, a ledger that takes nothing, lanes and sessions that die."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pytest

from app.brokers.base import LookupFailed, Unknown
from app.clock import SECOND
from app.execution import replies, trading
from app.execution.bounded import BoundedBroker
from app.ledger.errors import LedgerUnavailable
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import FAST, TWO_ACCOUNTS, desk


async def test_h38_a_broker_that_is_down_at_start_keeps_no_other_account_from_trading(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, TWO_ACCOUNTS, wrap=faults.wrap, start=False) as d:
        faults.brokers["second"].failing.add("connect")
        await d.trading.start(0)
        await d.deliver(action="buy", quantity="1")
        await d.waits(2, "WAITING_FOR_BROKER")
        assert (await d.state(1, "DONE"))["account"] == "paper"
        words = {fact.name: fact.word for fact in d.trading.facts()}
        assert words == {"paper": "ready", "second": "failing"}
        faults.brokers["second"].failing.clear()
        assert (await d.state(2, "DONE"))["account"] == "second"


async def test_h38_an_account_sends_nothing_before_its_own_first_reconciliation_has_ended(
    tmp_path: Path,
) -> None:
    faults = Faults(lambda broker: broker.failing.add("snapshot"))
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="1")
        await d.until("SELECT count(*) > 1 FROM reconciliations WHERE result = 'FAILED'", 1)
        assert faults.paper.calls["submit"] == 0
        await d.waits(1, "WAITING_FOR_BROKER")
        faults.paper.failing.clear()
        await d.state(1, "DONE")


@pytest.mark.parametrize(
    "calls", ["account", "find", "fills", "position", "quote", "find connect", "find snapshot"]
)
async def test_h34_an_adapter_that_raises_in_a_look_stops_nothing_for_good(
    tmp_path: Path, calls: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="5", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        faults.paper.crashing |= set(calls.split())
        await d.deliver(action="buy", quantity="1", price="85")
        d.trading._sessions["paper"].nudge()
        await d.until_logged("the broker adapter failed")
        await d.until_logged("lane waits for its broker", "a look failed", "account not ready")
        faults.paper.crashing.clear()
        d.clock.advance(15 * SECOND)
        assert [row["state"] for row in await d.settled()] == ["DONE", "DONE"]
        assert await d.book() == 6


async def test_the_ledger_being_locked_between_send_and_record_loses_no_reply_and_books_it_once(
    tmp_path: Path,
) -> None:
    """Another process's lock outlasts the writer's patience: the reply is kept until it can be written."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        reply = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "SUBMITTING")
        await reply.arrived.wait()
        other = apsw.Connection(str(tmp_path / "ledger.sqlite3"))
        other.execute("BEGIN IMMEDIATE")
        reply.release()
        lane = d.trading._lanes["paper", "AAPL"]
        async with asyncio.timeout(20):
            while not d.logged("reply not recorded yet"):
                d.clock.advance(11 * SECOND)
                await asyncio.sleep(FAST)
        assert lane.in_hand == 1
        other.execute("ROLLBACK")
        other.close()
        order = await d.state(1, "DONE")
        assert order["filled_quantity"] == "10"
        assert len(d.paper_orders()) == faults.paper.calls["submit"] == 1
        assert len(await d.reader.rows("SELECT 1 FROM fills")) == 1


async def test_a_ledger_that_takes_nothing_decides_nothing_and_loses_nothing(tmp_path: Path) -> None:
    faults = Faults()

    async def refusing(*arguments: Any, **named: Any) -> Any:
        raise LedgerUnavailable("full", "no space")

    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        look = faults.paper.hold("position")
        await d.deliver(action="buy", quantity="1")
        await look.arrived.wait()
        with patch.object(d.writer, "run", refusing):
            look.release()
            await d.until_logged("lane waits")
            assert faults.paper.calls["submit"] == 0
        assert (await d.state(1, "DONE"))["filled_quantity"] == "1"


async def test_a_reply_that_cannot_be_recorded_becomes_a_doubt_and_the_broker_is_asked(
    tmp_path: Path,
) -> None:
    real = replies.record_reply

    def breaks_once(tx: Any, order_id: int, attempt_id: int, reply: Any, now: int) -> Any:
        if not isinstance(reply, Unknown):
            raise ValueError("this reply cannot be written")
        return real(tx, order_id, attempt_id, reply, now)

    async with desk(tmp_path) as d:
        with patch.object(replies, "record_reply", breaks_once):
            order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["filled_quantity"]) == ("DONE", "10")
        assert d.logged("a reply could not be recorded")
        moves = [event["detail"]["to"] for event in await d.events("order moved")]
        assert moves == ["SUBMITTING", "AMBIGUOUS", "WORKING", "DONE"]


async def test_h34_a_lane_that_died_is_made_anew_and_its_send_is_asked_for(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        reply = faults.paper.hold("after_submit")
        await d.deliver(action="buy", quantity="10")
        await reply.arrived.wait()
        d.trading._running["paper:AAPL"].cancel()
        order = await d.state(1, "DONE")
        assert (order["filled_quantity"], faults.paper.calls["submit"]) == ("10", 1)
        assert d.logged("an order was left on its way")
        faults.paper.held.clear()
        assert (await d.trade(action="exit"))["quantity"] == "10"


async def test_h34_a_session_that_died_is_made_anew(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        first = d.trading._running["paper"]
        first.cancel()
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"
        assert d.trading._running["paper"] is not first


async def test_h34_an_error_in_the_sweep_or_a_lane_is_told_and_the_next_pass_goes_on(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        with patch.object(trading.Trading, "_wake_lane", side_effect=ValueError("a bug")):
            await d.deliver(action="buy", quantity="1")
            await d.until_logged("a sweep failed")
        await d.settled()
        lane = d.trading._lanes["paper", "AAPL"]
        with patch.object(lane, "_next", side_effect=ValueError("another")):
            await d.deliver(action="buy", quantity="2")
            await d.until_logged("a lane failed and goes on")
        await d.settled()
        assert await d.book() == 3


async def test_h34_orders_of_an_account_that_is_configured_no_more_are_called_out(tmp_path: Path) -> None:
    async with desk(tmp_path, TWO_ACCOUNTS, start=False) as d:
        await d.deliver(action="buy", quantity="1")
        clock = d.clock
    async with desk(tmp_path, clock=clock) as d:
        await d.state(1, "DONE")
        d.clock.advance(6 * SECOND)
        await d.until_logged("orders wait unattended")
        assert d.trading.unattended == 1
        assert d.logged("orders wait unattended")[0]["orders"] == "O2"


async def test_a_call_that_never_ends_ends_in_doubt_for_a_send_and_in_nothing_for_a_look() -> None:
    class Deaf:
        facts = None

        async def submit(self, request: object, last_check: object) -> None:
            await asyncio.Event().wait()

        async def find(self, client_order_id: str) -> None:
            await asyncio.Event().wait()

        async def close(self) -> None:
            raise ConnectionResetError("gone")

    bounded = BoundedBroker(Deaf(), 0.01)  # type: ignore[arg-type]
    assert await bounded.submit(None, lambda: None) == Unknown("no reply within 0.01 s")  # type: ignore[arg-type]
    with pytest.raises(LookupFailed, match="no answer within"):
        await bounded.find("cid")
    await bounded.close()


async def test_a_session_that_keeps_failing_backs_off_and_says_why(tmp_path: Path) -> None:
    def broken(broker: FaultyBroker) -> None:
        broker.crashing.add("connect")

    async with desk(tmp_path, wrap=Faults(broken).wrap) as d:
        await d.until_logged("account not ready")
        (fact,) = d.trading.facts()
        assert fact.word == "failing"
        assert "adapter error KeyError" in fact.reason
