"""Scenarios 18 to 20, 24 to 27 and 33 of facts section 5: what becomes of an order that the venue has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.clock import SECOND
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.kit import Venue, also, venue

BY_HAND = "by_hand"


async def _working(v: Venue, **fields: str) -> str:
    """O1 rests at the venue; its client order id."""
    await v.buy(**fields)
    await v.state(1, "WORKING")
    return await v.cid()


async def test_s18_partly_filled_then_cut_off_and_the_rest_cancelled_by_the_venue(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        v.fault("submit", Reply.RESET)
        look = v.plan.hold("find")
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        cid = await v.cid()
        await v.exchange.ask(Book.fill, cid, "4")
        await v.exchange.ask(Book.end, cid, "canceled")
        look.release()
        order = await v.over()
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Canceled", "4")
        fills = await v.desk.reader.rows("SELECT exec_id FROM fills")
        assert len(fills) == 1


async def test_s19_fills_twice_out_of_order_and_after_the_cancel(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        v.fault("fills", Reply.DOUBLED, times=None)
        cid = await _working(v)
        cumulated = ["0"]
        for step in ("3", "3"):
            await v.exchange.ask(Book.fill, cid, step)
            wanted = str(int(cumulated[-1]) + int(step))
            await v.desk.until("SELECT filled_quantity FROM orders WHERE id = 1", wanted)
            cumulated.append(wanted)
        await v.exchange.ask(Book.end, cid, "canceled")
        order = await v.over()
        assert (order["ord_status"], order["filled_quantity"]) == ("Canceled", "6")
        await v.exchange.ask(Book.fill, cid, "4")
        await v.reconcile()
        order = await v.desk.order(1)
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "10")
        assert len(await v.desk.reader.rows("SELECT exec_id FROM fills")) == 3


async def test_s20_cancel_race_the_fill_comes_first(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        cancel = v.plan.hold("cancel", taken=Taken.LATE)
        await _working(v, type="limit", limit_price="95")
        await v.deliver(action="cancel")
        await cancel.arrived.wait()
        await v.exchange.ask(Book.set_price, "AAPL", "94")
        cancel.release()
        order = await v.over()
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "10")
        rows = await v.exchange.rows("SELECT outcome FROM requests WHERE endpoint = 'cancel'")
        assert rows[0]["outcome"] == 'refused order is already in "filled" state'
        await v.ended()


@pytest.mark.parametrize("taken", [Taken.BEFORE_REPLY, Taken.NEVER])
async def test_s20_the_answer_to_the_cancel_is_lost(tmp_path: Path, taken: Taken) -> None:
    async with venue(tmp_path) as v:
        v.fault("cancel", Reply.RESET, taken)
        await _working(v, type="limit", limit_price="95")
        await v.deliver(action="cancel")
        async with v.time_runs():
            order = await v.over()
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Canceled", "0")
        await v.ended()


async def test_s24_throttled_on_create_it_waits_and_is_sent_once(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault(
            "submit", Reply.STATUS, Taken.NEVER, status=429, message="too many requests.", retry_after="10"
        )
        await v.buy()
        await v.desk.until("SELECT count(*) >= 1 FROM attempts WHERE ended_at IS NOT NULL", 1)
        async with v.time_runs(tick=SECOND // 4):
            order = await v.over()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        first, second = await v.exchange.rows("SELECT at FROM requests ORDER BY number")
        assert second["at"] - first["at"] >= 10 * SECOND
        assert (await v.posts(), len(await v.at_exchange())) == (2, 1)
        assert "AMBIGUOUS" not in await v.states()


async def test_s24_throttled_for_too_long_it_is_not_sent_any_more(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault(
            "submit", Reply.STATUS, Taken.NEVER, status=429, message="too many requests.", retry_after="90"
        )
        await v.buy()
        await v.desk.until("SELECT count(*) >= 1 FROM attempts WHERE ended_at IS NOT NULL", 1)
        async with v.time_runs():
            order = await v.over()
        assert order["state"] in ("DENIED", "NOT_PLACED")
        assert (await v.posts(), await v.at_exchange()) == (1, [])


async def test_s24_throttled_looks_are_a_pause_and_count_as_nothing(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.fault("submit", Reply.RESET)
        v.fault("find", Reply.STATUS, Taken.NEVER, status=429, message="too many requests.", retry_after="30")
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.desk.until_logged("looks pause")
        calls = sum(v.plan.calls.values())
        v.clock.advance(20 * SECOND)
        assert (await v.desk.order(1))["state"] == "AMBIGUOUS"
        assert sum(v.plan.calls.values()) == calls, "asked again although the venue wants to be left alone"
        assert await v.evidence() == []
        async with v.time_runs():
            assert (await v.over())["state"] == "DONE"


@pytest.mark.parametrize("skew", [-1, *also(1)])
async def test_s25_a_clock_that_differs_by_a_second_changes_nothing(tmp_path: Path, skew: int) -> None:
    async with venue(tmp_path, Rules(filling="in_reply", skew=skew * SECOND)) as v:
        v.fault("submit", Reply.RESET)
        await v.buy()
        assert (await v.over())["state"] == "DONE"
        run = await v.reconcile()
        assert json.loads(run["report"])["clock_offset_ms"] in range(skew * 1_000 - 100, skew * 1_000 + 100)


@pytest.mark.parametrize("skew", [10, *also(-10)])
async def test_s25_a_clock_that_differs_by_ten_seconds_blocks_entries_and_says_so(
    tmp_path: Path, skew: int
) -> None:
    async with venue(tmp_path, Rules(filling="in_reply", skew=skew * SECOND), ready=False) as v:
        assert "clock" in await v.word("exits_only")
        await v.buy()
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "DENIED"
        assert await v.at_exchange() == []


@pytest.mark.parametrize("skew", [-10, *also(10)])
async def test_s25_an_order_in_doubt_is_found_whatever_the_clocks_say(tmp_path: Path, skew: int) -> None:
    """The venue's clock goes wrong as the order arrives: its times are not ours, and that is no collision."""
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        arrives = v.plan.hold("submit", reply=Reply.RESET, taken=Taken.LATE)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        v.rules.skew = skew * SECOND
        arrives.release()
        async with v.time_runs():
            order = await v.over()
        assert order["state"] == "DONE"
        assert len(await v.at_exchange()) == 1


