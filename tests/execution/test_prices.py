"""What an alert's price does on paper: it prices its own order, and reaches what rests, once (HOLES H8)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from app.clock import SECOND
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, TWO_ACCOUNTS, Desk, desk


class Showing(FaultyBroker):
    """Notes each price that is shown."""

    def __init__(self, broker: Any) -> None:
        super().__init__(broker)
        self.shown: list[tuple[str, str]] = []

    async def observe_price(self, instrument: str, price: Any) -> None:
        self.shown.append((instrument, str(price)))
        await super().observe_price(instrument, price)


def shown(faults: Faults, account: str = "paper") -> list[tuple[str, str]]:
    broker = faults.brokers[account]
    assert isinstance(broker, Showing)
    return broker.shown


async def test_a_resting_order_fills_at_a_later_signals_price_also_where_that_signal_trades_nothing(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        await d.state(1, "WORKING")
        denied = await d.trade(action="sell", quantity="1", price="89", strategy="other")
        assert denied["state"] == "DENIED"
        filled = await d.state(1, "DONE")
        assert (filled["filled_quantity"], filled["average_price"]) == ("10", "89")


async def test_a_waiting_orders_price_is_shown_once_and_not_again_over_newer_ones(tmp_path: Path) -> None:
    faults = Faults(kind=Showing)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_before")
        await d.deliver(action="buy", quantity="1", price="100")
        await d.state(1, "AMBIGUOUS")
        await d.deliver(action="exit", price="100")
        await d.waits(2, "WAITING_FOR_O1")
        await d.deliver(action="buy", quantity="1", price="120")
        await d.waits(3, "WAITING_FOR_O1")
        d.clock.advance(61 * SECOND)
        await d.state(3, "DENIED")
        assert shown(faults) == [("AAPL", "100"), ("AAPL", "100"), ("AAPL", "120")]
        assert await d.exchange.run(lambda book: book.quote("AAPL")) == 120


async def test_one_signals_price_reaches_an_exchange_once_for_all_of_its_accounts(tmp_path: Path) -> None:
    faults = Faults(kind=Showing)
    async with desk(tmp_path, TWO_ACCOUNTS, wrap=faults.wrap) as d:
        await d.ready("paper")
        await d.ready("second")
        await d.settled(await d.deliver(action="buy", quantity="1", price="100"))
        assert len(shown(faults) + shown(faults, "second")) == 1


async def test_what_an_earlier_run_has_shown_is_not_shown_again(tmp_path: Path) -> None:
    async with desk(tmp_path, start=False) as d:
        await d.deliver(action="exit", price="100")
        clock = d.clock
    faults = Faults(kind=Showing)
    async with desk(tmp_path, clock=clock, wrap=faults.wrap) as d:
        await d.state(1, "DONE")
        assert shown(faults) == []
        await d.trade(key="new", action="buy", quantity="1", price="101")
        assert shown(faults) == [("AAPL", "101")]


async def test_an_entry_is_priced_by_its_limit_or_stop_else_by_its_alert_else_by_the_last_price(
    tmp_path: Path,
) -> None:
    """The ceiling is 5000: each of these orders passes or fails by the price that counts."""
    async with desk(tmp_path) as d:
        await _seen(d, "100")
        limit = await d.trade(action="buy", quantity="40", type="limit", limit_price="130", price="100")
        assert limit["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=5200")
        stop = await d.trade(action="buy", quantity="40", type="stop", stop_price="130", price=None)
        assert stop["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=5200")
        alert = await d.trade(action="buy", quantity="40", price="130")
        assert alert["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=5200")
        last = await d.trade(action="buy", quantity="40", price=None)
        assert last["reason"].startswith("POSITION_EXCEEDS_CAPITAL_FRACTION projected=5200")


async def _seen(d: Desk, price: str) -> None:
    await d.ready()
    await d.exchange.run(lambda book: book.show_price("AAPL", Decimal(price)))


async def test_halves_are_booked_as_they_come_and_the_order_ends_when_both_are_there(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'fills = "partial"\n') as d:
        order = await d.trade(action="buy", quantity="5")
        assert (order["ord_status"], order["filled_quantity"]) == ("Filled", "5")
        fills = await d.reader.rows("SELECT quantity FROM v_fills")
        assert [row["quantity"] for row in fills] == ["2.5", "2.5"]
        statuses = [event["detail"].get("filled") for event in await d.events("order moved")]
        assert statuses[-1] == "5"


async def test_an_instant_fill_ends_at_the_first_look(tmp_path: Path) -> None:
    async with desk(tmp_path, CONFIG + 'fills = "instant"\n') as d:
        order = await d.trade(action="buy", quantity="5")
        assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "5")
        assert await d.book() == 5
