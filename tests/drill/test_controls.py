"""What must fail, and does: the product made worse in one way from outside, and the judge that sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import Broker, BrokerOrder, Fill, LookupFailed, Snapshot
from app.clock import SECOND
from app.domain import absence
from app.domain.absence import Verdict
from app.domain.order import State
from app.drill.faults import Reply
from app.drill.rules import Rules
from app.execution import replies
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.transaction import Transaction
from tests.drill.kit import Venue, of_class, venue
from tests.drill.program import trial
from tests.execution.faults import FaultyBroker


async def _lost_and_not_shown(v: Venue) -> None:
    """O1 fills at the venue, its answer is lost, and no look shows it for a minute."""
    v.lags(60)
    v.fault("submit", Reply.RESET)
    await v.buy()
    await v.state(1, "AMBIGUOUS")


async def test_the_control_itself_is_sound(tmp_path: Path) -> None:
    """The same story with the product as it is: the judge has nothing to say."""
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("C")) as v:
        await _lost_and_not_shown(v)
        async with v.time_runs():
            assert (await v.over())["state"] == "DONE"


async def test_sent_again_because_a_look_found_nothing_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent: Callable[..., Order] = replies.record_absence

    def sent_again(tx: Transaction, order_id: int, *arguments: Any, **options: Any) -> Order:
        order = absent(tx, order_id, *arguments, **options)
        return orders.move(tx, order, State.PENDING, at=options.get("now", arguments[1]), actor="resolver")

    monkeypatch.setattr(absence, "judge", lambda *_: Verdict.ABSENT)
    monkeypatch.setattr(replies, "record_absence", sent_again)
    async with venue(tmp_path, Rules(filling="in_reply"), facts=of_class("C")) as v:
        await _lost_and_not_shown(v)
        v.clock.advance(SECOND)
        await v.desk.until("SELECT count(*) >= 2 FROM attempts", 1)
        v.rules.lag.clear()
        async with v.time_runs():
            await v.over()
        v.expected = ["DOUBLED", "FILLS"]


class ErrorsAreAbsence(FaultyBroker):
    """hummingbot 8457: a look that failed is taken for one that found nothing."""

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        try:
            return await super().find(client_order_id)
        except LookupFailed:
            return None

    async def fills(self, client_order_id: str) -> list[Fill]:
        try:
            return await super().fills(client_order_id)
        except LookupFailed:
            return []

    async def position(self, instrument: str) -> Any:
        return 0

    async def snapshot(self, since: int) -> Snapshot:
        account = await super().account()
        return Snapshot(account, {}, [], clock_offset=0)


async def test_a_failed_look_counted_as_absence_is_caught(tmp_path: Path) -> None:
    def worse(broker: Broker) -> Broker:
        return ErrorsAreAbsence(broker)

    async with venue(tmp_path, Rules(filling="in_reply"), wrap=worse) as v:
        v.fault("submit", Reply.RESET)
        for name in ("find", "orders", "fills"):
            v.fault(name, Reply.STATUS, times=None, status=500)
        await v.buy()
        await v.state(1, "AMBIGUOUS")
        async with v.time_runs():
            assert (await v.over())["state"] == "NOT_PLACED"
        v.expected = ["UNSEEN", "FILLS"]


@pytest.mark.skipif(sys.platform == "win32", reason="kills by os._exit")
@pytest.mark.timeout(120)
async def test_a_claim_committed_after_the_send_is_caught(tmp_path: Path) -> None:
    async with trial(tmp_path, "E", variant="claim_long_after_send") as t:
        await t.start("after_broker")
        await t.post("one")
        await t.do(t.program.wait_killed)
        found = await t.judged()
        assert [line.split()[0] for line in found if line.startswith("UNKNOWN")] == ["UNKNOWN"], found
        await t.start()
        await t.until(lambda: len(t.program.rows("SELECT 1 FROM attempts")) >= 1, "a second send")
        await t.ended()
        assert len(await t.at_exchange()) == 2, "the alert was placed twice"
        assert [line for line in await t.judged() if line.startswith(("UNKNOWN", "DOUBLED"))]
