"""HOLES H3: entry, exit and close+entry in every order, behind doubt, behind the hold gate, and over a kill.

The sender is a strategy that states its position with every alert. Whatever happens underway, the book ends
at the position that it stated last; where an order was lost for good it is not sent again by itself, and a
row in Needs you says so. Nothing is opened after a later exit, and no order is there twice.

Of a swapped pair the position that counts is the sender's own or the one that arrived last: which of two
alerts of one bar was meant to be first only the sender knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.brokers.base import LastCheck, OrderRequest, SubmitReply
from app.clock import ManualClock
from app.execution import trading
from app.ledger.needs import needs
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, Desk, desk

D = Decimal
HOME = CONFIG + "allow_short = true\n[risk]\nposition_divisor = 1\nmax_orders_per_minute = 0\n"
KINDS = ("entry", "exit", "close+entry")
ORDERS = [
    pytest.param((*order, swapped), marks=[pytest.mark.long] if swapped == "swapped" else [])
    for order in itertools.permutations(KINDS)
    for swapped in ("in order", "swapped")
]
LONG = pytest.mark.long


def _name(order: tuple[str, ...]) -> str:
    return " ".join(order)


@dataclass
class Sender:
    """A strategy: what its alerts say, and the position that it states with the last of them."""

    swapped: bool = False
    position: int = 0
    stated: int = 0
    alerts: list[dict[str, Any]] = field(default_factory=list)

    def moves_to(self, position: int) -> dict[str, Any]:
        """The alert of one order of the strategy's, which takes it there."""
        change, before = position - self.position, self.position
        self.position = position
        return {
            "action": "buy" if change > 0 else "sell",
            "quantity": str(abs(change)),
            **_side("market_position", position),
            **_side("prev_market_position", before),
        }

    def alerts_of(self, kind: str) -> Iterator[tuple[dict[str, Any], int]]:
        """The alerts in the order in which they arrive, each with the position that it states."""
        if kind == "entry":
            to = 10 if self.position <= 0 else self.position + 5
            yield self.moves_to(to), to
        elif kind == "exit":
            flat = {"action": "exit", "market_position": "flat"}
            yield (self.moves_to(0) if self.position else flat), 0
        else:
            to = -5 if self.position >= 0 else 5
            pair = [] if self.position == 0 else [(self.moves_to(0), 0)]
            pair.append((self.moves_to(to), to))
            yield from reversed(pair) if self.swapped else pair

    async def send(self, d: Desk, kind: str) -> None:
        for alert, stated in self.alerts_of(kind):
            verdict = await d.deliver(strategy="S", **alert)
            assert verdict.kind == "accepted", verdict
            self.stated = stated


def _side(name: str, position: int) -> dict[str, str]:
    if position == 0:
        return {name: "flat", f"{name}_size": "0"}
    return {name: "long" if position > 0 else "short", f"{name}_size": str(abs(position))}


class HeldAtTheNth(FaultyBroker):
    """Holds one send, before or after it got there, until the program is gone."""

    at = 0
    moment = "before_submit"

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        if self.calls["submit"] + 1 == self.at:
            self.hold(self.moment)
        return await super().submit(request, last_check)


