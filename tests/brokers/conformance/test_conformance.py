"""What every adapter has to keep, whatever its venue: one suite, all adapters.

A new adapter gets a bench and no test of its own here. What only one venue does is tested beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import (
    SECTIONS,
    DuplicateId,
    HeldBack,
    IdClass,
    LookupFailed,
    OrderRequest,
    Placed,
    Refused,
    Unknown,
    Unsent,
)
from app.clock import SECOND
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side
from tests.brokers.conformance.bench import BENCHES, Bench
from tests.brokers.paper_kit import nothing_against

Make = Callable[..., AbstractAsyncContextManager[Bench]]
CID = "0123456789abcdef8123456789abcdef"
OTHER = "fedcba9876543210812345678abcdef0"
UNKNOWN = "00000000000000008000000000000000"


@pytest.fixture(params=sorted(BENCHES))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    bench = BENCHES[request.param]
    return lambda **options: bench(tmp_path, **options)


def order(
    client_order_id: str = CID,
    side: Side = Side.BUY,
    quantity: str = "10",
    limit: str | None = None,
    **more: Any,
) -> OrderRequest:
    return OrderRequest(
        client_order_id,
        "AAPL",
        side,
        Decimal(quantity),
        type=OrderType.MARKET if limit is None else OrderType.LIMIT,
        limit_price=None if limit is None else Decimal(limit),
        reference_price=Decimal(100),
        **more,
    )


async def place(bench: Bench, request: OrderRequest) -> Placed:
    reply = await bench.broker.submit(request, nothing_against)
    assert isinstance(reply, Placed), reply
    await bench.settle()
    return reply


async def status(bench: Bench, client_order_id: str = CID) -> OrdStatus:
    found = await bench.broker.find(client_order_id)
    assert found is not None
    return found.status


async def test_the_identity_is_the_accounts_own_and_stays(make: Make) -> None:
    async with make() as bench:
        first = await bench.broker.account()
        again = await bench.broker.connect()
        assert first.identity
        assert first.endpoint
        assert (again.identity, again.endpoint) == (first.identity, first.endpoint)
        assert again.equity == Decimal(100_000)


async def test_an_order_is_placed_and_found_under_our_id_with_our_terms(make: Make) -> None:
    async with make() as bench:
        reply = await place(bench, order())
        found = await bench.broker.find(CID)
        assert found is not None
        for shown in (reply.order, found):
            assert (shown.client_order_id, shown.instrument, shown.side) == (CID, "AAPL", Side.BUY)
            assert shown.quantity == Decimal(10)
            assert abs(shown.created_at - bench.clock.now()) <= SECOND
        assert found.broker_order_id == reply.order.broker_order_id != ""
        assert (found.status, found.filled_quantity) == (OrdStatus.FILLED, Decimal(10))
        assert found.average_price == Decimal(100)
        assert await bench.count(CID) == 1


async def test_an_unknown_id_is_absent_and_nothing_else_is_shown_for_it(make: Make) -> None:
    async with make() as bench:
        await place(bench, order())
        assert await bench.broker.find(UNKNOWN) is None
        assert await bench.broker.fills(UNKNOWN) == []


async def test_an_id_is_taken_once_also_after_its_order_has_ended(make: Make) -> None:
    async with make() as bench:
        assert bench.broker.facts.id_class is IdClass.B
        await place(bench, order())
        reply = await bench.broker.submit(order(quantity="5"), nothing_against)
        assert isinstance(reply, DuplicateId)
        assert await bench.count(CID) == 1


async def test_the_same_id_from_several_at_once_is_one_order(make: Make) -> None:
    async with make() as bench:
        replies = await asyncio.gather(*(bench.broker.submit(order(), nothing_against) for _ in range(5)))
        kinds = sorted(type(reply).__name__ for reply in replies)
        assert kinds == ["DuplicateId"] * 4 + ["Placed"]
        assert await bench.count(CID) == 1


async def test_a_resting_order_is_cancelled_and_what_has_ended_stays(make: Make) -> None:
    async with make() as bench:
        await place(bench, order(OTHER))
        await place(bench, order(limit="50"))
        assert await status(bench) is OrdStatus.NEW
        await bench.broker.cancel(CID)
        assert await status(bench) is OrdStatus.CANCELED
        for client_order_id in (CID, OTHER, UNKNOWN):
            await bench.broker.cancel(client_order_id)
        assert (await status(bench), await status(bench, OTHER)) == (OrdStatus.CANCELED, OrdStatus.FILLED)


async def test_partial_fills_add_up_and_each_comes_once(make: Make) -> None:
    async with make(in_parts=True) as bench:
        reply = await bench.broker.submit(order(), nothing_against)
        assert isinstance(reply, Placed)
        seen: list[Decimal] = [reply.order.filled_quantity]
        for _ in range(20):
            await bench.trade_on(CID)
            found = await bench.broker.find(CID)
            assert found is not None
            seen.append(found.filled_quantity)
            fills = await bench.broker.fills(CID)
            assert sum(fill.quantity for fill in fills) >= found.filled_quantity
            if found.status is OrdStatus.FILLED:
                break
        assert seen == sorted(seen)
        assert seen[-1] == Decimal(10)
        fills = await bench.broker.fills(CID)
        assert len(fills) == 2
        assert len({fill.exec_id for fill in fills}) == 2
        assert sum(fill.quantity for fill in fills) == Decimal(10)
        assert {(fill.client_order_id, fill.side, fill.price) for fill in fills} == {
            (CID, Side.BUY, Decimal(100))
        }


async def test_a_snapshot_shows_everything_once(make: Make) -> None:
    async with make() as bench:
        await place(bench, order())
        await place(bench, order(OTHER, limit="50"))
        found = await bench.broker.snapshot(0)
        assert found.failed == {}
        assert set(found.failed) <= set(SECTIONS)
        assert [one.client_order_id for one in found.open_orders] == [OTHER]
        assert sorted(str(one.client_order_id) for one in found.recent_orders) == sorted((CID, OTHER))
        assert found.positions == found.positions_before == {"AAPL": Decimal(10)}
        assert found.fills == await bench.broker.fills(CID)
        assert found.account == await bench.broker.account()
        assert found.clock_offset == 0
        assert found.pages >= 1
        assert found.requests >= 1


async def test_a_snapshot_begins_where_it_is_asked_to(make: Make) -> None:
    async with make() as bench:
        await place(bench, order())
        bench.clock.advance(60 * SECOND)
        since = bench.clock.now()
        await place(bench, order(OTHER))
        found = await bench.broker.snapshot(since)
        assert [one.client_order_id for one in found.recent_orders] == [OTHER]
        assert [one.client_order_id for one in found.fills] == [OTHER]


async def test_positions_are_signed(make: Make) -> None:
    async with make() as bench:
        assert await bench.broker.position("AAPL") == 0
        await place(bench, order(side=Side.SELL, quantity="7"))
        assert await bench.broker.position("AAPL") == Decimal(-7)
        assert (await bench.broker.snapshot(0)).positions == {"AAPL": Decimal(-7)}


async def test_one_order_turns_a_position_only_where_the_facts_say_so(make: Make) -> None:
    async with make() as bench:
        await place(bench, order())
        reply = await bench.broker.submit(order(OTHER, Side.SELL, "15"), nothing_against)
        await bench.settle()
        turned = bench.broker.facts.flips_in_one_order
        assert isinstance(reply, Placed if turned else Refused)
        assert await bench.broker.position("AAPL") == Decimal(-5 if turned else 10)


async def test_h30_the_last_check_holds_an_order_back_and_nothing_is_there(make: Make) -> None:
    calls: list[str] = []

    def halted() -> None:
        calls.append("asked")
        raise HeldBack("TRADING_HALTED state=HALTED")

    async with make() as bench:
        assert await bench.broker.submit(order(), halted) == Unsent("TRADING_HALTED state=HALTED")
        assert calls == ["asked"]
        assert await bench.count(CID) == 0
        assert await bench.broker.find(CID) is None
        # The id is not used up.
        await place(bench, order())


async def test_the_last_check_is_asked_once_for_each_order(make: Make) -> None:
    calls: list[int] = []
    async with make() as bench:
        for client_order_id in (CID, OTHER):
            reply = await bench.broker.submit(order(client_order_id), lambda: calls.append(1))
            assert isinstance(reply, Placed)
        assert len(calls) == 2


async def test_a_refused_order_is_nowhere(make: Make) -> None:
    async with make() as bench:
        reply = await bench.broker.submit(order(quantity="100000"), nothing_against)
        assert isinstance(reply, Refused), reply
        assert reply.code
        assert await bench.count(CID) == 0
        assert await bench.broker.find(CID) is None


async def test_a_look_that_fails_raises_and_is_never_an_absence(make: Make) -> None:
    async with make() as bench:
        await place(bench, order())
        await bench.break_down()
        looks: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: bench.broker.find(CID),
            lambda: bench.broker.find(UNKNOWN),
            lambda: bench.broker.fills(CID),
            bench.broker.account,
            lambda: bench.broker.position("AAPL"),
            lambda: bench.broker.position("MSFT"),
            lambda: bench.broker.quote("AAPL"),
            lambda: bench.broker.snapshot(0),
            bench.broker.connect,
            lambda: bench.broker.cancel(CID),
        )
        for look in looks:
            with pytest.raises(LookupFailed):
                await look()


async def test_an_order_into_a_broken_venue_is_in_doubt_or_unsent_and_never_refused(make: Make) -> None:
    async with make() as bench:
        await bench.break_down()
        reply = await bench.broker.submit(order(), nothing_against)
        assert isinstance(reply, Unknown | Unsent), reply


async def test_a_known_instrument_has_rules_and_a_market(make: Make) -> None:
    async with make() as bench:
        rules = await bench.broker.rules("AAPL")
        assert rules.is_tradable
        assert rules.is_shortable
        assert 0 < rules.step <= rules.minimum
        assert rules.multiplier == 1
        assert (await bench.broker.market("AAPL")).is_open


async def test_the_facts_say_what_the_rest_relies_on(make: Make) -> None:
    async with make() as bench:
        facts = bench.broker.facts
        assert facts.ladder
        assert facts.orders_expire is (facts.arrival_deadline_field is not None)
        assert not facts.reduce_only_enforced