@pytest.mark.parametrize("type_", ["limit", *also("market")])
async def test_s26_expired_is_neither_rejected_nor_absent(tmp_path: Path, type_: str) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        price = {"limit_price": "95"} if type_ == "limit" else {}
        await _working(v, type=type_, **price)
        await v.exchange.ask(Book.end_of_day)
        order = await v.over()
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Expired", "0")


async def test_s27_accepted_and_then_rejected(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        cid = await _working(v)
        await v.exchange.ask(Book.end, cid, "rejected")
        order = await v.over()
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Rejected", "0")


async def test_s33_a_venue_that_forgets_its_numbers_mixes_nothing_up(tmp_path: Path) -> None:
    """IB's gateway begins to count anew: our id decides, a number that was used before proves nothing."""
    async with venue(tmp_path, Rules(filling="in_reply", counts_ids=True)) as v:
        first = await v.filled("10")
        assert first["broker_order_id"] == "1"
        await v.exchange.stop()
        await v.exchange.start()
        await v.buy("5")
        second = await v.over(2)
        assert (await v.at_exchange())[1]["id"] == "1"
        assert second["state"] in ("DONE", "NEEDS_OPERATOR")
        again = await v.desk.order(1)
        assert (again["state"], again["filled_quantity"]) == ("DONE", "10")
        fills = await v.desk.reader.rows("SELECT quantity FROM fills WHERE order_id = 1")
        assert [fill["quantity"] for fill in fills] == ["10"]
