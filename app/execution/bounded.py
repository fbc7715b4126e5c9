"""A broker whose every call ends: with its answer, or, past its time or on a fault of the adapter, in doubt.

The one place where an adapter's errors become what the rest can rely on: a send that did not answer is
Unknown, a look that did not is LookupFailed, and neither is evidence of anything (HOLES H34).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TypeVar

import structlog

from app.brokers.base import (
    Account,
    Broker,
    BrokerFacts,
    BrokerOrder,
    Fill,
    InstrumentRules,
    LastCheck,
    LookupFailed,
    Market,
    OrderRequest,
    Snapshot,
    SubmitReply,
    Unknown,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")

MANY_REQUESTS = 8
"""A call that reads page after page may take so many times as long as one request."""


class BoundedBroker:
    """`broker` with a bound of `seconds` on each call. The bound frees the caller; it proves nothing."""

    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds

    @property
    def facts(self) -> BrokerFacts:
        return self._broker.facts

    async def connect(self) -> Account:
        return await self._look("connect", self._broker.connect())

    async def close(self) -> None:
        try:
            await self._look("close", self._broker.close())
        except LookupFailed as error:
            log.warning("the broker's session did not close cleanly", error=str(error))

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._broker.submit(request, last_check)
        except TimeoutError:
            return Unknown(f"no reply within {self._seconds:g} s")
        except Exception as error:
            log.exception("the broker adapter failed", call="submit", error=repr(error))
            return Unknown(f"adapter error {type(error).__name__}: {error}"[:200])

    async def cancel(self, client_order_id: str) -> None:
        await self._look("cancel", self._broker.cancel(client_order_id))

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        return await self._look("find", self._broker.find(client_order_id))

    async def account(self) -> Account:
        return await self._look("account", self._broker.account())

    async def position(self, instrument: str) -> Decimal:
        return await self._look("position", self._broker.position(instrument))

    async def quote(self, instrument: str) -> Decimal | None:
        return await self._look("quote", self._broker.quote(instrument))

    async def fills(self, client_order_id: str) -> list[Fill]:
        return await self._look("fills", self._broker.fills(client_order_id), MANY_REQUESTS)

    async def snapshot(self, since: int) -> Snapshot:
        return await self._look("snapshot", self._broker.snapshot(since), MANY_REQUESTS)

    async def market(self, instrument: str) -> Market:
        return await self._look("market", self._broker.market(instrument))

    async def rules(self, instrument: str) -> InstrumentRules:
        return await self._look("rules", self._broker.rules(instrument))

    async def observe_price(self, instrument: str, price: Decimal) -> None:
        await self._look("observe price", self._broker.observe_price(instrument, price))

    def on_activity(self, wake: Callable[[], None]) -> None:
        self._broker.on_activity(wake)

    async def _look(self, call: str, answer: Awaitable[T], requests: int = 1) -> T:
        seconds = self._seconds * requests
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except LookupFailed:
            raise
        except TimeoutError as error:
            raise LookupFailed(f"{call}: no answer within {seconds:g} s") from error
        except OSError as error:
            raise LookupFailed(f"{call}: {error}") from error
        except Exception as error:
            log.exception("the broker adapter failed", call=call, error=repr(error))
            raise LookupFailed(f"{call}: adapter error {type(error).__name__}: {error}"[:200]) from error
