"""What the paper exchange's tests share: an open exchange, orders in one line, and wakes to wait for.

No sleeping and no wall time: what comes later is awaited through `on_activity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw

from app.brokers.base import OrderRequest, Placed, SubmitReply
from app.brokers.paper import PaperBroker, PaperExchange
from app.clock import ManualClock
from app.domain.signal import OrderType, Side, TimeInForce

CASH = Decimal(100_000)


class Wakes:
    """Counts the wakes of one account and lets a test wait for the next."""

    def __init__(self, broker: PaperBroker) -> None:
        self.count = 0
        self._event = asyncio.Event()
        broker.on_activity(self._wake)

    def _wake(self) -> None:
        self.count += 1
        self._event.set()

    async def next(self) -> None:
        await self._event.wait()
        self._event.clear()


@asynccontextmanager
async def opened(
    path: Path, clock: ManualClock | None = None, vfs: str | None = None
) -> AsyncIterator[PaperExchange]:
    exchange = PaperExchange(path, clock or ManualClock(), vfs)
    await exchange.open()
    try:
        yield exchange
    finally:
        await exchange.close()


async def connected(
    exchange: PaperExchange, name: str = "paper", cash: Decimal = CASH, fills: str = "instant"
) -> PaperBroker:
    broker = PaperBroker(exchange, name, cash, fills)
    await broker.connect()
    return broker


def order(
    client_order_id: str = "c-1",
    side: Side = Side.BUY,
    quantity: str = "10",
    *,
    price: str | None = "100",
    limit: str | None = None,
    stop: str | None = None,
    tif: TimeInForce | None = None,
    symbol: str = "AAPL",
) -> OrderRequest:
    """`price` is the alert's; the type follows from the order's own prices."""
    kinds = {
        (False, False): OrderType.MARKET,
        (True, False): OrderType.LIMIT,
        (False, True): OrderType.STOP,
        (True, True): OrderType.STOP_LIMIT,
    }
    return OrderRequest(
        client_order_id=client_order_id,
        instrument=symbol,
        side=side,
        quantity=Decimal(quantity),
        type=kinds[limit is not None, stop is not None],
        limit_price=None if limit is None else Decimal(limit),
        stop_price=None if stop is None else Decimal(stop),
        tif=tif,
        reference_price=None if price is None else Decimal(price),
    )


def nothing_against() -> None:
    """A last check that lets everything pass."""


async def placed(broker: PaperBroker, request: OrderRequest) -> Placed:
    reply: SubmitReply = await broker.submit(request, nothing_against)
    assert isinstance(reply, Placed), reply
    return reply


async def state(broker: PaperBroker, client_order_id: str = "c-1") -> tuple[str, Decimal, Decimal | None]:
    """Status, filled quantity and average price of an order that must be there."""
    found = await broker.find(client_order_id)
    assert found is not None
    return found.status.value, found.filled_quantity, found.average_price


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What another program sees in the file: a connection of its own, read-only, closed at once."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