async def _check(d: Desk, sender: Sender) -> None:
    book = await d.book(strategy="S")
    found = await d.orders()
    rows = [(row["id"], row["state"], row["side"], row["quantity"], row["reason"]) for row in found]
    if book not in (sender.stated, sender.position):
        now = d.clock.now()
        shown = await d.reader.call(lambda db: needs(db, now))
        lost = {row["id"] for row in found if row["state"] == "NOT_PLACED"}
        # Beside another strategy's long nothing of ours may go short: then we are flat.
        beside = ("OPPOSING_BOOK", "OTHER_BOOK_OPEN")
        opposed = book == 0 and any((row["reason"] or "").startswith(beside) for row in found)
        assert opposed or lost & {need.subject for need in shown}, (sender, rows, shown)
    position = await d.exchange.run(lambda paper: paper.position("paper", "AAPL"))
    assert position == await d.book(), rows
    sent = await d.reader.rows(
        "SELECT o.claim_id, o.purpose FROM attempts a JOIN orders o ON o.id = a.order_id "
        "WHERE o.strategy = 'S' AND coalesce(a.bytes_left, 1) = 1 ORDER BY a.id"
    )
    for earlier, later in itertools.combinations(sent, 2):
        overtaken = earlier["purpose"] == "exit" and later["purpose"] == "entry"
        assert not (overtaken and later["claim_id"] < earlier["claim_id"]), rows
    ids = [row["client_order_id"] for row in d.paper_orders()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("fate", ["lost_before", "lost_after"])
@pytest.mark.parametrize("order", ORDERS, ids=_name)
async def test_h3_every_order_behind_one_in_doubt(tmp_path: Path, order: tuple[str, ...], fate: str) -> None:
    faults, sender = Faults(), Sender(order[-1] == "swapped")
    async with desk(tmp_path, HOME, wrap=faults.wrap) as d:
        await d.ready()
        faults.paper.plan.append(fate)
        look = faults.paper.hold("find")
        await sender.send(d, "entry")
        await d.state(1, "AMBIGUOUS")
        for kind in order[:-1]:
            await sender.send(d, kind)
        look.release()
        await d.settled()
        await _check(d, sender)


@pytest.mark.parametrize("fate", ["lost_before", "lost_after"])
@pytest.mark.parametrize("order", ORDERS, ids=_name)
async def test_h3_every_order_behind_the_hold_gate(tmp_path: Path, order: tuple[str, ...], fate: str) -> None:
    """Another strategy's order on the instrument is in doubt: entries are held, exits of ours are not."""
    faults, sender = Faults(), Sender(order[-1] == "swapped")
    async with desk(tmp_path, HOME, wrap=faults.wrap) as d:
        await d.ready()
        await sender.send(d, "entry")
        await d.settled()
        faults.paper.plan.append(fate)
        look = faults.paper.hold("find")
        await d.deliver(strategy="T", action="buy", quantity="1")
        await d.state(2, "AMBIGUOUS")
        for kind in order[:-1]:
            await sender.send(d, kind)
        look.release()
        await d.settled()
        await _check(d, sender)


@pytest.mark.parametrize("moment", ["before_submit", "after_submit"])
@pytest.mark.parametrize("nth", [pytest.param(1, marks=LONG), 2, pytest.param(3, marks=LONG)])
@pytest.mark.parametrize("order", ORDERS, ids=_name)
async def test_h3_every_order_over_a_kill(
    tmp_path: Path, order: tuple[str, ...], nth: int, moment: str
) -> None:
    sender, clock = Sender(order[-1] == "swapped"), ManualClock()

    def prepare(broker: FaultyBroker) -> None:
        assert isinstance(broker, HeldAtTheNth)
        broker.at, broker.moment = nth, moment

    faults = Faults(prepare, HeldAtTheNth)
    with patch.object(trading, "DRAIN", 0.0):
        async with desk(tmp_path, HOME, clock=clock, wrap=faults.wrap) as d:
            await d.ready()
            for kind in order[:-1]:
                await sender.send(d, kind)
            await d.until(_STANDS, 1, nth)
            numbers = d.numbers
    async with desk(tmp_path, HOME, clock=clock) as d:
        d.numbers = numbers
        await d.settled()
        await _check(d, sender)


_STANDS = (
    "SELECT EXISTS (SELECT 1 FROM orders WHERE state = 'SUBMITTING' AND ? = (SELECT count(*) FROM attempts)) "
    "OR NOT EXISTS (SELECT 1 FROM orders WHERE state NOT IN ('DONE', 'DENIED', 'NOT_PLACED'))"
)
"""The program is killed where its send stands still, or where nothing is left to do."""
