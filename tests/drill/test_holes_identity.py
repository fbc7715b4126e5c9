"""H12, H13, H27, H33, H37 at a venue: whose order, whose account, ghosts, closed markets, a pass midway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.kit import CONFIG, Venue, also, of_class, venue

TWO_SOURCES = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["venue"]

[[sources]]
name = "other"
id = "other-id"
accounts = ["venue"]

[[accounts]]
name = "venue"
broker = "paper"

[execution]
request_timeout = "1s"
"""


async def test_h12_two_sources_with_one_key_are_two_orders_or_a_persons(tmp_path: Path) -> None:
    body: dict[str, Any] = {"key": "signal-20260302-000117", "action": "buy", "quantity": "10"}
    async with venue(tmp_path, Rules(filling="in_reply"), config=TWO_SOURCES) as v:
        for source in ("tv", "other"):
            assert (await v.desk.deliver(source, **body)).kind == "accepted"
        orders = await v.ended()
        placed = [order for order in orders if order["state"] == "DONE"]
        assert (
            len({order["broker_order_id"] for order in placed}) == len(placed) == len(await v.at_exchange())
        )
        assert {order["state"] for order in orders} <= {"DONE", "NEEDS_OPERATOR", "DENIED"}


async def test_h12_a_duplicate_answer_to_the_first_try_is_not_ours(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.DUPLICATE, Taken.NEVER)
        await v.buy()
        order = await v.over()
        assert (order["state"], order["reason"].split()[0]) == ("NEEDS_OPERATOR", "COLLISION")
        assert order["broker_order_id"] is None
        assert await v.at_exchange() == []


@pytest.mark.parametrize("id_class", ["B", *also("E")])
async def test_h13_keys_swapped_between_send_and_resolve_prove_nothing(tmp_path: Path, id_class: str) -> None:
    """The other account says three times that it knows no such order: that is no evidence."""
    async with venue(tmp_path, Rules(filling="by_hand"), facts=of_class(id_class)) as v:
        v.fault("submit", Reply.RESET)
        v.fault("find", Reply.STATUS, times=3, status=500)
        v.keys[:] = ["key-2", "secret-2"]
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        v.desk.trading.begin_anew()
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "NEEDS_OPERATOR"
        assert "OTHER_ACCOUNT" in order["reason"]
        assert "NOT_PLACED" not in await v.states()
        v.plan.clear()
        refused = await v.hand.refused("resolve", order="O1", answer="not_placed")
        assert "account" in refused


async def _absent_and_landed(v: Venue) -> None:
    """O1 is at the venue, no look shows it, and it is called absent."""
    v.lags(100_000)
    v.fault("submit", Reply.RESET)
    await v.buy()
    await v.state(1, "AMBIGUOUS")
    async with v.time_runs():
        await v.over()


@pytest.mark.parametrize("step", ["before its send", "after its send", *also("before the replay")])
async def test_h27_a_ghost_at_each_step_of_a_replay_stays_one_order(tmp_path: Path, step: str) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await _absent_and_landed(v)
        assert (await v.desk.order(1))["state"] == "NOT_PLACED"
        if step == "before the replay":
            v.rules.lag.clear()
            await v.reconcile()
            await v.over()
            assert "nothing was sent again" in await v.hand.refused("replay", order="O1")
        elif step == "before its send":
            view = v.plan.hold("account")
            await v.hand.do("replay", order="O1")
            await view.arrived.wait()
            v.rules.lag.clear()
            view.release()
        else:
            send = v.plan.hold("submit", taken=Taken.LATE)
            await v.hand.do("replay", order="O1")
            await send.arrived.wait()
            v.rules.lag.clear()
            send.release()
        async with v.time_runs(tick=SECOND // 4):
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert len(await v.at_exchange()) == 1
        assert await v.position() == "10"


async def test_h27_on_class_c_a_replay_of_what_may_still_arrive_is_refused(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("C")) as v:
        await _absent_and_landed(v)
        assert (await v.desk.order(1))["state"] == "NEEDS_OPERATOR"
        await v.hand.refused("replay", order="O1")
        assert (await v.posts(), len(await v.at_exchange())) == (1, 1)


async def test_h33_a_closed_market_takes_no_entry_and_keeps_an_exit(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.filled("10")
        await v.exchange.ask(Book.open_session, False)
        await v.buy("5")
        entry = await v.over(2)
        assert (entry["state"], entry["reason"].split()[0]) == ("DENIED", "MARKET_CLOSED")
        await v.exit()
        await v.state(3, "WORKING")
        assert "O3" in [subject for _, _, subject in await v.needs()]
        assert len(await v.at_exchange()) == 2
        await v.exchange.ask(Book.open_session, True)
        assert (await v.over(3))["ord_status"] == "Filled"
        assert await v.position() == "0"


async def test_h33_asked_to_queue_an_entry_is_kept_by_the_venue(tmp_path: Path) -> None:
    queue = CONFIG.replace('broker = "paper"', 'broker = "paper"\nwhen_closed = "queue"')
    async with venue(tmp_path, Rules(filling="in_reply", is_open=False), config=queue) as v:
        await v.buy("5")
        await v.state(1, "WORKING")
        await v.exchange.ask(Book.open_session, True)
        assert (await v.over())["ord_status"] == "Filled"


@pytest.mark.parametrize("endpoint", ["positions", "orders", *also("account", "clock", "fills")])
async def test_h37_an_order_sent_in_the_middle_of_a_pass_is_neither_missing_nor_drift(
    tmp_path: Path, endpoint: str
) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.filled("1")
        halted = v.plan.hold(endpoint)
        passing = v.desk.tasks.start("pass", v.reconcile())
        await halted.arrived.wait()
        await v.buy("10")
        # The order waits its turn behind the pass, or goes out beside it: both are right.
        halted.release()
        run = await passing
        await v.ended()
        assert [one for one in run["findings"] if one["severity"] != "info"] == []
        run = await v.reconcile()
        assert run["findings"] == []
        await v.buy("2")
        assert (await v.over(3))["state"] == "DONE"


async def test_h37_a_look_begun_before_the_send_is_over_counts_for_nothing(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        send = v.plan.hold("submit", taken=Taken.LATE)
        await v.buy()
        await send.arrived.wait()
        v.clock.advance(400 * SECOND)
        await v.desk.trading.reconcile("venue", "manual")
        assert (await v.desk.order(1))["state"] in ("SUBMITTING", "AMBIGUOUS")
        assert await v.evidence() == []
        send.release()
        async with v.time_runs():
            assert (await v.over())["state"] == "DONE"
