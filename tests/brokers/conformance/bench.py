"""What the conformance suite needs of a venue beside its adapter: to see its book, break it, move its market.

One bench an adapter; the tests themselves name none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

from app.brokers.base import Broker
from app.brokers.paper import PaperBroker, PaperExchange
from app.clock import ManualClock
from app.drill.book import Book
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import Rules
from tests.brokers.alpaca_kit import Venue, venue_at
from tests.brokers.paper_kit import connected, opened

PRICE = "100"
"""Of AAPL, everywhere."""


class Bench(Protocol):
    clock: ManualClock

    @property
    def broker(self) -> Broker: ...

    async def count(self, client_order_id: str) -> int:
        """Orders under this id in the venue's own book."""
        ...

    async def settle(self) -> None:
        """Until what the market does by itself is done."""
        ...

    async def trade_on(self, client_order_id: str) -> None:
        """At a venue that fills in parts: the next part."""
        ...

    async def break_down(self) -> None:
        """From now on nothing can be read."""
        ...


class PaperBench:
    def __init__(self, exchange: PaperExchange, broker: PaperBroker, clock: ManualClock) -> None:
        self._exchange, self.broker, self.clock = exchange, broker, clock

    async def count(self, client_order_id: str) -> int:
        def look(book: object) -> int:
            store = book._store  # type: ignore[attr-defined]
            row = store.read(
                lambda: store.row("SELECT count(*) FROM orders WHERE client_order_id = ?", client_order_id)
            )
            return int(row[0])

        return await self._exchange.run(look)

    async def settle(self) -> None:
        await self._exchange.run(lambda book: book.fill_all_due())

    async def trade_on(self, client_order_id: str) -> None:
        await self._exchange.run(lambda book: book.fill_due())

    async def break_down(self) -> None:
        await self._exchange.close()


class AlpacaBench:
    def __init__(self, venue: Venue) -> None:
        self._venue, self.broker, self.clock = venue, venue.broker, venue.clock

    async def count(self, client_order_id: str) -> int:
        return await self._venue.count(client_order_id)

    async def settle(self) -> None:
        await self._venue.exchange.settle()

    async def trade_on(self, client_order_id: str) -> None:
        order = await self._venue.exchange.ask(Book.by_client_id, client_order_id)
        part = "4" if order["filled_qty"] == "0" else None
        if order["status"] != "filled":
            await self._venue.exchange.ask(Book.fill, client_order_id, part)

    async def break_down(self) -> None:
        fault = Fault("*", Reply.STATUS, taken=Taken.NEVER, status=502, times=None)
        self._venue.exchange.plan.add(fault)


@asynccontextmanager
async def paper(folder: Path, *, in_parts: bool = False) -> AsyncIterator[Bench]:
    clock = ManualClock()
    async with opened(folder / "paper.sqlite3", clock) as exchange:
        broker = await connected(exchange, fills="partial" if in_parts else "async")
        yield PaperBench(exchange, broker, clock)


@asynccontextmanager
async def alpaca(folder: Path, *, in_parts: bool = False) -> AsyncIterator[Bench]:
    rules = Rules(filling="by_hand" if in_parts else "after_reply")
    async with venue_at(folder, rules) as venue:
        yield AlpacaBench(venue)


BENCHES = {"paper": paper, "alpaca": alpaca}
