"""Faults of a paper account by setting, through the whole of trading (CONTRACT 4, `faults`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.brokers.base import Broker
from app.brokers.paper_faults import PaperFaults
from app.clock import SECOND
from app.settings.faults import by_order
from tests.execution.kit import CONFIG, Desk, desk


def by_setting(broker: Broker, *faults: str) -> Broker:
    return PaperFaults(broker, faults)


async def evidence(d: Desk) -> list[str]:
    return [row["result"] for row in await d.reader.rows("SELECT result FROM evidence ORDER BY id")]


async def test_h35_an_order_lost_before_it_got_there_is_not_placed_and_not_sent_again(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, "reply_lost_before")) as d:
        await d.ready()
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["reason"]) == ("NOT_PLACED", "CONFIRMED_ABSENT")
        assert d.paper_orders() == []
        assert (await d.trade(action="buy", quantity="10"))["state"] == "DONE"


async def test_h34_an_order_whose_reply_was_lost_is_found(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, "reply_lost_after*2")) as d:
        await d.ready()
        for number in (1, 2, 3):
            order = await d.trade(action="buy", quantity="1")
            assert (order["state"], order["filled_quantity"]) == ("DONE", "1")
            assert len(d.paper_orders()) == number
        assert await evidence(d) == ["found", "found"]


async def test_lookups_that_fail_leave_the_order_in_doubt_until_they_work(tmp_path: Path) -> None:
    faults = ("reply_lost_after", "lookups_fail:3")
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, *faults)) as d:
        await d.ready()
        order = await d.trade(action="buy", quantity="10")
        assert order["state"] == "DONE"
        assert await evidence(d) == ["failed", "failed", "failed", "found"]
        assert len(d.paper_orders()) == 1


async def test_h35_absence_is_not_concluded_from_looks_that_lag(tmp_path: Path) -> None:
    faults = ("reply_lost_after", "lookup_lag:2")
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, *faults)) as d:
        await d.ready()
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        assert set(await evidence(d)) == {"absent", "found"}
        assert len(d.paper_orders()) == 1


async def test_h35_where_looks_lag_an_order_that_was_lost_is_not_called_absent_at_once(
    tmp_path: Path,
) -> None:
    faults = ("reply_lost_before", "lookup_lag:2")
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, *faults)) as d:
        await d.ready()
        await d.deliver(action="buy", quantity="10")
        for number, seconds in ((1, 0), (2, 150), (3, 150)):
            d.clock.advance(seconds * SECOND)
            assert (await d.order(1))["state"] in ("PENDING", "SUBMITTING", "AMBIGUOUS")
            await d.until(f"SELECT count(*) >= {number} FROM evidence WHERE result = 'absent'", 1)
        assert (await d.state(1, "NOT_PLACED"))["reason"] == "CONFIRMED_ABSENT"


async def test_a_refusal_by_setting_is_a_refusal(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, "reject:INSUFFICIENT_FUNDS")) as d:
        await d.ready()
        order = await d.trade(action="buy", quantity="10")
        assert order["state"] == "NOT_PLACED"
        assert order["reason"] == "REFUSED INSUFFICIENT_FUNDS a fault by setting"
        assert d.paper_orders() == []


async def test_a_reply_slower_than_the_timeout_is_a_doubt_and_found(tmp_path: Path) -> None:
    hasty = CONFIG + '[execution]\nrequest_timeout = "50ms"\n'
    async with desk(tmp_path, hasty, wrap=lambda broker: by_setting(broker, "slow_reply:1h")) as d:
        await d.ready()
        order = await d.trade(action="buy", quantity="10")
        assert (order["state"], order["filled_quantity"]) == ("DONE", "10")
        replies = await d.reader.rows("SELECT reply FROM attempts")
        assert ["no reply within" in row["reply"] for row in replies] == [True]


async def test_h30_a_halt_stands_before_every_fault(tmp_path: Path) -> None:
    async with desk(tmp_path, wrap=lambda broker: by_setting(broker, "reject:NO")) as d:
        await d.ready()
        broker = d.trading._sessions["paper"].broker
        held = broker.submit

        async def halt_first(request: object, check: object) -> object:
            await d.halt("halted")
            return await held(request, check)  # type: ignore[arg-type]

        broker.submit = halt_first  # type: ignore[assignment,method-assign]
        order = await d.trade(action="buy", quantity="10")
        assert order["state"] == "DENIED"
        assert order["reason"].startswith("TRADING_HALTED")


@pytest.mark.parametrize(
    ("faults", "plan"),
    [
        ([], []),
        (["reject:A", "reply_lost_after"], [{"reject": "A"}, {"reply_lost_after": ""}]),
        (["lookup_lag:2", "reject:A"], [{"lookup_lag": "2"}, {"reject": "A"}]),
        (["reply_lost_after*2", "lookups_fail:3"], [{"reply_lost_after": "", "lookups_fail": "3"}] * 2),
    ],
)
def test_faults_are_taken_in_the_order_in_which_they_stand(
    faults: list[str], plan: list[dict[str, str]]
) -> None:
    assert by_order(faults) == plan
