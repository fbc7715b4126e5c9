"""Deliveries in conflict: admitted once as a signal of their own, or put away (HOLES H14, H16, H26)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.claims.base import Verdict
from app.clock import SECOND
from app.ledger.restore import REFUSE_WITHOUT_TIME
from app.ledger.retention import Cutoffs, drop_bodies
from tests.execution.kit import CONFIG, Desk, desk
from tests.execution.operator_kit import Hand

KEY = "bar-1"
BAR = "2026-03-02T15:29:00Z"
"""A minute before the desk's clock."""


async def conflict(d: Desk, **fields: Any) -> Verdict:
    """D2: an exit of 4 under the key of an entry that was claimed and filled before, S1."""
    await d.trade(action="buy", quantity="10", key=KEY, bar_time=BAR)
    return await again(d, **fields)


async def again(d: Desk, **fields: Any) -> Verdict:
    verdict = await d.deliver(**{"action": "exit", "quantity": "4", "key": KEY, "bar_time": BAR, **fields})
    assert verdict.kind == "conflict"
    return verdict


async def test_h16_a_conflicting_delivery_is_admitted_as_a_new_signal_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        d.clock.advance(120 * SECOND)
        hand = Hand(d)
        answer = await hand.thrice("admit", delivery="D2")
        assert (answer["delivery"], answer["signal"], answer["collapsed"]) == ("D2", "S2", False)
        order = await d.state(2, "DONE")
        assert (order["signal"], order["filled_quantity"]) == ("S2", "4")
        (signal,) = await d.reader.rows("SELECT * FROM v_signals WHERE id = 'S2'")
        assert (signal["source"], signal["key"][:3], signal["key_source"]) == ("tv", "a1:", "derived")
        assert await hand.refused("admit", delivery="D2") == "D2 was admitted already, as S2"
        assert len(d.paper_orders()) == 2
        (event,) = await d.events("conflict admitted")
        assert (event["subject"], event["actor"]) == ("D2", "person")
        assert event["detail"] == {"as": "S2", "collapsed": False, "why": "I looked"}


