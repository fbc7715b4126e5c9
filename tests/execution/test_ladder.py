"""The whole ladder: what each rung can show, and what keeps a look from proving anything (facts 4.6)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import BrokerOrder, IdClass, RateLimited, Retention
from app.clock import SECOND
from app.domain.order import OrdStatus
from app.domain.signal import Side
from tests.execution.faults import Faults
from tests.execution.kit import Desk, desk
from tests.execution.operator_kit import Hand
from tests.execution.venue import Venue, the, venue

D = Decimal


def wire(**facts: Any) -> Faults:
    return venue(absence_is_immediate=False, **facts)


async def lost(d: Desk, faults: Faults, fault: str = "lost_before") -> None:
    await d.ready()
    the(faults).plan.append(fault)
    await d.deliver(action="buy", quantity="10")
    await d.state(1, "AMBIGUOUS")


async def looks(d: Desk, result: str, least: int) -> None:
    await d.until(f"SELECT count(*) >= {least} FROM evidence WHERE result = ?", 1, result)


def twin(d: Desk, **terms: Any) -> BrokerOrder:
    order = BrokerOrder(
        "V-9", None, "AAPL", Side.BUY, D(10), OrdStatus.CANCELED, D(0), None, created_at=d.clock.now()
    )
    return replace(order, **terms)


async def three_looks(d: Desk, result: str) -> None:
    await looks(d, result, 1)
    for number, seconds in ((2, 100), (3, 200)):
        d.clock.advance(seconds * SECOND)
        await looks(d, result, number)


async def test_each_look_says_what_every_rung_has_shown(tmp_path: Path) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await looks(d, "absent", 1)
        (row,) = await d.reader.rows("SELECT look, detail FROM evidence ORDER BY id LIMIT 1")
        assert row["look"] == "by id, open orders, recent orders, fills, position"
        assert row["detail"] == (
            "by id: absent; open orders: 0; recent orders: 0, ours: 0 (pages=1); "
            "fills: 0, ours: 0; position: 0"
        )


@pytest.mark.parametrize(
    "other",
    [{"client_order_id": "somebody"}, {"quantity": D(11)}, {"side": Side.SELL}, {"instrument": "MSFT"}, {}],
    ids=["another id", "another quantity", "another side", "another symbol", "no id"],
)
async def test_a_twin_that_is_nobodys_keeps_absence_from_being_proved(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).extra_orders.append(twin(d, **other))
        await lost(d, faults)
        is_twin = set(other) <= {"client_order_id"}
        await three_looks(d, "failed" if is_twin else "absent")
        if not is_twin:
            await d.state(1, "NOT_PLACED")
            return
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        d.clock.advance(600 * SECOND)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert "twin=V-9 looks the same and is nobody's" in order["reason"]
        assert order["reason"].startswith("RESOLVE_DEADLINE confirming_looks=0")


async def test_an_order_of_ours_that_looks_the_same_is_no_twin(tmp_path: Path) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        the(faults).plan.append("lost_before")
        await d.deliver(action="buy", quantity="10")
        await d.state(2, "AMBIGUOUS")
        await three_looks(d, "absent")
        await d.state(2, "NOT_PLACED")


@pytest.mark.parametrize("section", ["clock", "positions", "open_orders", "recent_orders", "fills"])
async def test_h37_a_look_that_misses_a_section_proves_nothing(tmp_path: Path, section: str) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).failed = {section: "the page did not come"}
        await lost(d, faults)
        await looks(d, "failed", 3)
        (row,) = await d.reader.rows("SELECT detail FROM evidence ORDER BY id LIMIT 1")
        assert f"{section}: the page did not come" in row["detail"]
        assert (await d.order(1))["state"] == "AMBIGUOUS"
        the(faults).failed = {}
        await three_looks(d, "absent")
        await d.state(1, "NOT_PLACED")


async def test_a_clock_that_is_not_known_proves_nothing(tmp_path: Path) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        the(faults).offset = None
        await lost(d, faults)
        await looks(d, "failed", 2)
        assert (await d.order(1))["state"] == "AMBIGUOUS"


async def test_looks_that_fail_for_ever_end_before_a_person_with_no_answer_suggested(tmp_path: Path) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        the(faults).failing.add("find")
        await looks(d, "failed", 1)
        d.clock.advance(900 * SECOND)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert "looks=not_placed" not in order["reason"]


async def test_another_order_that_comes_back_for_our_id_is_no_evidence(tmp_path: Path) -> None:
    class Mistaken(Venue):
        async def find(self, client_order_id: str) -> BrokerOrder | None:
            found = await super().find(client_order_id)
            return None if found is None else replace(found, client_order_id="somebody-else")

    faults = Faults(lambda broker: broker.plan.append("lost_after"), Mistaken)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10")
        await looks(d, "failed", 2)
        (row,) = await d.reader.rows("SELECT detail FROM evidence ORDER BY id LIMIT 1")
        assert "another order came back (somebody-else)" in row["detail"]
        order = await d.order(1)
        assert (order["state"], order["broker_order_id"]) == ("AMBIGUOUS", None)
        assert await d.book() == 0


async def test_two_orders_under_our_id_are_critical_and_only_a_persons(tmp_path: Path) -> None:
    faults = wire(id_class=IdClass.E)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        look = the(faults).hold("find")
        await lost(d, faults, "lost_after")
        cid = the(faults).sent[0].client_order_id
        the(faults).extra_orders.append(twin(d, client_order_id=cid))
        look.release()
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("DOUBLE the broker has 2 orders under our id: ")
        (event,) = await d.events("doubled")
        assert event["detail"]["severity"] == "critical"
        assert d.logged("the broker has an order twice")
        (report,) = await d.trading.reconcile("paper", "button")
        assert ("critical", "conflict") in [(one.severity, one.kind) for one in report.findings]
        assert (await d.order(1))["state"] == "NEEDS_OPERATOR"
        assert ("critical", "needs_operator", "O1") in await Hand(d).kinds()


@pytest.mark.parametrize(
    ("id_class", "field", "state"),
    [
        (IdClass.A, None, "NOT_PLACED"),
        (IdClass.B, None, "NOT_PLACED"),
        (IdClass.C, None, "NEEDS_OPERATOR"),
        (IdClass.C, "expires", "NOT_PLACED"),
        (IdClass.D, None, "NEEDS_OPERATOR"),
        (IdClass.D, "expires", "NOT_PLACED"),
        (IdClass.E, None, "NEEDS_OPERATOR"),
        (IdClass.E, "expires", "NEEDS_OPERATOR"),
    ],
)
async def test_h35_what_the_same_looks_prove_by_class_and_expiry(
    tmp_path: Path, id_class: IdClass, field: str | None, state: str
) -> None:
    faults = wire(id_class=id_class, arrival_deadline_field=field)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await three_looks(d, "absent")
        order = await d.state(1, state)
        if state == "NEEDS_OPERATOR":
            assert order["reason"].endswith("looks=not_placed")
        assert the(faults).calls["submit"] == 1


async def test_what_is_older_than_the_venue_keeps_is_not_absent(tmp_path: Path) -> None:
    faults = wire(retention=Retention(canceled_unfilled=7_200 * SECOND))
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await lost(d, faults)
        await looks(d, "absent", 1)
        d.clock.advance(7_201 * SECOND)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert "older than the venue keeps: retention=7200s" in order["reason"]
        assert "looks=not_placed" not in order["reason"]


async def test_a_venue_that_wants_to_be_left_alone_is_and_that_counts_as_nothing(tmp_path: Path) -> None:
    class Limited(Venue):
        limit: RateLimited | None = None

        async def find(self, client_order_id: str) -> BrokerOrder | None:
            found = await super().find(client_order_id)
            if self.limit is not None:
                raise self.limit
            return found

    faults = Faults(kind=Limited)
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        broker = faults.paper
        assert isinstance(broker, Limited)
        broker.limit = RateLimited("429", 30 * SECOND)
        await lost(d, faults, "lost_after")
        await d.until_logged("looks pause")
        calls = broker.calls["find"]
        d.clock.advance(29 * SECOND)
        d.trading._sessions["paper"].nudge()
        await d.trade(symbol="MSFT", action="exit")
        assert broker.calls["find"] == calls
        assert await d.reader.rows("SELECT 1 FROM evidence") == []
        (fact,) = d.trading.facts()
        assert fact.word == "ready"
        broker.limit = None
        d.clock.advance(SECOND)
        await d.state(1, "DONE")


# ------------------------------------------------------------------------------- working, and missing


async def test_a_working_order_that_the_venue_loses_is_missing_and_then_a_persons_never_over(
    tmp_path: Path,
) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        row = await d.state(1, "WORKING")
        the(faults).hidden.add(row["client_order_id"])
        await looks(d, "absent", 1)
        assert (await d.order(1))["reason"].startswith("MISSING_AT_BROKER open here, gone there looks=1 of=3")
        # Its own answer said that it is there: looks alone do not undo that within seconds.
        await d.until("SELECT count(*) > 4 FROM evidence WHERE result = 'absent'", 1)
        assert (await d.order(1))["state"] == "WORKING"
        d.clock.advance(300 * SECOND)
        order = await d.state(1, "NEEDS_OPERATOR")
        assert order["reason"].startswith("MISSING_AT_BROKER open here, gone there looks=")
        assert len(await d.events("missing at the broker")) == 1
        the(faults).hidden.clear()
        await d.trading.reconcile("paper", "button")
        assert (await d.order(1))["state"] == "WORKING"


async def test_looks_that_fail_make_no_working_order_missing(tmp_path: Path) -> None:
    faults = wire()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.deliver(action="buy", quantity="10", type="limit", limit_price="90")
        row = await d.state(1, "WORKING")
        the(faults).failed = {"recent_orders": "half a page"}
        the(faults).hidden.add(row["client_order_id"])
        await looks(d, "failed", 4)
        assert (await d.order(1))["state"] == "WORKING"
        the(faults).hidden.clear()
        await looks(d, "found", 1) if (await d.order(1))["reason"] else None
        assert (await d.order(1))["reason"] is None
