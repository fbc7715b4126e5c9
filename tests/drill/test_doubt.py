"""Scenarios 13 to 17, 35, 36, 38, 39 of facts section 5: looks that lag, fail or lie, and who decides."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import Broker, OrderRequest
from app.clock import SECOND
from app.domain.signal import Side
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.kit import CONFIG, also, of_class, venue

LOOKS = ("find", "order", "orders", "fills")


async def test_s13_on_class_c_a_resend_is_refused_and_forced_past_us_the_judge_sees_two(
    tmp_path: Path,
) -> None:
    adapters: list[Broker] = []

    def noted(broker: Broker) -> Broker:
        adapters.append(broker)
        return broker

    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("C"), wrap=noted) as v:
        v.lags(3_600)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        assert "O1 is AMBIGUOUS" in await v.hand.refused("replay", order="O1")
        assert await v.posts() == 1
        # What no guard of ours would let through:
        request = OrderRequest(await v.cid(), "AAPL", Side.BUY, Decimal(10))
        await adapters[0].submit(request, lambda: None)
        v.expected = ["DOUBLED", "SENT_AGAIN"]
        v.rules.lag.clear()
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["reason"].split()[0]) == ("NEEDS_OPERATOR", "DOUBLE")


async def test_s14_an_order_shown_after_40_minutes_goes_to_a_person_where_the_position_speaks(
    tmp_path: Path,
) -> None:
    """The lookups forget the order, the position shows it: that is never absence."""
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(2_400, *LOOKS)
        v.fault("submit", Reply.RESET)
        began = v.clock.now()
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "NEEDS_OPERATOR"
        assert 900 * SECOND <= v.clock.now() - began < 1_500 * SECOND
        assert "NOT_PLACED" not in await v.states()
        await v.pass_time(1_800)
        await v.reconcile()
        assert (await v.over())["state"] == "DONE"


async def test_s14_called_absent_it_is_found_by_the_ghost_watch_with_an_alarm(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(2_400)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            assert (await v.over())["state"] == "NOT_PLACED"
        v.clock.advance(2_400 * SECOND)
        run = await v.reconcile()
        order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert [found["severity"] for found in run["findings"] if found["subject"] == "O1"] == ["critical"]


async def test_s14_placed_by_its_answer_and_shown_late_it_is_never_called_missing(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(60)
        await v.buy()
        await v.state(1, "WORKING")
        async with v.time_runs(tick=SECOND // 4):
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert "NEEDS_OPERATOR" not in await v.states()


@pytest.mark.parametrize("fault", [Reply.STATUS, *also(Reply.RESET, Reply.HTML)])
async def test_s15_lookups_that_fail_for_ten_minutes_count_as_nothing(tmp_path: Path, fault: Reply) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.RESET)
        for name in LOOKS:
            v.fault(name, fault, times=None, status=500)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.pass_time(600)
        assert (await v.desk.order(1))["state"] == "AMBIGUOUS"
        assert "absent" not in await v.evidence()
        v.plan.clear()
        async with v.time_runs():
            assert (await v.over())["state"] == "DONE"


async def test_s15_lookups_that_never_come_back_end_with_a_person(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        v.fault("submit", Reply.RESET, Taken.NEVER)
        for name in LOOKS:
            v.fault(name, Reply.STATUS, times=None, status=500)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "NEEDS_OPERATOR"
        assert "absent" not in await v.evidence()
        v.plan.clear()


async def test_s16_a_strangers_order_is_no_evidence_and_is_never_adopted(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.RESET)
        v.fault("find", Reply.STRANGER, times=6)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "DONE"
        assert order["broker_order_id"] == (await v.at_exchange())[0]["id"]


async def test_s16_with_strangers_alone_nothing_is_concluded(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        v.fault("submit", Reply.RESET, Taken.NEVER)
        v.fault("find", Reply.STRANGER, times=None)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "NEEDS_OPERATOR"
        assert order["broker_order_id"] is None
        assert "absent" not in await v.evidence()


@pytest.mark.parametrize("id_class", ["B", *also("A")])
async def test_s17_a_second_try_refused_for_money_because_the_first_has_filled(
    tmp_path: Path, id_class: str
) -> None:
    """Each try is proved by itself: the refusal of the second says nothing of the first."""
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class(id_class)) as v:
        v.lags(3_600)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            await v.state(1, "NOT_PLACED")
        refusal = "insufficient buying power"
        v.fault("submit", Reply.STATUS, Taken.NEVER, status=403, code=40310000, message=refusal)
        await v.hand.do("replay", order="O1")
        await v.desk.until("SELECT count(*) FROM attempts WHERE ended_at IS NOT NULL", 2)
        assert (await v.desk.order(1))["state"] == "AMBIGUOUS"
        v.rules.lag.clear()
        async with v.time_runs():
            assert (await v.over())["state"] == "DONE"
        assert len(await v.at_exchange()) == 1


async def test_s35_an_order_that_one_address_does_not_know_is_found_at_another(tmp_path: Path) -> None:
    """As conditional orders with their own endpoint: no lookup by id finds them, the list of open ones."""
    async with venue(tmp_path) as v:
        v.lags(10_000, "find", "order")
        v.fault("submit", Reply.RESET)
        await v.buy(type="stop", stop_price="110")
        await v.state(1, "AMBIGUOUS")
        began = v.clock.now()
        async with v.time_runs():
            order = await v.state(1, "WORKING")
        assert v.clock.now() - began < 900 * SECOND
        assert order["broker_order_id"] == (await v.at_exchange())[0]["id"]
        assert "NOT_PLACED" not in await v.states()


@pytest.mark.parametrize("id_class", ["B", "E"])
async def test_s36_two_replicas_send_the_same_intent(tmp_path: Path, id_class: str) -> None:
    """Two homes, one account, one signal, no shared claims: the id is the last fence, where it is one."""
    facts = of_class(id_class)
    body: dict[str, Any] = {"action": "buy", "quantity": "10", "key": "signal-20260302-000117"}
    async with venue(tmp_path, Rules(filling="in_reply"), facts=facts) as v:
        first = v.plan.hold("submit", taken=Taken.LATE)
        shared = {"exchange": v.exchange, "clock": v.clock, "facts": facts, "judged": False}
        async with venue(tmp_path, home="other", **shared) as other:  # type: ignore[arg-type]
            await v.deliver(**body)
            await first.arrived.wait()
            await other.deliver(**body)
            await other.over()
            first.release()
            await v.over()
            assert await v.cid() == await other.cid()
            count = len(await v.at_exchange())
            assert count == (1 if id_class == "B" else 2)
        if id_class == "B":
            assert (await v.over())["state"] in ("DONE", "NEEDS_OPERATOR")
            v.expected = ["SENT_AGAIN"]
            return
        v.expected, v.tolerated = ["DOUBLED", "SENT_AGAIN"], ["FILLS"]
        run = await v.reconcile()
        found = [(one["severity"], one["kind"]) for one in run["findings"]]
        assert ("critical", "conflict") in found or (await v.desk.order(1))["reason"].startswith("DOUBLE")


async def test_s38_a_person_says_not_placed_and_it_is_found_an_hour_later(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("E")) as v:
        v.lags(4_800)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            await v.state(1, "NEEDS_OPERATOR")
        await v.hand.do("resolve", order="O1", answer="not_placed", why="I see none")
        assert (await v.desk.order(1))["state"] == "NOT_PLACED"
        v.clock.advance(4_800 * SECOND)
        run = await v.reconcile()
        assert (await v.over())["state"] == "DONE"
        assert "critical" in [found["severity"] for found in run["findings"]]
        said = await v.desk.reader.rows("SELECT what FROM v_events WHERE detail LIKE '%I see none%'")
        assert said, "the audit trail keeps what the person said"
        assert "critical" in [severity for severity, _, subject in await v.needs() if subject == "O1"]


async def test_s39_the_same_key_twice_at_once_while_its_order_is_in_doubt(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.RESET)
        look = v.plan.hold("find")
        body: dict[str, Any] = {"action": "buy", "quantity": "10", "key": "signal-20260302-000117"}
        await v.deliver(**body)
        await v.state(1, "AMBIGUOUS")
        verdicts = await asyncio.gather(*(v.desk.deliver(**body) for _ in range(2)))
        assert [verdict.kind for verdict in verdicts] == ["duplicate", "duplicate"]
        look.release()
        await v.over()
        assert (len(await v.desk.orders()), await v.posts()) == (1, 1)


async def test_two_orders_under_one_id_are_a_persons(tmp_path: Path) -> None:
    """Facts 4.3: what no venue should do. Which of the two is ours nobody can tell."""
    async with venue(tmp_path, Rules(filling="by_hand"), config=CONFIG) as v:
        v.fault("submit", Reply.RESET)
        look = v.plan.hold("find")
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.exchange.ask(Book.twin, await v.cid())
        look.release()
        async with v.time_runs():
            await v.desk.until("SELECT state IN ('WORKING', 'NEEDS_OPERATOR') FROM orders WHERE id = 1", 1)
        run = await v.reconcile()
        assert "critical" in [found["severity"] for found in run["findings"]]
