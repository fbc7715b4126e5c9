"""A person's word on an order in doubt is checked at the broker first, or not taken (HOLES H28)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import DuplicateId
from app.clock import SECOND
from app.domain.order import State
from app.ledger import orders
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import ClassE, Hand, arrive

UNKNOWN = "SELECT client_order_id FROM orders WHERE id = ?"


async def evidence(d: Desk, look: str = "a person's") -> list[str]:
    rows = await d.reader.rows("SELECT result FROM evidence WHERE look LIKE ? ORDER BY id", (f"%{look}%",))
    return [row["result"] for row in rows]


async def cid(d: Desk, number: int = 1) -> str:
    return str((await d.order(number))["client_order_id"])


async def in_doubt(d: Desk, faults: Faults, **fields: Any) -> None:
    """O1, buy 10, was sent and is not heard of; the broker's looks prove nothing by themselves."""
    await d.ready()
    faults.paper.slow_proof = True
    faults.paper.plan.append("lost_before")
    await d.deliver(**{"action": "buy", "quantity": "10", **fields})
    await d.state(1, "AMBIGUOUS")


async def a_persons(d: Desk, faults: Faults) -> None:
    """O1, buy 10, is NEEDS_OPERATOR: the broker says that it knows the id already."""
    await d.ready()
    faults.paper.plan.append(DuplicateId("seen"))
    await d.deliver(action="buy", quantity="10")
    await d.state(1, "NEEDS_OPERATOR")


# ------------------------------------------------------------------------------------------------ not placed


