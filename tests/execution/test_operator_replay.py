"""Replay acts on orders of which nothing was done, and its fence is the broker itself (HOLES H25, H27)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import DuplicateId, Refused
from app.clock import SECOND
from app.engine import CommandRefused
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, desk
from tests.execution.operator_kit import Hand, absent, arrive, attempts

TWO = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["a", "b"]

[[accounts]]
name = "a"
broker = "paper"

[[accounts]]
name = "b"
broker = "paper"
"""
SHORTS = CONFIG + "allow_short = true\n"


# ------------------------------------------------------------------ what can go out again at all


async def test_h25_of_two_accounts_the_good_one_is_named_and_left_out(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, TWO, wrap=faults.wrap) as d:
        await d.ready("a")
        await d.ready("b")
        faults.brokers["b"].plan.append(Refused("40310000", "insufficient buying power"))
        await d.deliver(action="buy", quantity="10")
        await d.settled()
        hand = Hand(d)
        answer = await hand.thrice("replay", order="S1")
        assert [(one["order"], one["account"]) for one in answer["replayed"]] == [("O2", "b")]
        assert answer["left_out"] == [{"order": "O1", "why": "has filled 10"}]
        await d.settled()
        placed = [(row["account"], row["quantity"]) for row in d.paper_orders()]
        assert sorted(placed) == [("a", "10"), ("b", "10")]
        assert faults.brokers["a"].calls["submit"] == 1


async def test_h25_a_replay_of_one_order_names_its_signals_others(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, TWO, wrap=faults.wrap) as d:
        for name in ("a", "b"):
            await d.ready(name)
            faults.brokers[name].plan.append(Refused("X"))
        await d.deliver(action="buy", quantity="10")
        await d.settled()
        hand = Hand(d)
        answer = await hand.do("replay", order="O2", seen="NOT_PLACED")
        assert [one["order"] for one in answer["replayed"]] == ["O2"]
        assert answer["left_out"] == [{"order": "O1", "why": "not asked for, it is NOT_PLACED"}]
        await d.state(2, "DONE")
        assert [row["account"] for row in d.paper_orders()] == ["b"]


