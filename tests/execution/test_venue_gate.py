"""What the gate asks a venue: its price, its session, its steps, its symbols (HOLES H8, H33)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from tests.execution.kit import CONFIG, desk
from tests.execution.operator_kit import Hand
from tests.execution.venue import CLOSED, OPEN_NOW, RULES, Venue, the, venue

D = Decimal
SIZINGS = ["signal", "quantity:10", "cash:1000", "equity:1%"]


def priced(broker: Venue) -> None:
    broker.price = D(100)


@pytest.mark.parametrize("sizing", SIZINGS)
@pytest.mark.parametrize(("stated", "shown"), [("1", "1"), ("10000", "10000")])
async def test_h8_a_price_a_hundred_times_off_is_denied_with_numbers_whatever_sizes_the_order(
    tmp_path: Path, sizing: str, stated: str, shown: str
) -> None:
    faults = venue(priced, priced_by_payload=False)
    async with desk(tmp_path, f'{CONFIG}sizing = "{sizing}"\n', wrap=faults.wrap) as d:
        order = await d.trade(action="buy", quantity="10", price=stated)
        reason = f"PRICE_OUTSIDE_BAND stated={shown} venue=100 collar=0.02"
        assert (order["state"], order["reason"]) == ("DENIED", reason)
        assert d.paper_orders() == []


@pytest.mark.parametrize(("sizing", "quantity"), list(zip(SIZINGS, ["7", "10", "10", "10"], strict=True)))
async def test_h8_size_and_limits_go_by_the_venues_price_not_by_the_alerts(
    tmp_path: Path, sizing: str, quantity: str
) -> None:
    faults = venue(priced, priced_by_payload=False)
    async with desk(tmp_path, f'{CONFIG}sizing = "{sizing}"\n', wrap=faults.wrap) as d:
        order = await d.trade(action="buy", quantity="7", price="101.5")
        assert (order["state"], order["quantity"]) == ("DONE", quantity)


async def test_h8_the_ceiling_goes_by_the_venues_price_and_the_multiplier(tmp_path: Path) -> None:
    def fifty(broker: Venue) -> None:
        broker.price, broker.rules_now = D(100), replace(RULES, multiplier=D(50))

    faults = venue(fifty, priced_by_payload=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        order = await d.trade(action="buy", quantity="2", price="100")
        assert order["reason"] == (
            "POSITION_EXCEEDS_CAPITAL_FRACTION projected=10000 ceiling=5000 divisor=20"
        )


async def test_h8_without_a_quote_entries_are_denied_and_exits_go(tmp_path: Path) -> None:
    faults = venue(priced, priced_by_payload=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).price = D(0)
        entry = await d.trade(action="buy", quantity="1")
        assert entry["reason"] == "REFERENCE_PRICE_UNAVAILABLE"
        exit_ = await d.trade(action="exit")
        assert (exit_["state"], exit_["filled_quantity"]) == ("DONE", "10")


async def test_h33_a_closed_market_denies_the_entry_and_queues_the_exit_visibly(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).market_now = CLOSED
        entry = await d.trade(action="buy", quantity="1")
        assert entry["reason"] == "MARKET_CLOSED venue='the session is over'"
        # The venue keeps it: it rests until the open.
        await d.deliver(action="exit", type="limit", limit_price="200")
        await d.state(3, "WORKING")
        (event,) = await d.events("queued by the broker")
        assert (event["subject"], event["detail"]["next_open"]) == ("O3", CLOSED.next_open)
        (need,) = [need for need in await Hand(d).needs() if need.subject == "O3"]
        assert (need.kind, need.severity) == ("exit_queued", "warning")
        assert "queued by the broker" in need.text
        await d.trade(action="cancel")
        await d.state(3, "DONE")
        assert "exit_queued" not in [kind for _, kind, _ in await Hand(d).kinds()]


async def test_h33_an_account_may_let_the_broker_queue_its_entries(tmp_path: Path) -> None:
    def closed(broker: Venue) -> None:
        broker.market_now = CLOSED

    async with desk(tmp_path, f'{CONFIG}when_closed = "queue"\n', wrap=venue(closed).wrap) as d:
        order = await d.trade(action="buy", quantity="1")
        assert order["state"] == "DONE"
        assert [event["subject"] for event in await d.events("queued by the broker")] == ["O1"]


async def test_h33_what_turns_a_position_closes_it_and_opens_nothing_while_closed(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, f"{CONFIG}allow_short = true\n", wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).market_now = CLOSED
        order = await d.trade(action="sell", quantity="15")
        assert (order["state"], order["quantity"]) == ("DONE", "10")
        assert await d.book() == 0


async def test_quantities_are_cut_to_the_venues_steps_and_a_full_exit_is_exact(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="2.5")
        the(faults).rules_now = replace(RULES, step=D(1), minimum=D(1))
        more = await d.trade(action="buy", quantity="3.9")
        assert more["quantity"] == "3"
        part = await d.trade(action="sell", quantity="1.9")
        assert part["quantity"] == "1"
        rest = await d.trade(action="exit")
        assert (rest["quantity"], rest["state"]) == ("4.5", "DONE")
        assert await d.book() == 0


async def test_less_than_the_venues_minimum_is_denied_with_both_numbers(tmp_path: Path) -> None:
    def whole(broker: Venue) -> None:
        broker.rules_now = replace(RULES, step=D("0.1"), minimum=D(1))

    async with desk(tmp_path, wrap=venue(whole).wrap) as d:
        order = await d.trade(action="buy", quantity="0.57")
        assert order["reason"] == "QUANTITY_BELOW_MINIMUM quantity=0.5 minimum=1"


async def test_a_symbol_that_the_venue_does_not_trade_is_denied_in_its_words(tmp_path: Path) -> None:
    def unknown(broker: Venue) -> None:
        broker.rules_now = replace(RULES, is_tradable=False, reason="no such symbol here")

    faults = venue(unknown)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        order = await d.trade(action="buy", quantity="1")
        assert order["reason"] == "SYMBOL_NOT_MAPPED symbol=AAPL venue='no such symbol here'"
        the(faults).rules_now = RULES
        await d.trade(action="buy", quantity="1")
        the(faults).rules_now = replace(RULES, is_tradable=False, reason="delisted")
        assert (await d.trade(action="exit"))["state"] == "DONE"


async def test_what_cannot_be_borrowed_is_not_sold_short(tmp_path: Path) -> None:
    def hard(broker: Venue) -> None:
        broker.rules_now = replace(RULES, is_shortable=False)

    async with desk(tmp_path, f"{CONFIG}allow_short = true\n", wrap=venue(hard).wrap) as d:
        order = await d.trade(action="sell", quantity="1")
        assert order["reason"] == "SHORT_NOT_ALLOWED opens=1 venue='not shortable there'"


async def test_the_request_says_until_when_it_may_arrive_and_whether_it_reduces(tmp_path: Path) -> None:
    """By the venue's clock, and briefly where the venue itself refuses what comes later."""

    def ahead(broker: Venue) -> None:
        broker.offset = 400_000

    faults = venue(ahead, arrival_deadline_field="expires")
    async with desk(tmp_path, wrap=faults.wrap) as d:
        now = d.clock.now()
        await d.trade(action="buy", quantity="1")
        await d.trade(action="exit")
        entry, exit_ = the(faults).sent
        assert (entry.reduces, exit_.reduces) == (False, True)
        assert entry.not_after == now + 5_000_000 + 400_000
        (row,) = await d.reader.rows("SELECT arrival_deadline FROM attempts WHERE order_id = 1")
        assert row["arrival_deadline"] == now + 5_000_000
        assert the(faults).market_now is OPEN_NOW