async def test_h28_not_placed_is_not_taken_while_it_may_still_arrive(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await in_doubt(d, faults)
        hand = Hand(d)
        d.clock.advance(5 * SECOND)
        why = await hand.refused("resolve", order="O1", answer="not_placed")
        assert why.startswith("O1 may still arrive at the broker until ")
        assert why.endswith("say so again in 116 s")
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        d.clock.advance(116 * SECOND)
        answer = await hand.thrice("resolve", order="O1", answer="not_placed", seen="AMBIGUOUS")
        assert (answer["was"], answer["state"], answer["reason"]) == (
            "AMBIGUOUS",
            "NOT_PLACED",
            "OPERATOR_ABSENT",
        )
        assert await evidence(d) == ["absent"]
        (event,) = await d.events("resolved")
        assert (event["actor"], event["subject"]) == ("person", "O1")
        assert event["detail"]["why"] == "I looked"
        assert faults.paper.calls["submit"] == 1


async def test_h28_a_look_begun_before_the_deadline_does_not_count(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        # A person's already, so that the resolver does not look at it meanwhile.
        await a_persons(d, faults)
        faults.paper.slow_proof = True
        hand = Hand(d)
        d.clock.advance(119 * SECOND)
        look = faults.paper.hold("after_snapshot")
        asking = d.tasks.start("asking", hand.refused("resolve", order="O1", answer="not_placed"))
        await look.arrived.wait()
        d.clock.advance(10 * SECOND)
        look.release()
        assert "may still arrive" in await asking
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"


async def test_h28_on_paper_the_look_is_proof_at_once_and_is_made_all_the_same(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        finds = faults.paper.calls["snapshot"]
        answer = await Hand(d).do("resolve", order="O1", answer="not_placed")
        assert answer["state"] == "NOT_PLACED"
        assert faults.paper.calls["snapshot"] == finds + 1
        assert await evidence(d) == ["absent"]


@pytest.mark.parametrize("limit", [None, "90"])
async def test_h28_not_placed_is_not_taken_when_the_broker_has_it(tmp_path: Path, limit: str | None) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        there = await arrive(d, await cid(d), limit=limit)
        why = await Hand(d).refused("resolve", order="O1", answer="not_placed")
        assert why.startswith(f"the broker has O1: {there} (buy 10 AAPL, ")
        assert f"resolve O1 --placed {there}" in why
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"
        assert await evidence(d) == []


@pytest.mark.parametrize("call", ["account", "find", "fills", "snapshot"])
async def test_h28_a_look_that_fails_decides_nothing(tmp_path: Path, call: str) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        faults.paper.failing.add(call)
        for answer in ("not_placed", "look_again"):
            why = await Hand(d).refused("resolve", order="O1", answer=answer)
            assert why.startswith("the broker of paper cannot be asked now (")
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"
        assert await evidence(d) == ["failed", "failed"]


async def test_h28_without_a_session_nothing_is_resolved(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        clock = d.clock

    def away(broker: FaultyBroker) -> None:
        broker.failing.add("connect")

    async with desk(tmp_path, clock=clock, wrap=Faults(away).wrap) as d:
        why = await Hand(d).refused("resolve", order="O1", answer="not_placed")
        assert "the session is not open" in why


async def test_what_the_broker_had_confirmed_ends_as_canceled_and_keeps_its_fills(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        order = await d.state(1, "WORKING")
        faults.paper.hidden.add(order["client_order_id"])
        await d.state(1, "NEEDS_OPERATOR")
        hand = Hand(d)
        again = await hand.do("resolve", order="O1", answer="look_again")
        assert (again["state"], again["look"]) == ("NEEDS_OPERATOR", "absent")
        answer = await hand.do("resolve", order="O1", answer="not_placed")
        assert (answer["state"], answer["ord_status"]) == ("DONE", "Canceled")
        assert answer["reason"] == f"OPERATOR_ABSENT was={order['broker_order_id']}"


async def test_what_was_never_sent_needs_no_deadline_and_is_not_looked_for_again(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.failing.add("account")
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER")
        await d.writer.run(
            lambda tx: orders.move(
                tx, orders.get(tx, 1), State.NEEDS_OPERATOR, at=1, actor="test", reason="INTERNAL"
            )
        )
        faults.paper.failing.clear()
        hand = Hand(d)
        why = await hand.refused("resolve", order="O1", answer="look_again")
        assert why == "nothing of O1 was ever sent from here: say --not-placed"
        answer = await hand.do("resolve", order="O1", answer="not_placed")
        assert answer["state"] == "NOT_PLACED"


# ---------------------------------------------------------------------------------------------------- placed


async def test_h28_placed_is_taken_when_every_term_agrees_and_its_fills_are_booked(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        there = await arrive(d, await cid(d))
        answer = await Hand(d).thrice(
            "resolve", order="O1", answer="placed", broker_order_id=there, seen="NEEDS_OPERATOR"
        )
        assert (answer["state"], answer["ord_status"]) == ("DONE", "Filled")
        assert (answer["broker_order_id"], answer["filled_quantity"]) == (there, "10")
        assert await d.book() == 10
        assert await evidence(d) == ["found"]
        assert len(await d.events("resolved")) == 1


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"symbol": "MSFT"}, "it is on MSFT, not AAPL"),
        ({"side": "sell"}, "it is a sell, not a buy"),
        ({"quantity": "11"}, "its quantity is 11, not 10"),
    ],
)
async def test_h28_placed_is_not_taken_where_a_term_differs(
    tmp_path: Path, terms: dict[str, str], said: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        there = await arrive(d, await cid(d), limit="90", **{"side": "buy", "quantity": "10", **terms})
        why = await Hand(d).refused("resolve", order="O1", answer="placed", broker_order_id=there)
        assert why == f"the broker's order {there} is not O1: {said}"
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"
        assert await d.book() == 0


@pytest.mark.parametrize("limit", [None, "90"])
async def test_h28_a_strangers_order_is_not_ours(tmp_path: Path, limit: str | None) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        there = await arrive(d, "a stranger's", limit=limit)
        why = await Hand(d).refused("resolve", order="O1", answer="placed", broker_order_id=there)
        assert why.startswith(f"the broker's order {there} is not O1: ")
        assert "another id" in why or "the client order id a stranger's, not ours" in why


async def test_h28_an_order_that_another_of_ours_has_is_not_free(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90", symbol="MSFT")
        other = await d.state(2, "WORKING")
        why = await Hand(d).refused(
            "resolve", order="O1", answer="placed", broker_order_id=other["broker_order_id"]
        )
        assert "another order of ours has it already" in why


async def test_h28_an_order_that_nobody_knows_is_named(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        hand = Hand(d)
        there = await arrive(d, await cid(d))
        why = await hand.refused("resolve", order="O1", answer="placed", broker_order_id="no such")
        assert why == f"the broker shows no order no such in paper; under our id it has {there}"


async def test_h28_a_collision_by_time_alone_may_be_taken_by_a_person(tmp_path: Path) -> None:
    """The broker's clock is nobody's proof: the look again leaves it to him, his word settles it."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        there = await arrive(d, await cid(d))
        await d.writer.run(lambda tx: tx.execute("DROP TRIGGER attempts_close_once"))
        await d.writer.run(
            lambda tx: tx.change("attempts", "UPDATE attempts SET at = at + ?", (60 * SECOND,))
        )
        hand = Hand(d)
        again = await hand.do("resolve", order="O1", answer="look_again")
        assert again["state"] == "NEEDS_OPERATOR"
        assert again["reason"] == "COLLISION the broker's order differs in created_at"
        answer = await hand.do("resolve", order="O1", answer="placed", broker_order_id=there)
        assert answer["state"] == "DONE"


async def test_h28_where_an_id_is_only_a_label_the_time_has_to_agree(tmp_path: Path) -> None:
    faults = Faults(kind=ClassE)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        hand = Hand(d)
        d.clock.advance(600 * SECOND)
        late = await arrive(d, "no label of ours", limit="90")
        why = await hand.refused("resolve", order="O1", answer="placed", broker_order_id=late)
        assert "was not made while this one was sent" in why
        d.clock.advance(-590 * SECOND)
        there = await arrive(d, "another label", limit="90")
        answer = await hand.do("resolve", order="O1", answer="placed", broker_order_id=there)
        assert (answer["state"], answer["broker_order_id"]) == ("WORKING", there)


# ------------------------------------------------------------------------------------------------ look again


async def test_h28_look_again_finds_it_and_books_it(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        await arrive(d, await cid(d))
        answer = await Hand(d).thrice("resolve", order="O1", answer="look_again")
        assert (answer["was"], answer["state"], answer["look"]) == ("NEEDS_OPERATOR", "DONE", "found")
        assert await d.book() == 10


async def test_h28_look_again_on_paper_proves_the_absence(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        answer = await Hand(d).do("resolve", order="O1", answer="look_again")
        assert (answer["state"], answer["reason"]) == ("NOT_PLACED", "CONFIRMED_ABSENT")
        assert await evidence(d) == ["absent"]


async def test_h28_look_again_behind_a_wire_gives_it_back_to_the_resolver(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        faults.paper.slow_proof = True
        answer = await Hand(d).do("resolve", order="O1", answer="look_again")
        assert (answer["state"], answer["reason"]) == ("AMBIGUOUS", "LOOK_AGAIN")
        faults.paper.slow_proof = False
        await d.state(1, "NOT_PLACED")


# ---------------------------------------------------------------------------------------------- who and what


async def test_h13_a_look_under_another_account_proves_nothing_unless_that_one_is_gone(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await in_doubt(d, faults)
        why = await Hand(d).refused("resolve", order="O1", answer="not_placed", account_gone=True)
        assert why == "O1 was sent to the account that answers: that one is not gone"
        clock = d.clock

    def another(broker: FaultyBroker) -> None:
        broker.identity = "another account"

    async with desk(tmp_path, clock=clock, wrap=Faults(another).wrap) as d:
        await d.state(1, "NEEDS_OPERATOR")
        hand = Hand(d)
        for said in ("not_placed", "look_again"):
            why = await hand.refused("resolve", order="O1", answer=said)
            assert why.startswith("O1 (buy 10 AAPL) went to another account")
        answer = await hand.do("resolve", order="O1", answer="not_placed", account_gone=True)
        assert answer["state"] == "NOT_PLACED"
        assert await evidence(d) == ["failed"]
        assert "was sent to another account" in await hand.refused("replay", order="O1")


async def test_h26_what_was_seen_has_to_be_what_is(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        hand = Hand(d)
        why = await hand.refused("resolve", order="O1", answer="not_placed", seen="AMBIGUOUS")
        assert why == "O1 is NEEDS_OPERATOR now, not AMBIGUOUS: look at it again"
        await hand.do("resolve", order="O1", answer="not_placed", seen="NEEDS_OPERATOR")
        why = await hand.refused("resolve", order="O1", answer="not_placed")
        assert why == "O1 is NOT_PLACED: there is nothing to resolve"


async def test_an_order_that_is_being_sent_waits_for_its_reply(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        why = await Hand(d).refused("resolve", order="O1", answer="look_again")
        assert why == "O1 is being sent right now: its reply comes first"
        send.release()
        await d.state(1, "DONE")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"order": "O9", "answer": "not_placed"}, "there is no order O9"),
        ({"order": "S1", "answer": "not_placed"}, "'S1' is no id: an order's id is like O12"),
        ({"order": "O1", "answer": "placed"}, "takes the broker's id"),
        ({"order": "O1", "answer": "not_placed", "broker_order_id": "x"}, "takes the broker's id"),
        ({"order": "O1", "answer": "look_again", "account_gone": True}, "account is gone"),
        ({"order": "O1", "answer": "maybe"}, "not a request of this command"),
        ({"order": "O1"}, "not a request of this command"),
        ({"order": "O1", "answer": "not_placed", "why": " "}, "resolve needs a reason: --why TEXT"),
        ({"order": "O1", "answer": "not_placed", "why": "x" * 501}, "at most 500 characters"),
    ],
)
async def test_a_resolve_that_makes_no_sense_is_refused(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await a_persons(d, faults)
        assert said in await Hand(d).refused("resolve", **arguments)
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"
