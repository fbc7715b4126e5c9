"""Limits on the desk: each stops an entry with its numbers, and lets an exit through (HOLES H10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, Desk, desk

RISK = "[risk]\n"


async def hold_ten(d: Desk) -> None:
    assert (await d.trade(action="buy", quantity="10"))["state"] == "DONE"


LIMITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "symbol": ("SYMBOL_NOT_ALLOWED symbol=MSFT", 'symbols = ["AAPL"]', {"symbol": "MSFT"}),
    "price": ("REFERENCE_PRICE_UNAVAILABLE", "", {"symbol": "MSFT", "price": None}),
    "position": (
        "POSITION_EXCEEDS_CAPITAL_FRACTION projected=5000.1 ceiling=5000 divisor=20",
        "",
        {"quantity": "40.001"},
    ),
    "notional": (
        "NOTIONAL_EXCEEDS_MAX_PER_ORDER notional=1100 limit=1000",
        f'{RISK}max_order_notional = "1000"',
        {"quantity": "11"},
    ),
    "positions": ("MAX_OPEN_POSITIONS open=1 limit=1", f"{RISK}max_open_positions = 1", {"symbol": "MSFT"}),
    "minute": ("RATE_LIMIT_EXCEEDED window=60s sent=1 limit=1", f"{RISK}max_orders_per_minute = 1", {}),
    "day": ("RATE_LIMIT_EXCEEDED window=day sent=1 limit=1", f"{RISK}max_orders_per_day = 1", {}),
    "cooldown": ("COOLDOWN since=0.0s limit=30s", f'{RISK}cooldown = "30s"', {}),
    "minimum": (
        "QUANTITY_BELOW_MINIMUM quantity=0.000000009 minimum=0.00000001",
        "",
        {"quantity": "0.000000009"},
    ),
}


@pytest.mark.parametrize(("reason", "config", "entry"), LIMITS.values(), ids=LIMITS)
async def test_h10_each_limit_stops_the_entry_and_lets_the_exit_through(
    tmp_path: Path, reason: str, config: str, entry: dict[str, Any]
) -> None:
    async with desk(tmp_path, CONFIG + config + "\n") as d:
        await hold_ten(d)
        denied = await d.trade(**{"action": "buy", "quantity": "1", **entry})
        assert (denied["state"], denied["reason"]) == ("DENIED", reason)
        exit_ = await d.trade(action="exit", price=None)
        assert (exit_["state"], exit_["quantity"]) == ("DONE", "10")
        assert len(d.paper_orders()) == 2


async def test_a_position_grown_above_the_ceiling_is_closed_all_the_same(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="50")
        exit_ = await d.trade(action="exit", price="900")
        assert (exit_["state"], exit_["quantity"]) == ("DONE", "50")


async def test_the_ceiling_counts_what_is_in_flight_as_filled(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="30", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        denied = await d.trade(action="buy", quantity="30")
        assert denied["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=6000")


async def test_an_exit_in_flight_gives_no_room_before_it_has_filled(tmp_path: Path) -> None:
    """If it were cancelled, the account would hold both."""
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="40")
        await d.deliver(action="sell", quantity="40", type="limit", limit_price="110")
        await d.state(2, "WORKING")
        denied = await d.trade(action="buy", quantity="20")
        assert denied["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=6000")


async def test_an_account_without_enough_cash_opens_nothing(tmp_path: Path) -> None:
    config = CONFIG + 'cash = "500"\n' + RISK + "position_divisor = 1\n"
    async with desk(tmp_path, config) as d:
        await d.trade(action="buy", quantity="3")
        denied = await d.trade(action="buy", quantity="2", symbol="MSFT", price="150")
        assert denied["reason"] == "INSUFFICIENT_FUNDS needed=300 cash=200"


async def test_a_rate_limit_is_counted_from_the_ledger_so_that_a_restart_resets_nothing(
    tmp_path: Path,
) -> None:
    config = CONFIG + RISK + "max_orders_per_minute = 2\n"
    async with desk(tmp_path, config) as d:
        await d.trade(action="buy", quantity="1")
        await d.trade(action="buy", quantity="1")
        clock = d.clock
    async with desk(tmp_path, config, clock=clock) as d:
        denied = await d.trade(key="after", action="buy", quantity="1")
        assert denied["reason"] == "RATE_LIMIT_EXCEEDED window=60s sent=2 limit=2"
        clock.advance(61 * SECOND)
        assert (await d.trade(key="later", action="buy", quantity="1"))["state"] == "DONE"


async def test_the_days_loss_counts_from_the_days_first_equity_also_over_a_restart(tmp_path: Path) -> None:
    config = CONFIG + RISK + 'max_daily_loss = "200"\n'
    async with desk(tmp_path, config) as d:
        await d.trade(action="buy", quantity="10", price="100")
        ok = await d.trade(symbol="MSFT", action="buy", quantity="1")
        assert ok["state"] == "DONE"
        clock = d.clock
    async with desk(tmp_path, config, clock=clock) as d:
        denied = await d.trade(key="fall", action="buy", quantity="1", price="80")
        assert denied["reason"] == "DAILY_LOSS_LIMIT loss=200 limit=200"
        assert (await d.trade(key="out", action="exit"))["state"] == "DONE"
        clock.advance(24 * 3_600 * SECOND)
        fresh = await d.trade(key="next day", symbol="MSFT", action="buy", quantity="1")
        assert fresh["state"] == "DONE"


async def test_the_day_begins_in_the_configured_zone(tmp_path: Path) -> None:
    """The desk's clock stands at 2026-03-02 15:30 UTC: 00:30 of the next day in Tokyo."""
    for zone, starts in (("Asia/Tokyo", "2026-03-03"), ("America/New_York", "2026-03-02")):
        home = tmp_path / zone.partition("/")[2]
        home.mkdir()
        async with desk(home, CONFIG + RISK + f'day_zone = "{zone}"\nmax_orders_per_day = 1\n') as d:
            await d.trade(action="buy", quantity="1")
            rows = await d.reader.rows("SELECT day FROM accounts WHERE name = 'paper'")
            assert rows == [{"day": starts}]
            d.clock.advance(14 * 3_600 * SECOND)  # over midnight in New York, not in Tokyo
            again = await d.trade(action="buy", quantity="1")
            assert again["state"] == ("DENIED" if zone == "Asia/Tokyo" else "DONE")


