"""Positions that do not agree with the books: read again, then denied; drift that holds entries (H6, H37)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, Desk, decided, desk, passes
from tests.execution.operator_kit import Hand
from tests.execution.venue import the, venue

D = Decimal
SHORTS = CONFIG + "allow_short = true\n"
LONG_20: dict[str, Any] = {"market_position": "long", "market_position_size": "20"}


def blind(broker: FaultyBroker) -> None:
    broker.shows_others = False


@pytest.mark.parametrize(
    "fields", [{"action": "buy", "quantity": "20", **LONG_20}, {"action": "reverse", "quantity": "5"}]
)
async def test_h6_what_is_sized_from_an_uncertain_position_is_read_again_and_then_denied(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    faults = venue()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = D(13)
        before = the(faults).calls["position"]
        began = d.clock.now()
        await d.deliver(**fields)
        order = await decided(d, 2)
        assert the(faults).calls["position"] - before > 3
        assert 5 <= (d.clock.now() - began) / SECOND < 15
        if fields["action"] == "reverse":
            # The half that closes is not lost to the doubt.
            assert (order["state"], order["quantity"]) == ("DONE", "10")
            return
        assert order["reason"] == "POSITION_UNCERTAIN broker_position=13 expected=10"
        assert ("warning", "held_back_by_drift", "O2") in await Hand(d).kinds()


async def test_h6_a_position_that_lags_and_catches_up_sends_the_target_once(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = D(0)
        await d.deliver(action="buy", quantity="20", **LONG_20)
        await passes(d, 2)
        assert (await d.order(2))["state"] == "PENDING"
        the(faults).positions.clear()
        order = await decided(d, 2)
        assert order["quantity"] == "10"
        assert await d.book() == 20


async def test_h6_another_hands_position_is_no_uncertainty_once_a_pass_has_seen_its_fills(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        await d.by_hand("buy", "7")
        await d.deliver(action="buy", quantity="20", **LONG_20)
        order = await decided(d, 1)
        assert (order["state"], order["quantity"]) == ("DONE", "20"), order


# ------------------------------------------------------------------------------------------------- drift


async def test_h37_drift_that_two_passes_find_holds_entries_until_it_is_seen(tmp_path: Path) -> None:
    faults = Faults(blind)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("buy", "5")
        await d.trading.reconcile("paper", "button")
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"
        await d.trading.reconcile("paper", "button")
        denied = await d.trade(action="buy", quantity="1")
        assert denied["reason"] == "DRIFT unexplained=5 passes=2"
        hand = Hand(d)
        assert ("warning", "held_back_by_drift", denied["id"]) in await hand.kinds()
        assert (await d.trade(symbol="MSFT", action="buy", quantity="1"))["state"] == "DONE"
        (need,) = [need for need in await hand.needs() if need.kind == "drift"]
        seen = next(action for action in need.actions if action.command == "acknowledge")
        answer = await hand.do("acknowledge", **seen.arguments)
        assert answer == {"account": "paper", "symbol": "AAPL", "difference": "5", "external": "5"}
        assert "drift" not in [kind for _, kind, _ in await hand.kinds()]
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"
        (report,) = await d.trading.reconcile("paper", "button")
        assert (report.result, report.drift) == ("OK", {"AAPL": "explained_external", "MSFT": "none"})


async def test_h37_drift_leaves_exits_possible_and_a_corrected_book_ends_it(tmp_path: Path) -> None:
    faults = Faults(blind)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "4")
        for _ in range(2):
            await d.trading.reconcile("paper", "button")
        hand = Hand(d)
        (need,) = [need for need in await hand.needs() if need.kind == "drift"]
        await hand.do("book", **need.actions[0].arguments)
        assert await d.book() == 6
        assert (await d.trade(action="buy", quantity="1"))["state"] == "DONE"
        for _ in range(2):
            await d.trading.reconcile("paper", "button")
        exit_ = await d.trade(action="exit")
        assert (exit_["state"], exit_["quantity"]) == ("DONE", "7")


async def test_h37_a_hand_close_that_its_fill_explains_is_absorbed_by_the_corrected_book(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "10")
        (report,) = await d.trading.reconcile("paper", "button")
        assert report.external == {"AAPL": D(-10)}
        hand = Hand(d)
        (need,) = await hand.needs()
        await hand.do("book", **need.actions[0].arguments)
        assert await d.book() == 0
        (report,) = await d.trading.reconcile("paper", "button")
        assert (report.result, report.external, report.drift) == ("OK", {}, {})
        assert (await d.trade(action="buy", quantity="3"))["state"] == "DONE"
        (report,) = await d.trading.reconcile("paper", "button")
        assert report.drift == {"AAPL": "none"}


# ---------------------------------------------------------------- a broker that shows our own fills late


async def stays_pending(d: Desk, number: int) -> None:
    await passes(d, 2)
    assert (await d.order(number))["state"] == "PENDING"


async def test_h6_an_exit_right_after_its_entry_waits_for_the_position_and_closes_all(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = D(0)
        await d.deliver(action="exit")
        await stays_pending(d, 2)
        the(faults).positions.clear()
        order = await decided(d, 2)
        assert (order["state"], order["filled_quantity"]) == ("DONE", "10")
        assert await d.book() == 0
        assert await Hand(d).needs() == []


async def test_h6_an_exit_of_which_the_broker_shows_half_is_not_cut_in_half(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = D(10)
        await d.deliver(action="exit")
        await stays_pending(d, 3)
        the(faults).positions.clear()
        order = await decided(d, 3)
        assert (order["state"], order["filled_quantity"]) == ("DONE", "20")
        assert await d.book() == 0
        assert await d.events("drift") == []


async def test_h1_what_an_exit_left_because_the_broker_showed_less_goes_out_by_its_next_leg(
    tmp_path: Path,
) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="20")
        the(faults).positions["AAPL"] = D(10)
        await d.deliver(action="exit")
        cut = await decided(d, 2)
        assert (cut["state"], cut["filled_quantity"]) == ("DONE", "10")
        the(faults).positions.clear()
        rest = await decided(d, 3)
        assert (rest["leg"], rest["state"], rest["filled_quantity"]) == (2, "DONE", "10")
        assert await d.book() == 0


async def test_h2_what_an_exit_left_and_the_broker_does_not_hold_stands_in_needs_you(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="20")
        await d.by_hand("sell", "10")
        await d.deliver(action="exit")
        cut = await decided(d, 2)
        assert (cut["state"], cut["filled_quantity"]) == ("DONE", "10")
        rest = await decided(d, 3)
        assert rest["reason"] == "DRIFT book=10 broker_position=0"
        assert ("critical", "held_back_by_drift", "O3") in await Hand(d).kinds()
        await passes(d, 6)
        assert len(await d.orders()) == 3


@pytest.mark.parametrize("fields", [{"action": "exit"}, {"action": "sell", "quantity": "5"}])
async def test_h6_right_after_our_own_exit_its_old_position_is_nobody_elses(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    faults = venue()
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.trade(action="exit")
        the(faults).positions["AAPL"] = D(10)
        await d.deliver(**fields)
        await stays_pending(d, 3)
        the(faults).positions.clear()
        order = await decided(d, 3)
        assert order["state"] == "DONE", order["reason"]
        assert await Hand(d).needs() == []


@pytest.mark.parametrize("shown", [D(10), D(13)])
async def test_h6_an_exit_that_the_position_does_not_change_is_not_held_up(
    tmp_path: Path, shown: Decimal
) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = shown
        began = d.clock.now()
        order = await d.trade(action="exit")
        assert (order["state"], order["filled_quantity"], d.clock.now()) == ("DONE", "10", began)


@pytest.mark.parametrize("fields", [{"action": "exit"}, {"action": "sell", "quantity": "10"}])
async def test_h3_an_entry_behind_an_exit_that_is_looked_at_again_is_not_closed_by_it(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).positions["AAPL"] = D(0)
        await d.deliver(**fields)
        await d.waits(2, "POSITION_UNCERTAIN")
        await d.deliver(action="buy", quantity="5")
        await stays_pending(d, 3)
        the(faults).positions.clear()
        assert (await decided(d, 2))["filled_quantity"] == "10"
        assert (await decided(d, 3))["filled_quantity"] == "5"
        assert await d.book() == 5
