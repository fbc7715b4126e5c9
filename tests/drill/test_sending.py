"""Scenarios 1 to 13 of facts section 5: what becomes of an order between our send and the venue's answer."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from app.brokers.alpaca_wire import CODES
from app.brokers.classify import Rule
from app.clock import SECOND
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.kit import Venue, also, of_class, venue

NO_ANSWERS = [Reply.TRUNCATED, Reply.HTML, Reply.EMPTY, Reply.NAMELESS, Reply.STRANGER]
LOST = [Reply.RESET, *also(Reply.CLOSED)]


async def test_s01_a_market_order_that_fills_in_the_reply(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        order = await v.filled("10")
        assert (order["filled_quantity"], order["average_price"]) == ("10", "100")
        assert await v.states() == ["SUBMITTING", "WORKING", "DONE"]
        assert (await v.posts(), await v.position()) == (1, "10")


@pytest.mark.parametrize("reply", LOST)
async def test_s02_response_lost_after_fill(tmp_path: Path, reply: Reply) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", reply)
        look = v.plan.hold("find")
        await v.buy(key="signal-20260302-000117")
        await v.state(1, "AMBIGUOUS")
        again = await v.desk.deliver(action="buy", quantity="10", key="signal-20260302-000117")
        assert (again.kind, again.claim_id) == ("duplicate", 1)
        look.release()
        order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert (await v.posts(), len(await v.desk.orders())) == (1, 1)


@pytest.mark.parametrize(
    ("id_class", "state"),
    [("B", "NOT_PLACED"), ("E", "NEEDS_OPERATOR"), *also(("A", "NOT_PLACED"), ("C", "NEEDS_OPERATOR"))],
)
async def test_s03_request_lost_before_arrival(tmp_path: Path, id_class: str, state: str) -> None:
    """H35: weak proof ends by itself only where a replay is no double; elsewhere with a person."""
    async with venue(tmp_path, facts=of_class(id_class)) as v:
        v.fault("submit", Reply.RESET, Taken.NEVER)
        began = v.clock.now()
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == state
        assert v.clock.now() - began >= 300 * SECOND
        assert (await v.evidence()).count("absent") >= 3
        assert (await v.posts(), await v.at_exchange()) == (1, [])
        if state == "NOT_PLACED":
            assert order["reason"] == "CONFIRMED_ABSENT"


@pytest.mark.parametrize("comes_back", [True, False])
async def test_s04_connection_refused_is_never_in_doubt(tmp_path: Path, comes_back: bool) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        # The last look before the send still gets through; the send finds nobody.
        view = v.plan.hold("trade")
        await v.buy()
        await view.arrived.wait()
        await v.exchange.refuse()
        view.release()
        await v.desk.until("SELECT count(*) >= 1 FROM attempts WHERE bytes_left = 0", 1)
        if comes_back:
            await v.exchange.listen()
            # What was held off is tried again after a moment.
            async with v.time_runs(tick=SECOND // 4):
                order = await v.over()
            assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
            assert len(await v.at_exchange()) == 1
        else:
            v.clock.advance(61 * SECOND)
            order = await v.over()
            assert order["state"] in ("DENIED", "NOT_PLACED")
            assert await v.at_exchange() == []
        assert "AMBIGUOUS" not in await v.states()


@pytest.mark.parametrize("status", [504, *also(500, 502, 503)])
async def test_s05_a_gateways_error_after_the_order_was_accepted(tmp_path: Path, status: int) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.STATUS, status=status)
        await v.buy()
        order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert "AMBIGUOUS" in await v.states()
        assert await v.posts() == 1


async def test_s06_an_error_that_is_a_refusal_is_believed_and_starts_no_search(tmp_path: Path) -> None:
    """Binance USD-M's 503 "Service Unavailable." says that nothing was done."""
    certain = Rule(message=r"^Service Unavailable\.$", statuses=(503,))
    async with venue(tmp_path, codes=replace(CODES, refused=(*CODES.refused, certain))) as v:
        message = "Service Unavailable."
        v.fault("submit", Reply.STATUS, Taken.NEVER, status=503, code=-1, message=message)
        finds = v.plan.calls.get("find", 0)
        await v.buy()
        order = await v.over()
        assert order["state"] == "NOT_PLACED"
        assert order["reason"].startswith("REFUSED")
        assert v.plan.calls.get("find", 0) == finds
        assert await v.posts() == 1


