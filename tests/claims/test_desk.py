"""Claims with lanes and exchange behind them: an order exactly where a sender was told 200 (H17)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.claims import ledger_store
from app.claims.admission import admit
from app.claims.base import Verdict
from app.clock import SECOND
from app.ledger.errors import TicketLate
from app.ledger.ticket import Ticket
from tests.execution import kit
from tests.execution.kit import CONFIG, Desk, desk

MANY = CONFIG + "\n[risk]\nmax_orders_per_minute = 0\n"


async def deliver_late(d: Desk, **fields: Any) -> None:
    """The door's deadline passes between the claim's transaction and the end of its COMMIT."""
    ticket = Ticket()

    def admit_and_be_late(*arguments: Any) -> Verdict:
        verdict = admit(*arguments)
        ticket.expire()
        return verdict

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit, "Ticket", lambda: ticket)
        patch.setattr(ledger_store, "admit", admit_and_be_late)
        with pytest.raises(TicketLate) as late:
            await d.deliver(**fields)
    assert late.value.ran


async def test_a_hundred_equal_deliveries_among_two_hundred_others_are_one_order_each(tmp_path: Path) -> None:
    async with desk(tmp_path, MANY) as d:
        order: dict[str, Any] = {"action": "buy", "quantity": "1", "price": "1"}
        works = [d.deliver(key=f"k{number}", **order) for number in range(200)]
        for place in range(100):
            works.insert(place * 3, d.deliver(key="same-1", **order))
        verdicts = await asyncio.gather(*works)
        assert Counter(verdict.kind for verdict in verdicts) == {"accepted": 201, "duplicate": 99}
        orders = await d.settled()
        assert Counter((row["state"], row["ord_status"]) for row in orders) == {("DONE", "Filled"): 201}
        ours = {row["client_order_id"] for row in orders}
        assert ours == {row["client_order_id"] for row in d.paper_orders()}
        assert len(ours) == len(d.paper_orders()) == 201
        again = await d.deliver(key="same-1", **order)
        assert (again.kind, again.deliveries) == ("duplicate", 101)
        assert again.outcome is not None
        assert again.outcome["orders"][0]["filled_quantity"] == "1"


async def test_h17_no_lane_takes_what_was_answered_503_and_the_resend_is_one_order(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await deliver_late(d, key="k1", action="buy", quantity="1")
        await d.waits(1, "WAITING_FOR_RESEND")
        assert d.paper_orders() == []
        d.clock.advance(5 * SECOND)
        verdicts = await asyncio.gather(*(d.deliver(key="k1", action="buy", quantity="1") for _ in range(2)))
        assert sorted(verdict.kind for verdict in verdicts) == ["accepted", "duplicate"]
        (order,) = await d.settled()
        assert (order["state"], order["generation"]) == ("DONE", 1)
        assert len(d.paper_orders()) == 1


async def test_h17_without_a_resend_nothing_is_ever_placed(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await deliver_late(d, key="k1", action="exit")
        await d.waits(1, "WAITING_FOR_RESEND")
        d.clock.advance(61 * SECOND)
        (order,) = await d.settled()
        assert (order["state"], order["reason"].split()[0]) == ("DENIED", "STALE")
        assert d.paper_orders() == []


async def test_h17_a_resend_after_the_denial_is_a_new_generation_and_one_order(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await deliver_late(d, key="k1", action="buy", quantity="1")
        d.clock.advance(61 * SECOND)
        await d.state(1, "DENIED")
        verdict = await d.deliver(key="k1", action="buy", quantity="1")
        assert verdict.kind == "accepted"
        denied, placed = await d.settled()
        assert (denied["state"], placed["state"]) == ("DENIED", "DONE")
        assert (placed["generation"], placed["signal"]) == (2, "S1")
        assert len(d.paper_orders()) == 1
        assert (await d.deliver(key="k1", action="buy", quantity="1")).kind == "duplicate"


async def test_h12_each_window_has_an_order_id_of_its_own(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        for _ in range(3):
            await d.trade(key=None, action="buy", quantity="1")
            assert (await d.deliver(key=None, action="buy", quantity="1")).kind == "duplicate"
            d.clock.advance(46 * SECOND)
        assert len({row["client_order_id"] for row in d.paper_orders()}) == 3


async def test_h16_entry_and_exit_of_one_bar_under_one_key(tmp_path: Path) -> None:
    config = CONFIG.replace('accounts = ["paper"]', 'accounts = ["paper"]\non_conflict = "admit_exits"', 1)
    async with desk(tmp_path, config) as d:
        await d.trade(key="AAPL-1530", action="buy", quantity="3")
        order = await d.trade(key="AAPL-1530", action="exit")
        assert (order["side"], order["quantity"], order["signal"]) == ("sell", "3", "S2")
        again = await d.deliver(key="AAPL-1530", action="exit")
        assert (again.kind, again.claim_id) == ("duplicate", 2)
        assert await d.book() == 0
        assert len(d.paper_orders()) == 2


async def test_several_accounts_are_one_leg_each(tmp_path: Path) -> None:
    config = (
        CONFIG.replace('["paper"]', '["paper", "second"]')
        + '\n[[accounts]]\nname = "second"\nbroker = "paper"\n'
    )
    async with desk(tmp_path, config) as d:
        verdict = await d.deliver(key="k1", action="buy", quantity="1")
        orders = await d.settled(verdict)
        assert [(row["account"], row["leg"], row["state"]) for row in orders] == [
            ("paper", 1, "DONE"), ("second", 1, "DONE"),
        ]  # fmt: skip
        assert sorted(row["account"] for row in d.paper_orders()) == ["paper", "second"]
        assert (await d.deliver(key="k1", action="buy", quantity="1")).deliveries == 2