async def test_cash_and_equity_sizes_are_rounded_down(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'sizing = "cash:1000"\n') as d:
        order = await d.trade(action="buy", quantity="500", price="30")
        assert order["quantity"] == "33.33333333"
        assert (await d.trade(action="sell", quantity="1", price="30"))["quantity"] == "33.33333333"
    other = tmp_path / "equity"
    other.mkdir()
    async with desk(other, CONFIG + 'sizing = "equity:5%"\n') as d:
        assert (await d.trade(action="buy", price="7"))["quantity"] == "714.28571428"


async def test_a_size_that_takes_a_price_is_denied_without_one_and_sends_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'sizing = "cash:1000"\n') as d:
        denied = await d.trade(action="buy", quantity="500", price=None)
        assert (denied["state"], denied["reason"]) == ("DENIED", "REFERENCE_PRICE_UNAVAILABLE")
        short = await d.trade(action="sell", quantity="500", price=None)
        assert short["reason"].startswith("SHORT_NOT_ALLOWED")


async def test_a_size_that_rounds_to_nothing_is_denied_and_never_an_order_of_zero(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'sizing = "cash:1"\n') as d:
        denied = await d.trade(action="buy", quantity="1", price="1000000000000")
        assert denied["reason"] == "QUANTITY_BELOW_MINIMUM quantity=0 minimum=0.00000001"
        assert d.paper_orders() == []


async def test_a_flip_without_a_price_is_cut_to_its_exit(tmp_path: Path) -> None:
    config = CONFIG + 'sizing = "cash:1000"\nallow_short = true\n' + RISK + "max_orders_per_minute = 1\n"
    async with desk(tmp_path, config) as d:
        await d.trade(action="buy", price="100")
        cut = await d.trade(action="reverse", price=None)
        assert (cut["state"], cut["quantity"], cut["purpose"]) == ("DONE", "10", "exit")


@pytest.mark.parametrize(("gate", "entry"), [("hold", "DONE"), ("hold_account", "PENDING")])
async def test_the_gate_holds_entries_on_the_instrument_or_on_the_account_and_never_an_exit(
    tmp_path: Path, gate: str, entry: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, CONFIG + f'gate = "{gate}"\n', wrap=faults.wrap) as d:
        await d.trade(symbol="MSFT", action="buy", quantity="4")
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="1")
        await d.state(2, "AMBIGUOUS")
        await d.deliver(symbol="MSFT", action="buy", quantity="1")
        order = await (d.waits(3, "WAITING_FOR_O2") if entry == "PENDING" else d.state(3, "DONE"))
        assert order["state"] == entry
        assert (await d.trade(symbol="MSFT", action="exit"))["state"] == "DONE"