async def test_s07_time_out_at_the_venue_and_the_order_shows_up_20_s_later(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(20)
        v.fault("submit", Reply.STATUS, status=408, code=-1007, message="Timeout waiting for response")
        began = v.clock.now()
        await v.buy()
        await v.looked_in_vain()
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert v.clock.now() - began >= 20 * SECOND
        assert "NOT_PLACED" not in await v.states()


@pytest.mark.parametrize(
    ("reply", "taken"),
    [
        (Reply.TRUNCATED, Taken.BEFORE_REPLY),
        (Reply.HTML, Taken.NEVER),
        (Reply.NAMELESS, Taken.BEFORE_REPLY),
        (Reply.STRANGER, Taken.BEFORE_REPLY),
        *also(*itertools.product(NO_ANSWERS, [Taken.BEFORE_REPLY, Taken.NEVER])),
    ],
)
async def test_s08_an_answer_that_is_none_is_neither_success_nor_refusal(
    tmp_path: Path, reply: Reply, taken: Taken
) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", reply, taken, status=200)
        await v.buy()
        if taken is Taken.NEVER:
            await v.state(1, "AMBIGUOUS")
            async with v.time_runs():
                await v.over()
        order = await v.over()
        assert (await v.states())[:2] == ["SUBMITTING", "AMBIGUOUS"]
        assert order["state"] == ("NOT_PLACED" if taken is Taken.NEVER else "DONE")
        assert await v.posts() == 1


async def test_s09_accepted_after_the_sender_gave_up_waiting(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        arrives = v.plan.hold("submit", taken=Taken.LATE)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.looked_in_vain()
        await v.pass_time(30)
        assert (await v.desk.order(1))["state"] == "AMBIGUOUS"
        arrives.release()
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert await v.posts() == 1


async def test_s10_with_an_arrival_bound_the_late_copy_is_refused_and_absence_is_proved(
    tmp_path: Path,
) -> None:
    """Class C, where without the bound a person would have to decide (scenario 3)."""
    facts = replace(of_class("C"), arrival_deadline_field="expires_at")
    async with venue(tmp_path, Rules(filling="in_reply"), facts=facts) as v:
        arrives = v.plan.hold("submit", reply=Reply.RESET, taken=Taken.LATE)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["reason"]) == ("NOT_PLACED", "CONFIRMED_ABSENT")
        arrives.release()
        await v.exchange.settle()
        assert await v.at_exchange() == []
        (request,) = await v.exchange.rows("SELECT outcome FROM requests")
        assert request["outcome"] == "refused request expired before it arrived"


async def _called_absent_and_sent_again(v: Venue, lag: int) -> None:
    """O1 landed and is shown nowhere for `lag` seconds; it is called absent, and a person replays it."""
    v.lags(lag)
    v.fault("submit", Reply.RESET)
    await v.buy()
    await v.state(1, "AMBIGUOUS")
    async with v.time_runs():
        await v.state(1, "NOT_PLACED")
    assert len(await v.at_exchange()) == 1


async def test_s11_refused_as_a_duplicate_because_the_first_try_had_landed(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await _called_absent_and_sent_again(v, lag=3_600)
        v.rules.lag.clear()
        # The look before the replay would find it; what is replayed here is what no look has shown yet.
        v.lags(3_600)
        await v.hand.do("replay", order="O1")
        await v.state(1, "AMBIGUOUS")
        v.rules.lag.clear()
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert (await v.posts(), len(await v.at_exchange())) == (2, 1)
        replies = await v.desk.reader.rows("SELECT reply FROM attempts ORDER BY number")
        assert "client_order_id must be unique" in replies[1]["reply"]


async def test_s12_refused_as_a_duplicate_and_the_lookup_lags_60_s(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await _called_absent_and_sent_again(v, lag=3_600)
        await v.hand.do("replay", order="O1")
        await v.state(1, "AMBIGUOUS")
        sent = v.clock.now()
        created = (await v.at_exchange())[0]["created_ns"] // 1_000
        v.lags((sent - created) // SECOND + 60)
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "DONE"
        assert v.clock.now() - sent >= 60 * SECOND
        assert (await v.states())[-2:] == ["WORKING", "DONE"]
        assert len(await v.at_exchange()) == 1
