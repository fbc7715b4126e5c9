"""A ghost meets its successor: what a replay sends where the first try may be there after all (HOLES H27)."""

from __future__ import annotations

from pathlib import Path

from app.clock import SECOND
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import ClassC, Hand, absent, arrive

# ------------------------------------------------------------------ a ghost, at each step of a replay


async def hidden(d: Desk, faults: Faults) -> str:
    """O1 got there, its reply was lost, and no look shows it: called absent, and wrongly so."""
    await d.ready()
    faults.paper.plan.append("lost_after")
    look = faults.paper.hold("find")
    await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
    order = await d.state(1, "AMBIGUOUS")
    faults.paper.hidden.add(order["client_order_id"])
    look.release()
    await d.state(1, "NOT_PLACED")
    return str(order["client_order_id"])


async def test_h27_a_ghost_before_the_replay_refuses_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await hidden(d, faults)
        faults.paper.hidden.clear()
        await d.trading.reconcile("paper", "button")
        await d.state(1, "WORKING")
        assert "O1 is at the broker" in await Hand(d).refused("replay", order="O1")
        why = await Hand(d).refused("replay", order="O1", seen="NOT_PLACED")
        assert why == "O1 is WORKING now, not NOT_PLACED: look at it again"
        assert len(d.paper_orders()) == 1


async def test_h27_a_ghost_that_nobody_has_seen_meets_its_own_id(tmp_path: Path) -> None:
    """The broker's duplicate answer is the proof: found, not a collision, and not a second order."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await hidden(d, faults)
        faults.paper.hidden.clear()
        await Hand(d).do("replay", order="O1")
        order = await d.state(1, "WORKING")
        assert [row["client_order_id"] for row in d.paper_orders()] == [cid]
        assert order["broker_order_id"] == d.paper_orders()[0]["id"]
        moves = [event["detail"]["to"] for event in await d.events("order moved")]
        assert moves[-4:] == ["PENDING", "SUBMITTING", "AMBIGUOUS", "WORKING"]


async def test_h27_a_ghost_while_the_resend_waits_is_met_by_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await hidden(d, faults)
        faults.paper.failing.add("account")
        await Hand(d).do("replay", order="O1")
        await d.waits(1, "WAITING_FOR_BROKER")
        faults.paper.hidden.clear()
        await d.trading.reconcile("paper", "button")
        assert (await d.order(1))["state"] == "PENDING"
        faults.paper.failing.clear()
        d.clock.advance(5 * SECOND)
        await d.state(1, "WORKING")
        assert len(d.paper_orders()) == 1


async def test_h27_a_ghost_while_the_resend_is_on_its_way_is_the_one_order(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await hidden(d, faults)
        send = faults.paper.hold("before_submit")
        await Hand(d).do("replay", order="O1")
        await send.arrived.wait()
        faults.paper.hidden.clear()
        await d.trading.reconcile("paper", "button")
        send.release()
        await d.state(1, "WORKING")
        assert len(d.paper_orders()) == 1


async def test_h27_a_ghost_that_was_there_before_our_first_try_is_no_order_of_ours(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await absent(d, faults)
        d.clock.advance(-3_600 * SECOND)
        await arrive(d, cid)
        d.clock.advance(3_600 * SECOND)
        await Hand(d).do("replay", order="O1")
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"] == "COLLISION the broker's order differs in created_at"
        assert await d.book() == 0


async def test_h27_another_account_since_then_gets_no_resend(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await absent(d, faults)
        clock = d.clock

    def another(broker: FaultyBroker) -> None:
        broker.identity = "another account"

    faults = Faults(another)
    async with desk(tmp_path, clock=clock, wrap=faults.wrap) as d:
        await d.until("SELECT answering FROM accounts", "another account")
        assert "was sent to another account" in await Hand(d).refused("replay", order="O1")
        assert faults.paper.calls["submit"] == 0


# ------------------------------------------------------------------ where a new id has to go out (class C)


async def called_absent_behind_a_wire(d: Desk, faults: Faults) -> str:
    """O1 on a class C broker: a person has said that it was not placed, after its deadline."""
    await d.ready()
    faults.paper.plan.append("lost_before")
    await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
    order = await d.state(1, "AMBIGUOUS")
    d.clock.advance(121 * SECOND)
    await Hand(d).do("resolve", order="O1", answer="not_placed")
    return str(order["client_order_id"])


async def test_h27_before_its_deadline_and_a_clean_look_no_new_id_goes_out(tmp_path: Path) -> None:
    faults = Faults(kind=ClassC)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await called_absent_behind_a_wire(d, faults)
        hand = Hand(d)
        sql = "UPDATE attempts SET arrival_deadline = arrival_deadline + ?"
        await d.writer.run(lambda tx: tx.execute("DROP TRIGGER attempts_close_once"))
        await d.writer.run(lambda tx: tx.change("attempts", sql, (60 * SECOND,)))
        assert "O1 may still arrive at the broker until" in await hand.refused("replay", order="O1")
        d.clock.advance(60 * SECOND)
        why = await hand.refused("replay", order="O1")
        assert "O1 was not looked for since it could have arrived: resolve it first" in why
        assert d.paper_orders() == []


async def test_h27_a_new_generation_has_a_new_id_and_a_ghost_denies_it_while_it_waits(tmp_path: Path) -> None:
    faults = Faults(kind=ClassC)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await called_absent_behind_a_wire(d, faults)
        faults.paper.failing.add("account")
        (one,) = (await Hand(d).do("replay", order="O1"))["replayed"]
        assert (one["as"], one["same_id"]) == ("O2", False)
        await d.waits(2, "WAITING_FOR_BROKER")
        await arrive(d, cid, limit="90")
        await d.trading.reconcile("paper", "button")
        await d.state(1, "WORKING")
        denied = await d.state(2, "DENIED")
        assert denied["reason"] == "EARLIER_GENERATION order=O1 state=WORKING"
        faults.paper.failing.clear()
        assert [row["client_order_id"] for row in d.paper_orders()] == [cid]


async def test_h27_the_gate_itself_lets_no_two_generations_out(tmp_path: Path) -> None:
    """The ghost turns up after the broker was asked for the new one, before it is decided."""
    faults = Faults(kind=ClassC)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await called_absent_behind_a_wire(d, faults)
        asked = faults.paper.hold("quote")
        await Hand(d).do("replay", order="O1")
        await asked.arrived.wait()
        await arrive(d, cid, limit="90")
        await d.trading.reconcile("paper", "button")
        await d.state(1, "WORKING")
        asked.release()
        assert (await d.state(2, "DENIED"))["reason"] == "EARLIER_GENERATION order=O1 state=WORKING"
        assert len(d.paper_orders()) == 1


async def test_h27_a_new_generation_goes_out_under_an_id_of_its_own(tmp_path: Path) -> None:
    faults = Faults(kind=ClassC)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await called_absent_behind_a_wire(d, faults)
        await Hand(d).do("replay", order="O1")
        order = await d.state(2, "WORKING")
        assert order["client_order_id"] not in (None, cid)
        assert len(d.paper_orders()) == 1
