"""A venue that turns an order away because we ask too often has not processed it: it waits, and goes once."""

from __future__ import annotations

from pathlib import Path

from app.brokers.base import Throttled
from app.clock import SECOND
from tests.execution.kit import desk
from tests.execution.venue import the, venue


async def test_s24_a_throttled_entry_waits_as_long_as_the_venue_says_and_goes_out_once(
    tmp_path: Path,
) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).plan.append(Throttled("429 too many requests", 30 * SECOND))
        await d.deliver(action="buy", quantity="10")
        order = await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes 429 too many requests")
        assert order["client_order_id"] is not None
        d.clock.advance(29 * SECOND)
        d.trading._lanes["paper", "AAPL"].wake()
        await d.trade(symbol="MSFT", action="buy", quantity="1")
        assert the(faults).calls["submit"] == 2
        d.clock.advance(SECOND)
        order = await d.state(1, "DONE")
        rows = await d.reader.rows("SELECT bytes_left FROM attempts WHERE order_id = 1 ORDER BY id")
        assert [row["bytes_left"] for row in rows] == [0, 1]
        assert len(d.paper_orders()) == 2


async def test_s24_a_throttled_entry_that_is_stale_by_then_is_denied(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).plan.append(Throttled("429", 61 * SECOND))
        await d.deliver(action="buy", quantity="10")
        await d.waits(1, "WAITING_FOR_BROKER proved_unsent=yes 429")
        d.clock.advance(61 * SECOND)
        order = await d.state(1, "DENIED")
        assert order["reason"] == "STALE age=61.0s limit=60s waited_for=BROKER"
        assert d.paper_orders() == []


async def test_s24_a_throttled_exit_waits_and_is_never_stale(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).plan.append(Throttled("429", 600 * SECOND))
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_BROKER proved_unsent=yes 429")
        d.clock.advance(600 * SECOND)
        order = await d.state(2, "DONE")
        assert order["filled_quantity"] == "10"
