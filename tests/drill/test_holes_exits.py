"""H1, H4, H5, H6 at a venue: exits behind lookup lag, partial fills, held quantities, hands in between."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.clock import SECOND
from app.drill.book import Book
from app.drill.faults import Reply, Taken
from app.drill.rules import Rules
from tests.drill.exchange_kit import NUMBER
from tests.drill.kit import CONFIG, Venue, venue

SHORTS = CONFIG.replace('broker = "paper"', 'broker = "paper"\nallow_short = true')


async def test_h1_an_exit_inside_the_lookup_lag_closes_what_is_shown_later(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(60)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        v.clock.advance(3 * SECOND)
        await v.exit()
        await v.desk.waits(2, "WAITING_FOR_O1")
        assert "O2" in [subject for _, _, subject in await v.needs()]
        async with v.time_runs():
            entry, exit_ = await v.ended()
        assert (entry["ord_status"], exit_["ord_status"], exit_["quantity"]) == ("Filled", "Filled", "10")
        assert [row["side"] for row in await v.at_exchange()] == ["buy", "sell"]
        assert await v.position() == "0"


async def test_h1_an_exit_behind_an_entry_that_proves_absent_has_nothing_to_do(tmp_path: Path) -> None:
    async with venue(tmp_path) as v:
        v.fault("submit", Reply.RESET, Taken.NEVER)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.exit()
        async with v.time_runs():
            entry, exit_ = await v.ended()
        assert entry["state"] == "NOT_PLACED"
        assert exit_["reason"].startswith("NOTHING_TO_DO")
        assert await v.at_exchange() == []


async def test_h1_a_ghost_opens_the_exit_again_that_had_nothing_to_do(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        v.lags(1_800)
        v.fault("submit", Reply.RESET)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        await v.exit()
        async with v.time_runs():
            await v.ended()
        v.clock.advance(1_800 * SECOND)
        v.rules.lag.clear()
        await v.reconcile()
        await v.desk.until("SELECT count(*) FROM orders WHERE purpose = 'exit' AND ord_status = 'Filled'", 1)
        await v.ended()
        assert await v.position() == "0"


async def test_h4_three_filled_seven_more_during_the_cancel(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        await v.buy(type="limit", limit_price="100")
        await v.state(1, "WORKING")
        cid = await v.cid()
        await v.exchange.ask(Book.fill, cid, "3")
        await v.desk.until("SELECT filled_quantity FROM orders WHERE id = 1", "3")
        cancel = v.plan.hold("cancel", taken=Taken.LATE)
        await v.exit()
        await cancel.arrived.wait()
        await v.exchange.ask(Book.fill, cid, "7")
        v.rules.filling = "in_reply"
        cancel.release()
        entry, exit_ = await v.ended()
        assert (entry["ord_status"], exit_["quantity"], exit_["ord_status"]) == ("Filled", "10", "Filled")
        assert await v.position() == "0"


async def test_h4_three_filled_seven_more_after_the_exits_read(tmp_path: Path) -> None:
    """The rest fills after the cancel, while the exit of 3 is on its way: a next leg closes it."""
    async with venue(tmp_path, Rules(filling="by_hand")) as v:
        await v.buy(type="limit", limit_price="100")
        await v.state(1, "WORKING")
        cid = await v.cid()
        await v.exchange.ask(Book.fill, cid, "3")
        await v.desk.until("SELECT filled_quantity FROM orders WHERE id = 1", "3")
        v.rules.filling = "in_reply"
        send = v.plan.hold("submit", taken=Taken.LATE)
        await v.exit()
        await send.arrived.wait()
        assert (await v.desk.order(1))["ord_status"] == "Canceled"
        assert (await v.desk.order(2))["quantity"] == "3"
        await v.exchange.ask(Book.fill, cid, "7")
        send.release()
        await v.over(2)
        await v.reconcile()
        await v.desk.until("SELECT count(*) FROM orders WHERE purpose = 'exit' AND ord_status = 'Filled'", 2)
        await v.ended()
        assert await v.position() == "0"
        assert await v.desk.book() == 0


async def test_h5_our_own_stop_gives_way_before_the_exit(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.filled("10")
        await v.sell("10", type="stop", stop_price="90")
        await v.state(2, "WORKING")
        await v.exit()
        orders = await v.ended()
        assert [(order["ord_status"], order["filled_quantity"]) for order in orders[1:]] == [
            ("Canceled", "0"),
            ("Filled", "10"),
        ]
        assert await v.position() == "0"


async def test_h5_an_exit_refused_over_a_hands_stop_stands_first_in_needs_you(tmp_path: Path) -> None:
    async with venue(tmp_path, Rules(filling="in_reply")) as v:
        await v.filled("10")
        await v.by_hand("sell", "10", type="stop", stop_price="90")
        await v.exit()
        order = await v.over(2)
        assert order["state"] in ("NOT_PLACED", "DENIED")
        (severity, _, subject), *_ = await v.needs()
        assert (severity, subject) == ("critical", "O2")
        assert await v.position() == "10"


async def test_h5_closed_by_hand_between_the_read_and_the_send_is_a_flip_and_critical(tmp_path: Path) -> None:
    """No reduce-only at this venue: the sell opens a short, and that is said at once."""
    async with venue(tmp_path, Rules(filling="in_reply"), config=SHORTS) as v:
        await v.filled("10")
        send = v.plan.hold("submit", taken=Taken.LATE)
        await v.exit()
        await send.arrived.wait()
        await v.by_hand("sell", "10")
        send.release()
        async with v.time_runs():
            await v.ended()
        assert await v.position() == "-10"
        await v.reconcile()
        await v.reconcile()
        assert "critical" in [severity for severity, _, _ in await v.needs()]


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("target"), st.sampled_from([-5, 0, 5, 10])),
        st.tuples(st.just("fill"), st.integers(1, 5)),
        st.tuples(st.just("time"), st.integers(1, 20)),
        st.tuples(st.just("lag"), st.sampled_from([0, 2, 4])),
    ),
    min_size=3,
    max_size=8,
)


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_h6_over_random_delays_no_book_exceeds_the_largest_target(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    await _no_book_exceeds_its_largest_target(tmp_path_factory.mktemp("h6"), steps)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
async def test_h6_over_many_random_delays(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    await _no_book_exceeds_its_largest_target(tmp_path_factory.mktemp("h6"), steps)


async def _no_book_exceeds_its_largest_target(folder: Path, steps: list[Step]) -> None:
    async with venue(folder, Rules(filling="by_hand"), config=SHORTS) as v:
        largest = 0
        for what, number in steps:
            if what == "target":
                largest = max(largest, abs(number))
                side = "long" if number > 0 else "short" if number < 0 else "flat"
                await v.desk.deliver(
                    action="buy" if number >= 0 else "sell",
                    market_position=side,
                    position_size=str(number),
                )
            elif what == "fill":
                await _fill_some(v, number)
            elif what == "lag":
                v.rules.lag["positions"] = number * SECOND
            else:
                await v.pass_time(number)
            held = abs(Decimal(await v.position()))
            assert held <= largest, (steps, what, number)
        v.rules.lag.clear()
        v.rules.filling = "in_reply"
        for _ in range(20):
            await _fill_some(v, 100)
            await v.pass_time(10)
            assert abs(Decimal(await v.position())) <= largest, steps
            waiting = "SELECT 1 FROM orders WHERE state IN ('PENDING', 'SUBMITTING', 'AMBIGUOUS', 'WORKING')"
            if not await v.desk.reader.rows(waiting):
                break


async def _fill_some(v: Venue, most: int) -> None:
    """The oldest order that is open at the venue fills by at most so much."""
    sql = "SELECT client_order_id, qty, filled_qty FROM orders WHERE status IN ('new', 'partially_filled')"
    rows = await v.exchange.rows(f"{sql} AND account = ? ORDER BY seq LIMIT 1", NUMBER)
    for row in rows:
        left = Decimal(row["qty"]) - Decimal(row["filled_qty"])
        await v.exchange.ask(Book.fill, row["client_order_id"], str(min(left, Decimal(most))))
