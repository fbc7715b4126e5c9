"""The reconciler: what it finds, what it leaves alone, and what is void because we traded meanwhile (H37)."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.brokers.base import OrderRequest, Snapshot
from app.brokers.paper import PaperBroker
from app.clock import SECOND
from app.domain.signal import OrderType, Side
from app.execution import reconciler
from app.execution.reconciler import Report
from app.ledger import orders
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import TWO_ACCOUNTS, Desk, desk


async def reconciled(d: Desk) -> Report:
    (report,) = await d.trading.reconcile("paper", "button")
    return report


def found(report: Report) -> list[tuple[str, str, str, str]]:
    return [(f.severity, f.kind, f.subject, f.detail) for f in report.findings]


async def runs(d: Desk) -> list[dict[str, Any]]:
    return await d.reader.rows("SELECT * FROM v_reconciliations ORDER BY number")


async def test_a_pass_over_an_idle_account_leaves_one_row_and_makes_no_noise(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        events = await d.reader.rows("SELECT count(*) AS n FROM events")
        report = await reconciled(d)
        assert (report.result, report.findings, report.fills_added) == ("OK", [], 0)
        assert await d.reader.rows("SELECT count(*) AS n FROM events") == events
        assert await d.reader.rows("SELECT 1 FROM findings") == []
        first, second = await runs(d)
        assert (first["cause"], second["cause"], second["result"]) == ("start", "button", "OK")
        assert json.loads(second["report"])["positions"] == [
            {"symbol": "AAPL", "expected": "10", "broker": "10", "drift": "none"}
        ]
        assert not [line for line in d.log if line["log_level"] in ("warning", "error", "critical")]


async def test_drift_is_found_and_nothing_is_done_about_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.trade(action="buy", quantity="10")
        await d.by_hand("sell", "4")
        report = await reconciled(d)
        assert report.result == "FINDINGS"
        assert ("warning", "drift", "AAPL", "expected=10 broker=6") in found(report)
        assert await d.book() == 10
        assert len(d.paper_orders()) == 2
        rows = await d.reader.rows(
            "SELECT severity, kind, subject, detail FROM findings WHERE kind = 'drift'"
        )
        assert [tuple(row.values()) for row in rows] == [("warning", "drift", "AAPL", "expected=10 broker=6")]


async def test_a_difference_of_no_more_than_the_tolerance_is_no_drift(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.shows_others = False
        await d.by_hand("buy", "0.00000001")
        report = await reconciled(d)
        assert (found(report), report.drift, report.colour) == ([], {"AAPL": "dust"}, "amber")
        await d.by_hand("buy", "0.00000001")
        report = await reconciled(d)
        assert [kind for _, kind, _, _ in found(report)] == ["drift"]
        assert (report.drift, report.colour) == ({"AAPL": "unexplained"}, "red")


async def test_orders_and_fills_of_another_hand_are_named_and_never_touched(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        await d.ready()
        hand = PaperBroker(d.exchange, "paper", Decimal(1), "instant")
        resting = OrderRequest("by-hand", "MSFT", Side.BUY, Decimal(3), OrderType.LIMIT, Decimal(50))
        await hand.submit(resting, lambda: None)
        await d.by_hand("buy", "7")
        kinds = {kind: (severity, detail) for severity, kind, _, detail in found(await reconciled(d))}
        assert kinds["external_order"] == ("info", "buy 3 MSFT New")
        assert kinds["external_fill"] == ("info", "buy 7 AAPL at 100")
        await d.trade(action="cancel", symbol="MSFT")
        assert {row["client_order_id"]: row["status"] for row in d.paper_orders()}["by-hand"] == "New"


async def test_an_order_open_here_and_unknown_there_is_a_critical_finding(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        order = await d.state(1, "WORKING")
        faults.paper.slow_proof = True  # else the look that comes before would hand it to a person
        faults.paper.hidden.add(order["client_order_id"])
        report = await reconciled(d)
        assert found(report) == [("critical", "missing_at_broker", "O1", "open here, unknown there")]
        assert (await d.order(1))["state"] == "WORKING"


@pytest.mark.parametrize("kind", ["market", "limit"])
async def test_a_ghost_is_found_by_its_order_or_by_its_fill_and_is_ours_again(
    tmp_path: Path, kind: str
) -> None:
    """Called absent, and there after all: critical, booked, never silent."""
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("after_submit")
        faults.paper.plan.append("lost_after")
        limit = "90" if kind == "limit" else None
        await d.deliver(action="buy", quantity="10", type=kind, limit_price=limit)
        order = await d.state(1, "SUBMITTING")
        await send.arrived.wait()
        faults.paper.hidden.add(order["client_order_id"])
        send.release()
        assert (await d.state(1, "NOT_PLACED"))["reason"] == "CONFIRMED_ABSENT"
        faults.paper.hidden.clear()
        report = await reconciled(d)
        assert ("critical", "ghost", "O1", "called absent, found after all") in found(report)
        ghost = await d.state(1, "WORKING" if limit else "DONE")
        assert ghost["broker_order_id"] is not None
        assert await d.book() == (0 if limit else 10)


async def test_a_section_that_cannot_be_read_is_one_failed_report_and_nothing_is_compared(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        before = len(await runs(d))
        faults.paper.failing.add("snapshot")
        report = await reconciled(d)
        assert (report.result, report.reason) == ("FAILED", "snapshot failed")
        assert found(report) == [("critical", "section_failed", "paper", "snapshot failed")]
        after = await runs(d)
        assert len(after) == before + 1
        assert after[-1]["result"] == "FAILED"
        assert json.loads(after[-1]["report"])["positions"] == []


async def test_one_account_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, TWO_ACCOUNTS, wrap=faults.wrap) as d:
        await d.ready("paper")
        await d.ready("second")
        faults.paper.failing.add("snapshot")
        reports = await d.trading.reconcile(None, "button")
        assert [(report.account, report.result) for report in reports] == [
            ("paper", "FAILED"),
            ("second", "OK"),
        ]
        with pytest.raises(LookupError):
            await d.trading.reconcile("nobody", "button")


async def test_fills_since_the_last_good_pass_are_asked_for_with_an_overlap(tmp_path: Path) -> None:
    asked: list[int] = []

    class Noting(FaultyBroker):
        async def snapshot(self, since: int) -> Snapshot:
            asked.append(since)
            return await super().snapshot(since)

    faults = Faults(kind=Noting)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        started = d.clock.now()
        d.clock.advance(1_000 * SECOND)
        await reconciled(d)
        faults.paper.failing.add("snapshot")
        d.clock.advance(500 * SECOND)
        await reconciled(d)
        faults.paper.failing.clear()
        await reconciled(d)
        d.clock.step(-9_999 * SECOND)
        await reconciled(d)
        middle = started + 1_000 * SECOND
        # The failed pass is no good one; a clock that went back leaves nothing out.
        assert asked == [
            0,
            started - 120 * SECOND,
            middle - 120 * SECOND,
            middle - 120 * SECOND,
            d.clock.now() - 120 * SECOND,
        ]


# ------------------------------------------------------------------------------------------- H37


@pytest.mark.parametrize("pause", ["find", "snapshot", "after_snapshot"])
async def test_h37_an_order_sent_at_any_point_of_a_pass_makes_no_false_finding(
    tmp_path: Path, pause: str
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.deliver(symbol="MSFT", action="buy", quantity="1", type="limit", limit_price="90")
        await d.state(2, "WORKING")
        stand = faults.paper.hold(pause)
        passing = d.tasks.start("pass", d.trading.reconcile("paper", "button"))
        await stand.arrived.wait()
        await d.deliver(action="buy", quantity="5")
        await d.until("SELECT state IN ('WORKING', 'DONE') FROM orders WHERE id = 3", 1)
        stand.release()
        (report,) = await passing
        assert found(report) == []
        await d.state(3, "DONE")
        assert found(await reconciled(d)) == []
        assert await d.book() == 15


async def test_h37_a_fill_booked_during_the_pass_voids_only_its_own_instrument(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.trade(symbol="MSFT", action="buy", quantity="10")
        await d.by_hand("sell", "1", symbol="MSFT")
        stand = faults.paper.hold("after_snapshot")
        passing = d.tasks.start("pass", d.trading.reconcile("paper", "button"))
        await stand.arrived.wait()
        await d.writer.run(_book_a_fill)
        stand.release()
        with patch.object(reconciler, "TRIES", 1):
            (report,) = await passing
        assert [row[1:3] for row in found(report) if row[1] == "drift"] == [("drift", "MSFT")]
        assert report.active == ["AAPL"]


def _book_a_fill(tx: Any) -> None:
    fill = orders.BookedFill("late", Decimal(2), Decimal(100), Decimal(0), 1)
    orders.add_fills(tx, orders.get(tx, 1), [fill], at=1)


async def test_h37_an_order_in_doubt_makes_its_instruments_position_no_finding(tmp_path: Path) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.slow_proof = True
        faults.paper.plan.append("lost_after")
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        order = await d.state(1, "SUBMITTING")
        faults.paper.hidden.add(order["client_order_id"])
        send.release()
        await d.state(1, "AMBIGUOUS")
        report = await reconciled(d)
        assert report.broker == {"AAPL": Decimal(10)}
        assert report.active == ["AAPL"]
        assert found(report) == []
        faults.paper.hidden.clear()
        await d.state(1, "DONE")
        assert found(await reconciled(d)) == []
