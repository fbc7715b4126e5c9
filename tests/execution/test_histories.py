"""Random histories of signals, faults and restarts against a plain model of the book.

The model places one order after the other and knows nothing of lanes, waiting or replies; the only thing it
is told is which orders were proved never to have got to the broker.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.brokers.base import SubmitReply
from app.clock import ManualClock
from app.domain.order import EDGES, State
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import CONFIG, Desk, desk

D = Decimal
FREE = "[risk]\nposition_divisor = 1\nmax_orders_per_minute = 0\n"
STRATEGIES = ("A", "B")


@dataclass(frozen=True)
class Asked:
    """One signal: `kind` is buy, sell, exit (with or without a quantity), flat or target."""

    strategy: str
    kind: str
    quantity: int

    @property
    def fields(self) -> dict[str, Any]:
        amount = str(self.quantity)
        match self.kind:
            case "flat":
                return {"action": "sell", "quantity": amount, "market_position": "flat"}
            case "target":
                position = {"market_position": "long", "market_position_size": str(self.quantity + 3)}
                return {"action": "buy", "quantity": amount, **position}
            case "exit all":
                return {"action": "exit"}
            case _:
                return {"action": self.kind, "quantity": amount}

    def change(self, book: Decimal) -> Decimal:
        """What the order changes in its own book; shorts are not allowed."""
        quantity = D(self.quantity)
        match self.kind:
            case "buy":
                return quantity
            case "sell" | "exit":
                return -min(quantity, book)
            case "flat" | "exit all":
                return -book
            case _:
                return max(D(0), min(quantity, quantity + 3 - book))


KINDS = ("buy", "buy", "sell", "exit", "exit all", "flat", "target")
SIGNALS = st.builds(Asked, st.sampled_from(STRATEGIES), st.sampled_from(KINDS), st.integers(1, 9))
STEPS = st.lists(SIGNALS | st.sampled_from(["settle", "restart", "repeat"]), min_size=1, max_size=12)
FAULTS = st.lists(st.sampled_from(["", "", "lost_before", "lost_after", "crash_after"]), max_size=8)


@given(fills=st.sampled_from(["async", "partial", "instant"]), steps=STEPS, faults=FAULTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_ends_in_the_models_books(
    tmp_path_factory: pytest.TempPathFactory,
    home_made_once: Path,
    fills: str,
    steps: list[Asked | str],
    faults: list[str],
) -> None:
    home = Path(shutil.copytree(home_made_once, tmp_path_factory.mktemp("history") / "home"))
    config = f'{CONFIG}fills = "{fills}"\n{FREE}'
    plan: list[str | SubmitReply] = list(faults)
    asked: list[Asked] = []
    clock = ManualClock()

    def prepare(broker: FaultyBroker) -> None:
        broker.plan.extend(plan)

    runs: list[list[Asked | str]] = [[]]
    for step in steps:
        if step == "restart":
            runs.append([])
        else:
            runs[-1].append(step)
    for run in runs:
        broken = Faults(prepare)
        async with desk(home, config, clock=clock, wrap=broken.wrap) as d:
            for step in run:
                if isinstance(step, Asked):
                    asked.append(step)
                    await _deliver(d, asked, "accepted")
                elif step == "settle":
                    await d.settled()
                elif asked:
                    await _deliver(d, asked, "duplicate")
            if run is runs[-1]:
                await d.settled()
                await _check(d, asked)
        plan = list(broken.paper.plan)


async def _deliver(d: Desk, asked: list[Asked], expected: str) -> None:
    newest = asked[-1]
    verdict = await d.deliver(key=f"signal-{len(asked)}", strategy=newest.strategy, **newest.fields)
    assert verdict.kind == expected


async def _check(d: Desk, asked: list[Asked]) -> None:
    rows = await d.orders()
    assert len(rows) == len(asked)
    books = dict.fromkeys(STRATEGIES, D(0))
    for signal, row in zip(asked, rows, strict=True):
        change = signal.change(books[signal.strategy])
        if row["state"] != "NOT_PLACED":
            books[signal.strategy] += change
            filled = D(row["filled_quantity"])
            assert filled == abs(change), (signal, [(r["id"], r["state"], r["reason"]) for r in rows])
        assert row["state"] in ("DONE", "DENIED", "NOT_PLACED")
        assert row["state"] == "DONE" or row["reason"]
    for strategy, book in books.items():
        assert await d.book(strategy=strategy) == book
    await _ledger_and_broker_agree(d, rows)
    await _every_move_is_legal(d)


async def _ledger_and_broker_agree(d: Desk, rows: list[dict[str, Any]]) -> None:
    fills = await d.reader.rows("SELECT f.*, o.strategy FROM fills f JOIN orders o ON o.id = f.order_id")
    added: dict[str, Decimal] = {}
    for fill in fills:
        signed = D(fill["quantity"]) * (1 if fill["side"] == "buy" else -1)
        added[fill["strategy"]] = added.get(fill["strategy"], D(0)) + signed
    for strategy, total in added.items():
        assert await d.book(strategy=strategy) == total
    position = await d.exchange.run(lambda book: book.position("paper", "AAPL"))
    assert position == sum(added.values(), D(0))
    papers = Counter(row["client_order_id"] for row in d.paper_orders())
    assert all(count == 1 for count in papers.values())
    assert set(papers) == {row["client_order_id"] for row in rows if row["broker_order_id"]}
    (report,) = await d.trading.reconcile("paper", "button")
    assert report.findings == []


async def _every_move_is_legal(d: Desk) -> None:
    for event in await d.events("order moved"):
        move = (State(event["detail"]["from"]), State(event["detail"]["to"]))
        assert move in EDGES
