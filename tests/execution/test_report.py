"""What a pass reports: sections, colour, another hand's things once, and what opens the lanes (facts 4.8)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.brokers.base import BrokerOrder, Snapshot
from app.clock import SECOND
from app.domain.order import OrdStatus
from app.domain.signal import Side
from app.execution import reconciler
from app.execution.comparing import origin_of
from app.execution.report import Report
from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, Desk, desk
from tests.execution.venue import Venue, the, venue

D = Decimal
SECTIONS = ["clock", "positions", "open_orders", "recent_orders", "fills"]


async def reconciled(d: Desk) -> Report:
    (report,) = await d.trading.reconcile("paper", "button")
    return report


def found(report: Report) -> list[tuple[str, str]]:
    return [(one.severity, one.kind) for one in report.findings]


@pytest.mark.parametrize("section", SECTIONS)
async def test_h38_a_start_that_cannot_read_a_section_opens_no_lane(tmp_path: Path, section: str) -> None:
    def half(broker: Venue) -> None:
        broker.failed = {section: "half a page"}

    faults = venue(half)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="1")
        await d.until("SELECT count(*) > 1 FROM reconciliations WHERE result = 'PARTIAL'", 1)
        await d.waits(1, "WAITING_FOR_BROKER")
        assert the(faults).calls["submit"] == 0
        assert f"{section}: half a page" in next(iter(d.trading.facts())).reason
        the(faults).failed = {}
        await d.state(1, "DONE")


@pytest.mark.parametrize("section", ["positions", "fills"])
async def test_h37_a_section_that_fails_later_is_unknown_never_flat_and_no_drift(
    tmp_path: Path, section: str
) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).failed = {section: "half a page"}
        report = await reconciled(d)
        assert (report.result, report.colour) == ("PARTIAL", "red")
        assert found(report) == [("critical", "section_failed")]
        assert report.sections == {name: "half a page" if name == section else "ok" for name in SECTIONS}
        assert report.drift == {"AAPL": "unknown"}
        (row,) = report.as_json()["positions"]
        assert row["broker"] == (None if section == "positions" else "10")
        # The lanes stay open: what was complete once is known.
        assert (await d.trade(action="exit"))["state"] == "DONE"


async def test_a_pass_says_what_it_read_and_how(tmp_path: Path) -> None:
    def ahead(broker: Venue) -> None:
        broker.offset = 300_000

    async with desk(tmp_path, wrap=venue(ahead).wrap) as d:
        await d.trade(action="buy", quantity="10")
        await reconciled(d)
        rows = await d.reader.rows("SELECT report FROM v_reconciliations ORDER BY number")
        report: dict[str, Any] = json.loads(rows[-1]["report"])
        assert report["colour"] == "green"
        assert (report["clock_offset_ms"], report["tries"], report["reason"]) == (300, 1, "")
        assert report["sections"] == dict.fromkeys(SECTIONS, "ok")
        assert report["pages"] > 0
        assert report["positions"] == [{"symbol": "AAPL", "expected": "10", "broker": "10", "drift": "none"}]


@pytest.mark.parametrize(
    ("client_order_id", "origin"),
    [
        (None, "manual"),
        ("", "manual"),
        ("2f1c8d66-9c1e-4b40-8d61-0a9f3f2f7c11", "manual"),
        ("my-bot-17", "other app"),
        ("0123456789ab8def8123456789abcdef", "our id pattern but no row"),
        ("01234567-89ab-8def-8123-456789abcdef", "our id pattern but no row"),
        ("autoclose-1", "liquidation"),
    ],
)
def test_who_made_an_order_that_is_none_of_ours_is_guessed(client_order_id: str | None, origin: str) -> None:
    assert origin_of(client_order_id) == origin


async def test_another_hands_orders_and_fills_are_told_once_and_stay_in_the_report(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        ours = BrokerOrder(
            "V-1", "0123456789ab8def8123456789abcdef", "MSFT", Side.BUY, D(1), OrdStatus.FILLED, D(1), D(5), 1
        )
        the(faults).extra_orders.append(ours)
        await d.by_hand("buy", "7")
        report = await reconciled(d)
        assert sorted(found(report)) == [("info", "external_fill"), ("warning", "our_id_without_row")]
        assert (report.colour, report.external) == ("amber", {"AAPL": D(7)})
        origins = {row["origin"] for row in report.unknown_at_us}
        assert origins == {"other app", "our id pattern but no row"}
        again = await reconciled(d)
        assert found(again) == []
        assert len(again.unknown_at_us) == 2
        assert again.fills_ignored == 1
        assert again.drift == {"AAPL": "explained_external"}
        assert [len(d.paper_orders()), await d.book()] == [1, 0]


async def test_what_was_there_before_us_is_another_hands_and_no_drift(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap, start=False) as d:
        await the(faults).connect()
        await d.by_hand("buy", "7")
        await d.trading.start(0)
        await d.ready()
        rows = await d.reader.rows("SELECT severity, kind, subject FROM findings ORDER BY id")
        assert {"severity": "info", "kind": "held_before", "subject": "AAPL"} in rows
        assert await d.reader.rows("SELECT instrument, quantity FROM externals") == [
            {"instrument": "AAPL", "quantity": "7"}
        ]
        order = await d.trade(action="buy", quantity="20", market_position="long", market_position_size="20")
        assert (order["state"], order["quantity"]) == ("DONE", "20")
        assert found(await reconciled(d)) == []


async def test_h37_a_pass_during_which_we_traded_is_made_anew(tmp_path: Path) -> None:
    faults = venue()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        stand = the(faults).hold("after_snapshot")
        passing = d.tasks.start("pass", d.trading.reconcile("paper", "button"))
        await stand.arrived.wait()
        await d.deliver(action="buy", quantity="5")
        await d.until("SELECT state IN ('WORKING', 'DONE') FROM orders WHERE id = 2", 1)
        stand.release()
        (report,) = await passing
        assert (report.tries > 1, report.result, report.active) == (True, "OK", [])
        assert report.expected == report.broker == {"AAPL": D(15)}


async def test_h37_a_position_that_moves_in_every_try_is_void_and_no_drift(tmp_path: Path) -> None:
    class Moving(Venue):
        async def snapshot(self, since: int) -> Snapshot:
            seen = await super().snapshot(since)
            moved = {"AAPL": D(self.calls["snapshot"])}
            return replace(seen, positions_before=seen.positions, positions={**seen.positions, **moved})

    faults = Faults(kind=Moving)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        report = await reconciled(d)
        assert (report.tries, report.drift) == (reconciler.TRIES, {"AAPL": "pending"})
        assert (report.active, found(report), report.colour) == (["AAPL"], [], "amber")
        assert await d.reader.rows("SELECT 1 FROM drifts") == []


async def test_an_order_in_doubt_that_a_pass_finds_is_resolved_and_told(tmp_path: Path) -> None:
    faults = venue(absence_is_immediate=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        look = the(faults).hold("find")
        the(faults).plan.append("lost_after")
        await d.deliver(action="buy", quantity="10")
        await d.state(1, "AMBIGUOUS")
        await look.arrived.wait()
        the(faults).held.clear()
        session = d.trading._sessions["paper"]
        account = session._known_account()
        report = await reconciler.reconcile(
            d.writer, d.reader, session.broker, session.policy, account, d.clock, "button"
        )
        (row,) = report.resolved_now
        assert (row["order"], row["to"]) == ("O1", "DONE")
        assert await d.book() == 10
        look.release()


async def test_an_order_in_doubt_stands_in_the_report_with_its_looks(tmp_path: Path) -> None:
    faults = venue(absence_is_immediate=False)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.until("SELECT count(*) > 0 FROM evidence WHERE result = 'absent'", 1)
        d.clock.advance(7 * SECOND)
        (row,) = (await reconciled(d)).ambiguous
        assert (row["order"], row["state"], row["age_s"], row["attempts"]) == ("O1", "AMBIGUOUS", 7, 1)
        assert row["looks_absent"] >= 1


@pytest.mark.parametrize("offset", [-10, 10])
async def test_s25_by_a_clock_far_from_the_venues_entries_wait_and_it_is_said(
    tmp_path: Path, offset: int
) -> None:
    def off(broker: Venue) -> None:
        broker.offset = offset * SECOND

    faults = venue(off)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="1")
        await d.waits(1, "WAITING_FOR_BROKER")
        await d.until("SELECT count(*) > 0 FROM reconciliations", 1)
        await d.reader.rows("SELECT 1")
        (fact,) = d.trading.facts()
        assert (fact.word, "entries wait until then" in fact.reason) == ("exits_only", True), fact
        assert ("behind" if offset > 0 else "ahead of") in fact.reason
        the(faults).offset = 600_000
        d.clock.advance(5 * SECOND)
        await d.state(1, "DONE")
        (fact,) = d.trading.facts()
        assert fact.word == "ready"
        assert "clock is 0.6 s behind the venue's" in fact.reason


async def test_s25_by_a_clock_far_from_the_venues_exits_go_out_and_a_turn_is_cut_to_its_exit(
    tmp_path: Path,
) -> None:
    faults = venue(lambda _: None)
    async with desk(tmp_path, CONFIG + "allow_short = true\n", wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="5")
        await d.state(1, "DONE")
        the(faults).offset = 10 * SECOND
        await d.trading.reconcile(None, "manual")
        await d.deliver(action="sell", quantity="2")
        exit_ = await d.state(2, "DONE")
        assert (exit_["side"], exit_["filled_quantity"]) == ("sell", "2")
        await d.deliver(action="reverse", quantity="4")
        turn = await d.state(3, "DONE")
        assert (turn["side"], turn["filled_quantity"]) == ("sell", "3")
        (cut,) = await d.events("order cut to its exit")
        assert "CLOCK_SKEW venue_ahead=10.0s" in str(cut)
        assert await d.book() == 0


async def test_an_account_that_the_venue_has_blocked_sends_nothing(tmp_path: Path) -> None:
    def closed(broker: Venue) -> None:
        broker.blocked = "trading is blocked"

    faults = venue(closed)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="1")
        await d.until("SELECT count(*) > 0 FROM reconciliations", 1)
        await d.waits(1, "WAITING_FOR_BROKER")
        (fact,) = d.trading.facts()
        assert (fact.word, "trading is blocked" in fact.reason) == ("blocked", True)
        the(faults).blocked = ""
        d.clock.advance(5 * SECOND)
        await d.state(1, "DONE")


async def test_the_venue_is_asked_about_few_orders_a_round_where_it_counts(tmp_path: Path) -> None:
    faults = venue(requests_per_minute=200)
    free = CONFIG + "[risk]\nposition_divisor = 1\nmax_orders_per_minute = 0\n"
    async with desk(tmp_path, free, wrap=faults.wrap) as d:
        for number in range(12):
            await d.deliver(action="buy", quantity="1", type="limit", limit_price="90")
            await d.state(number + 1, "WORKING")
        # The session's own rounds stand still meanwhile.
        session = d.trading._sessions["paper"]
        assert session.broker.facts.requests_per_minute == 200
        with (
            patch.object(d.trading, "_keep_sessions_running"),
            patch("app.execution.session.MOST_LOOKS", 5),
        ):
            running = d.trading._running["paper"]
            running.cancel()
            await asyncio.wait([running])
            asked = [await _asked_in_a_round(d, the(faults)) for _ in range(3)]
        assert [len(one) for one in asked] == [5, 5, 5]
        assert len(set().union(*asked)) == 12


async def _asked_in_a_round(d: Desk, broker: Venue) -> set[str]:
    broker.asked.clear()
    await d.trading._sessions["paper"]._look_at_working()
    return set(broker.asked)
