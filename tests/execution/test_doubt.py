"""Replies that prove nothing: the broker is asked, never sent to again (HOLES H12, H13, H34, H35)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import BrokerOrder, DuplicateId, Fill, Refused, Snapshot, SubmitReply
from app.clock import SECOND
from app.domain.signal import Side
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, desk


async def evidence(d: Desk) -> list[str]:
    return [row["result"] for row in await d.reader.rows("SELECT result FROM evidence ORDER BY id")]


@pytest.mark.parametrize("fault", ["lost_after", "crash_after"])
async def test_h34_a_reply_lost_after_the_order_got_there_is_found_and_finished(
    tmp_path: Path, fault: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(fault)
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "10")
        assert len(d.paper_orders()) == 1
        assert faults.paper.calls["submit"] == 1
        assert await evidence(d) == ["found"]


@pytest.mark.parametrize("fault", ["lost_before", "crash_before"])
async def test_h35_an_order_lost_before_it_got_there_is_proved_absent_and_not_sent_again(
    tmp_path: Path, fault: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(fault)
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["reason"]) == ("NOT_PLACED", "CONFIRMED_ABSENT")
        assert d.paper_orders() == []
        assert faults.paper.calls["submit"] == 1
        assert await evidence(d) == ["absent"]


async def test_h34_an_adapter_that_raises_on_one_order_places_the_next_of_the_lane(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("crash_before")
        await d.deliver(action="buy", quantity="1")
        await d.deliver(action="buy", quantity="2")
        first, second = await d.settled()
        assert (first["state"], second["state"]) == ("NOT_PLACED", "DONE")
        assert [row["quantity"] for row in d.paper_orders()] == ["2"]


async def test_a_failed_look_is_evidence_of_nothing(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        faults.paper.failing.add("find")
        await d.deliver(action="buy", quantity="10")
        await d.until("SELECT count(*) >= 3 FROM evidence WHERE result = 'failed'", 1)
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        faults.paper.failing.clear()
        assert (await d.state(1, "DONE"))["filled_quantity"] == "10"


@pytest.mark.parametrize("call", ["find", "snapshot"])
async def test_no_single_failing_look_proves_an_absence(tmp_path: Path, call: str) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_before")
        faults.paper.failing.add(call)
        await d.deliver(action="buy", quantity="10")
        await d.until("SELECT count(*) >= 2 FROM evidence", 1)
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        assert set(await evidence(d)) == {"failed"}
        faults.paper.failing.clear()
        await d.state(1, "NOT_PLACED")


async def test_an_order_hidden_from_its_own_look_but_seen_in_the_fills_is_not_absent(tmp_path: Path) -> None:
    """The ladder has to agree: by id, open orders, fills."""

    class HalfBlind(FaultyBroker):
        async def find(self, client_order_id: str) -> None:
            return None

        async def fills(self, client_order_id: str) -> list[Fill]:
            return []

        async def snapshot(self, since: int) -> Snapshot:
            return replace(await super().snapshot(since), open_orders=[], recent_orders=[])

    faults = Faults(kind=HalfBlind)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        looked = faults.paper.hold("after_snapshot")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await looked.arrived.wait()
        looked.release()
        await d.trade(symbol="MSFT", action="buy", quantity="1")
        assert (await d.order(1))["state"] == "AMBIGUOUS"


async def test_h12_a_duplicate_id_on_the_first_attempt_is_not_our_order(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(DuplicateId("seen"))
        order = await d.trade(action="buy", quantity="10")
        assert order["state"] == "NEEDS_OPERATOR"
        assert order["reason"] == "COLLISION the broker knows this id already seen"
        assert await d.book() == 0


async def test_h12_a_found_order_that_was_there_before_we_sent_ours_is_never_adopted(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append("lost_after")
        look = faults.paper.hold("find")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        sql = "UPDATE attempts SET at = at + ? WHERE order_id = 1"
        await d.writer.run(lambda tx: tx.execute("DROP TRIGGER attempts_close_once"))
        await d.writer.run(lambda tx: tx.change("attempts", sql, (31 * SECOND,)))
        look.release()
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"] == "COLLISION the broker's order differs in created_at"
        assert await d.book() == 0


@pytest.mark.parametrize("term", ["quantity", "side", "instrument"])
async def test_h12_a_found_order_that_differs_in_a_term_is_never_adopted(tmp_path: Path, term: str) -> None:
    other: dict[str, Any] = {"quantity": Decimal(11), "side": Side.SELL, "instrument": "MSFT"}

    class Mistaken(FaultyBroker):
        async def find(self, client_order_id: str) -> BrokerOrder | None:
            found = await super().find(client_order_id)
            return None if found is None else replace(found, **{term: other[term]})

    faults = Faults(lambda broker: broker.plan.append("lost_after"), kind=Mistaken)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10")
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("COLLISION the broker's order differs in ")


async def test_a_proven_refusal_is_not_placed_with_its_code(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(Refused("40310000", "insufficient buying power"))
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["ord_status"]) == ("NOT_PLACED", "Rejected")
        assert order["reason"] == "REFUSED 40310000 insufficient buying power"


async def test_h13_looks_under_another_account_are_no_evidence(tmp_path: Path) -> None:
    """The keys were swapped, or the paper account reset, between the send and the look."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.hold("find")  # no look as the first account
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        clock = d.clock

    def another(broker: FaultyBroker) -> None:
        broker.identity = "another account"

    async with desk(tmp_path, clock=clock, wrap=Faults(another).wrap) as d:
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("OTHER_ACCOUNT sent_to=")
        assert await evidence(d) == []
        (changed,) = await d.events("another account")
        assert changed["detail"]["is"] == "another account"


async def test_h13_another_account_that_answers_in_the_middle_sends_nothing(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        connect = faults.paper.hold("connect")
        faults.paper.identity = "another account"
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER")
        assert faults.paper.calls["submit"] == 0
        connect.release()


async def test_h13_a_working_order_of_another_account_goes_to_a_person(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        clock = d.clock
    for file in tmp_path.glob("paper.sqlite3*"):
        file.unlink()
    async with desk(tmp_path, clock=clock) as d:
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("OTHER_ACCOUNT")


async def test_a_working_order_that_the_broker_no_longer_knows_goes_to_a_person(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        order = await d.state(1, "WORKING")
        faults.paper.hidden.add(order["client_order_id"])
        gone = await d.state(1, "NEEDS_OPERATOR")
        assert gone["reason"] == "MISSING_AT_BROKER open here, gone there"
        assert await evidence(d) == ["absent"]


REPLIES: list[SubmitReply | str] = ["lost_after", Refused("X"), "lost_before", "crash_after", ""]


async def test_whatever_the_replies_there_is_at_most_one_order_for_each_id_and_all_come_to_an_end(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.extend(REPLIES)
        for _ in REPLIES:
            await d.deliver(action="buy", quantity="1")
        rows = await d.settled()
        assert [row["state"] for row in rows] == ["DONE", "NOT_PLACED", "NOT_PLACED", "DONE", "DONE"]
        ids = [row["client_order_id"] for row in d.paper_orders()]
        assert len(ids) == len(set(ids)) == 3
        assert await d.book() == 3
