"""The suite itself: adapters that do one thing wrong fail it. A proof that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.brokers.alpaca import AlpacaBroker
from app.brokers.base import (
    BrokerOrder,
    Fill,
    LastCheck,
    LookupFailed,
    OrderRequest,
    Refused,
    Snapshot,
    SubmitReply,
    Unknown,
)
from tests.brokers.conformance import test_conformance as suite
from tests.brokers.conformance.bench import Bench, alpaca

Test = Callable[[suite.Make], Awaitable[None]]


class CallsAFailedLookAbsent(AlpacaBroker):
    async def find(self, client_order_id: str) -> BrokerOrder | None:
        try:
            return await super().find(client_order_id)
        except LookupFailed:
            return None


class SendsWithoutTheLastCheck(AlpacaBroker):
    async def submit(self, request: OrderRequest, _last_check: LastCheck) -> SubmitReply:
        return await super().submit(request, lambda: None)


class CallsADoubtARefusal(AlpacaBroker):
    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        reply = await super().submit(request, last_check)
        return Refused("ERROR", reply.detail) if isinstance(reply, Unknown) else reply


class SendsAgain(AlpacaBroker):
    """Under another id, as one does who has not understood what ids are for."""

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        await super().submit(replace(request, client_order_id="e" * 32), last_check)
        return await super().submit(request, last_check)


class CountsFillsTwice(AlpacaBroker):
    async def fills(self, client_order_id: str) -> list[Fill]:
        return [*await super().fills(client_order_id)] * 2


class CallsAFailedSectionEmpty(AlpacaBroker):
    async def snapshot(self, since: int) -> Snapshot:
        try:
            return await super().snapshot(since)
        except LookupFailed:
            return Snapshot(None, {}, [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("worse", "test"),
    [
        (CallsAFailedLookAbsent, suite.test_a_look_that_fails_raises_and_is_never_an_absence),
        (SendsWithoutTheLastCheck, suite.test_h30_the_last_check_holds_an_order_back_and_nothing_is_there),
        (
            CallsADoubtARefusal,
            suite.test_an_order_into_a_broken_venue_is_in_doubt_or_unsent_and_never_refused,
        ),
        (SendsAgain, suite.test_the_last_check_is_asked_once_for_each_order),
        (SendsAgain, suite.test_a_snapshot_shows_everything_once),
        (CountsFillsTwice, suite.test_partial_fills_add_up_and_each_comes_once),
        (CallsAFailedSectionEmpty, suite.test_a_look_that_fails_raises_and_is_never_an_absence),
    ],
)
async def test_an_adapter_that_is_worse_fails(worse: type[AlpacaBroker], test: Test, tmp_path: Path) -> None:
    @asynccontextmanager
    async def make(**options: Any) -> AsyncIterator[Bench]:
        async with alpaca(tmp_path, **options) as bench:
            assert isinstance(bench.broker, AlpacaBroker)
            bench.broker.__class__ = worse
            yield bench

    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await test(make)