async def test_h25_when_every_leg_did_its_work_nothing_goes_out(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        hand = Hand(d)
        for name in ("S1", "O1"):
            why = await hand.refused("replay", order=name)
            assert why == "nothing was sent again: O1 has filled 10"
        assert len(d.paper_orders()) == 1


async def test_h27_a_denied_order_goes_out_as_a_new_generation_and_counts_from_now(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.halt("halted")
        await d.trade(action="buy", quantity="10")
        hand = Hand(d)
        why = await hand.refused("replay", order="O1")
        assert why == "trading is halted: resume first, else it would only be denied again"
        await d.halt("active")
        d.clock.advance(3_600 * SECOND)
        answer = await hand.thrice("replay", order="O1", seen="DENIED")
        (one,) = answer["replayed"]
        assert (one["order"], one["as"], one["generation"], one["same_id"]) == ("O1", "O2", 2, False)
        order = await d.state(2, "DONE")
        assert (order["generation"], order["filled_quantity"]) == (2, "10")
        assert (await d.order(1))["state"] == "DENIED"
        assert len(d.paper_orders()) == 1
        (event,) = await d.events("replayed")
        assert event["detail"] == {"why": "I looked", "to": "O2", "generation": 2}


async def test_h27_the_age_of_a_replay_counts_from_now_and_ends(tmp_path: Path) -> None:
    """Nothing is kept for later: what cannot be sent within its age is denied as ever."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.halt("halted")
        await d.trade(action="buy", quantity="10")
        await d.halt("active")
        d.clock.advance(3_600 * SECOND)
        faults.paper.failing.add("account")
        await Hand(d).do("replay", order="O1")
        await d.waits(2, "WAITING_FOR_BROKER")
        d.clock.advance(61 * SECOND)
        assert (await d.state(2, "DENIED"))["reason"].startswith("STALE age=61.0s limit=60s")


@pytest.mark.parametrize("state", ["AMBIGUOUS", "NEEDS_OPERATOR", "WORKING", "SUBMITTING", "PENDING"])
async def test_h27_what_is_not_over_is_not_sent_again(tmp_path: Path, state: str) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        held = None
        fields: dict[str, Any] = {"action": "buy", "quantity": "10"}
        match state:
            case "AMBIGUOUS":
                faults.paper.plan.append("lost_before")
            case "NEEDS_OPERATOR":
                faults.paper.plan.append(DuplicateId("seen"))
            case "WORKING":
                fields |= {"type": "limit", "limit_price": "90"}
            case "SUBMITTING":
                held = faults.paper.hold("before_submit")
            case "PENDING":
                faults.paper.failing.add("account")
        await d.deliver(**fields)
        await d.state(1, state)
        words = {
            "WORKING": "O1 is at the broker",
            "PENDING": "O1 waits to be sent",
        }.get(state, f"O1 is {state}: nobody knows yet whether the broker has it, resolve that first")
        for name in ("O1", "S1"):
            assert words in await Hand(d).refused("replay", order=name)
        if held is not None:
            held.release()
            await d.state(1, "DONE")


async def test_h27_only_the_newest_generation_is_sent_again(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.halt("halted")
        await d.trade(action="buy", quantity="10")
        await d.halt("active")
        hand = Hand(d)
        await hand.do("replay", order="O1")
        await d.state(2, "DONE")
        why = await hand.refused("replay", order="O1")
        assert why == "nothing was sent again: O1 was sent again as O2, which is DONE"
        assert "O2 has filled 10" in await hand.refused("replay", order="S1")
        assert len(d.paper_orders()) == 1


async def test_h26_two_presses_at_once_send_it_again_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.halt("halted")
        await d.trade(action="buy", quantity="10")
        await d.halt("active")
        hand = Hand(d)
        presses = (hand.do("replay", order="O1", seen="DENIED") for _ in range(4))
        done = await asyncio.gather(*presses, return_exceptions=True)
        assert sorted(isinstance(one, CommandRefused) for one in done) == [False, True, True, True]
        await d.settled()
        assert len(d.paper_orders()) == 1
        assert [row["generation"] for row in await d.orders()] == [1, 2]


async def test_an_order_that_ended_unfilled_goes_out_again_with_an_id_of_its_own(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        hand = Hand(d)
        await hand.do("cancel", order="O1")
        await d.state(1, "DONE")
        (one,) = (await hand.do("replay", order="O1"))["replayed"]
        assert (one["as"], one["same_id"]) == ("O2", False)
        again = await d.state(2, "WORKING")
        assert (again["quantity"], again["limit_price"], again["type"]) == ("10", "90", "limit")


async def test_a_cancel_that_did_its_work_is_not_done_again(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        await d.deliver(action="cancel")
        await d.state(2, "DONE")
        assert "O2 has done its work: CANCELED O1" in await Hand(d).refused("replay", order="O2")


async def test_a_signal_whose_sender_was_told_503_is_taken_over_by_the_person(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        verdict = await d.deliver(action="buy", quantity="10")
        await d.settled(verdict)
        await d.halt("halted")
        again = await d.deliver(action="buy", quantity="5")
        await d.settled(again)
        await d.halt("active")
        sql = "UPDATE claims SET unanswered = 1, deliveries = 0 WHERE id = ?"
        await d.writer.run(lambda tx: tx.change("claims", sql, (again.claim_id,)))
        await Hand(d).do("replay", order="O2")
        await d.state(3, "DONE")
        # Its sender comes after all: that is a duplicate now.
        assert (await d.deliver(key="signal-2", action="buy", quantity="5")).kind == "duplicate"
        assert [row["quantity"] for row in d.paper_orders()] == ["10", "5"]


# ------------------------------------------------------------------ the same id, the same terms


async def test_h27_an_absent_order_goes_out_again_under_the_same_id_and_terms(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await absent(d, faults)
        d.clock.advance(3_600 * SECOND)
        answer = await Hand(d).thrice("replay", order="O1", seen="NOT_PLACED")
        (one,) = answer["replayed"]
        assert (one["as"], one["same_id"], one["generation"]) == ("O1", True, 1)
        order = await d.state(1, "DONE")
        assert (order["client_order_id"], order["filled_quantity"]) == (cid, "10")
        first, second = faults.paper.sent
        assert replace(first, not_after=None) == replace(second, not_after=None)
        assert await attempts(d, 1) == 2
        assert [row["client_order_id"] for row in d.paper_orders()] == [cid]


async def test_h27_a_resend_keeps_its_size_although_today_it_would_be_another(tmp_path: Path) -> None:
    """The exit was 10; the book has grown to 12 since, and what came later is not of its terms."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.plan.append("lost_before")
        await d.deliver(action="exit")
        await d.state(2, "NOT_PLACED")
        await d.trade(action="buy", quantity="2")
        await Hand(d).do("replay", order="O2")
        assert (await d.state(2, "DONE"))["quantity"] == "10"
        assert await d.book() == 2


async def test_h27_terms_that_no_longer_fit_are_not_sent(tmp_path: Path) -> None:
    """An exit of 10, when there is only 4 left to close: not one unit goes out under that id."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.plan.append("lost_before")
        await d.deliver(action="exit")
        await d.state(2, "NOT_PLACED")
        await d.trade(action="exit", quantity="6")
        hand = Hand(d)
        await hand.do("replay", order="O2")
        await d.until(
            "SELECT reason LIKE 'TERMS_CHANGED%' AND state = 'NOT_PLACED' FROM orders WHERE id = 2", 1
        )
        assert (await d.order(2))["reason"] == "TERMS_CHANGED then=sell:10 now=sell:4"
        assert await d.book() == 4
        assert await attempts(d, 2) == 1


async def test_h27_a_flip_that_may_not_open_any_more_is_not_cut_under_its_id(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        faults.paper.plan.append("lost_before")
        await d.deliver(action="sell", quantity="14")
        await d.state(2, "NOT_PLACED")
        await d.halt("exits_only")
        await Hand(d).do("replay", order="O2")
        await d.until("SELECT reason LIKE 'TERMS_CHANGED%' FROM orders WHERE id = 2", 1)
        assert (await d.order(2))["state"] == "NOT_PLACED"
        assert await d.book() == 10


async def test_h27_a_resend_that_is_held_back_stays_on_the_ghost_watch(tmp_path: Path) -> None:
    """Halted while it waits: it ends as absent again, not as denied, and a ghost is still found."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        cid = await absent(d, faults)
        faults.paper.failing.add("account")
        await Hand(d).do("replay", order="O1")
        await d.waits(1, "WAITING_FOR_BROKER")
        await d.halt("halted")
        order = await d.state(1, "NOT_PLACED")
        assert order["reason"] == "TRADING_HALTED state=halted"
        faults.paper.failing.clear()
        await arrive(d, cid)
        await d.trading.reconcile("paper", "button")
        assert (await d.state(1, "DONE"))["filled_quantity"] == "10"
        assert len(d.paper_orders()) == 1


async def test_h27_halted_in_the_last_moment_it_stays_on_the_ghost_watch(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await absent(d, faults)
        send = faults.paper.hold("before_submit")
        await Hand(d).do("replay", order="O1")
        await send.arrived.wait()
        await d.halt("halted")
        send.release()
        order = await d.state(1, "NOT_PLACED")
        assert order["reason"] == "TRADING_HALTED state=halted proved_unsent=yes"