async def test_h26_two_copies_of_one_alert_collapse_into_one_signal(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        await again(d, quantity="4.0", comment="the copy")
        hand = Hand(d)
        one, other = await asyncio.gather(hand.do("admit", delivery="D2"), hand.do("admit", delivery="D3"))
        assert one["signal"] == other["signal"] == "S2"
        assert sorted((one["collapsed"], other["collapsed"])) == [False, True]
        await d.state(2, "DONE")
        assert len(d.paper_orders()) == 2
        assert await hand.needs() == []


async def test_h26_without_a_bar_time_the_order_of_admission_does_not_matter(tmp_path: Path) -> None:
    """Two copies on both sides of the end of a ten-minute epoch; the later one is admitted first."""
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", key=KEY)
        await again(d, bar_time=None)
        epoch = 600 * SECOND
        d.clock.advance(epoch - d.clock.now() % epoch - SECOND)
        await again(d, bar_time=None)
        d.clock.advance(2 * SECOND)
        await again(d, bar_time=None)
        hand = Hand(d)
        assert (await hand.do("admit", delivery="D4"))["signal"] == "S2"
        assert (await hand.do("admit", delivery="D3"))["collapsed"] is True
        await d.state(2, "DONE")
        assert len(d.paper_orders()) == 2


async def test_another_intent_under_the_same_key_is_another_signal(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        await again(d, quantity="3")
        hand = Hand(d)
        assert (await hand.do("admit", delivery="D2"))["signal"] == "S2"
        assert (await hand.do("admit", delivery="D3"))["signal"] == "S3"
        await d.settled()
        assert await d.book() == 3


async def test_what_the_source_would_have_admitted_by_itself_is_the_same_signal(tmp_path: Path) -> None:
    """The key is the one of `on_conflict = "admit_exits"`: a setting changed in between doubles nothing."""
    async with desk(tmp_path, CONFIG) as d:
        await conflict(d)
        clock = d.clock
    config = CONFIG.replace('id = "tv-id"', 'id = "tv-id"\non_conflict = "admit_exits"')
    async with desk(tmp_path, config, clock=clock) as d:
        verdict = await d.deliver(action="exit", quantity="4", key=KEY, bar_time=BAR)
        assert (verdict.kind, verdict.claim_id) == ("accepted", 2)
        answer = await Hand(d).do("admit", delivery="D2")
        assert (answer["signal"], answer["collapsed"]) == ("S2", True)
        await d.settled()
        assert len(d.paper_orders()) == 2


@pytest.mark.parametrize(
    ("fields", "age", "said"),
    [
        ({"action": "buy", "quantity": "1"}, 91, "D2 is 91 s old, and an entry may be 90 s old"),
        ({}, 901, "D2 is 901 s old, and an exit may be 900 s old"),
        ({"fired_at": "2026-03-02T15:25:00Z"}, 601, "D2 is 901 s old, and an exit may be 900 s old"),
    ],
)
async def test_a_stale_delivery_is_refused_with_its_age(
    tmp_path: Path, fields: dict[str, Any], age: int, said: str
) -> None:
    async with desk(tmp_path) as d:
        await conflict(d, **fields)
        d.clock.advance(age * SECOND)
        hand = Hand(d)
        assert said in await hand.refused("admit", delivery="D2")
        assert len(await d.orders()) == 1
        assert [need.subject for need in await hand.needs()] == ["D2"]


async def test_the_age_of_what_is_admitted_counts_from_now(tmp_path: Path) -> None:
    """It would be too old for the worker by its first receipt."""
    async with desk(tmp_path) as d:
        await conflict(d, action="buy", quantity="1")
        d.clock.advance(80 * SECOND)
        await Hand(d).do("admit", delivery="D2")
        assert (await d.state(2, "DONE"))["filled_quantity"] == "1"


async def test_h40_behind_the_watermark_nothing_is_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d, fired_at="2026-03-02T15:29:30Z")
        sql = "UPDATE sources SET watermark = ?"
        await d.writer.run(lambda tx: tx.change("sources", sql, (d.clock.now(),)))
        assert "older than the keys that were forgotten" in await Hand(d).refused("admit", delivery="D2")


async def test_h39_after_a_restore_what_states_no_time_is_not_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", key=KEY)
        await again(d, bar_time=None)
        await d.writer.run(lambda tx: tx.set_meta(REFUSE_WITHOUT_TIME, "1"))
        assert "states no time, and the ledger was restored" in await Hand(d).refused("admit", delivery="D2")


async def test_a_body_that_was_purged_cannot_be_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        await d.writer.run(lambda tx: tx.change("bodies", "DELETE FROM bodies WHERE delivery_id = 2"))
        why = await Hand(d).refused("admit", delivery="D2")
        assert why == "the body of D2 is no longer kept: send the alert again"


async def test_a_body_that_todays_rules_refuse_is_not_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        body = '{"symbol": "AAPL", "action": "exit", "leverage": 5}'
        await d.writer.run(
            lambda tx: tx.change("bodies", "UPDATE bodies SET body = ? WHERE delivery_id = 2", (body,))
        )
        why = await Hand(d).refused("admit", delivery="D2")
        assert why.startswith("D2 cannot be read any more: unsupported_field (leverage)")


async def test_only_what_may_be_a_signal_of_its_own_is_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", key=KEY, bar_time=BAR)
        assert (await d.deliver(action="buy", quantity="10", key=KEY, bar_time=BAR)).kind == "duplicate"
        hand = Hand(d)
        said = "only a delivery in conflict can be admitted"
        assert await hand.refused("admit", delivery="D1") == f"D1 was accepted: {said}"
        assert await hand.refused("admit", delivery="D2") == f"D2 was duplicate: {said}"
        assert await hand.refused("admit", delivery="D9") == "there is no delivery D9"
        assert await hand.refused("admit", delivery="O1") == "'O1' is no id: a delivery's id is like D12"
        assert "needs a reason" in await hand.refused("admit", delivery="D2", why="")


async def test_h14_a_repeat_that_came_too_late_to_be_a_resend_may_be_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10", key=None)
        d.clock.advance(30 * SECOND)
        assert (await d.deliver(action="buy", quantity="10", key=None)).kind == "duplicate"
        hand = Hand(d)
        (need,) = await hand.needs()
        assert (need.kind, need.severity, need.subject) == ("second_signal", "info", "D2")
        assert [action.command for action in need.actions] == ["admit", "dismiss"]
        await hand.do(need.actions[0].command, **need.actions[0].arguments)
        await d.state(2, "DONE")
        assert await d.book() == 20
        assert await hand.needs() == []


async def test_a_dry_run_admits_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        hand = Hand(d)
        assert (await hand.do("admit", delivery="D2", dry_run=True))["signal"] == "S2"
        assert len(await d.orders()) == 1
        assert [need.subject for need in await hand.needs()] == ["D2"]


# ---------------------------------------------------------------------------------------------------- dismiss


async def test_a_conflict_that_was_put_away_waits_for_nobody_and_is_not_admitted(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        hand = Hand(d)
        await hand.thrice("dismiss", ids=["D2"])
        assert await hand.needs() == []
        assert await hand.refused("admit", delivery="D2") == "D2 was put away: send the alert again"
        assert await hand.refused("dismiss", ids=["D2"]) == "D2 needs nobody"
        (event,) = await d.events("conflict dismissed")
        assert event["subject"] == "D2"
        # Retention lets its body go only now.
        cutoffs = Cutoffs(d.clock.now(), None, d.clock.now())
        assert await d.writer.run(lambda tx: drop_bodies(tx, [2], cutoffs)) == 1


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([], "say what"),
        (["D1"], "D1 needs nobody"),
        (["D9"], "there is no delivery D9"),
        (["O9"], "there is no order O9"),
        (["x"], "'x' is no id"),
        (["D2", "D9"], "there is no delivery D9"),
        ("D2", "not a request of this command"),
    ],
)
async def test_what_cannot_be_put_away_puts_nothing_away(tmp_path: Path, ids: Any, said: str) -> None:
    async with desk(tmp_path) as d:
        await conflict(d)
        hand = Hand(d)
        assert said in await hand.refused("dismiss", ids=ids)
        assert [need.subject for need in await hand.needs()] == ["D2"]
