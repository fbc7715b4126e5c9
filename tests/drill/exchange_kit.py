"""A simulated exchange and a plain HTTP client of it. Nothing of ours between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from app.clock import ManualClock
from app.drill.book import Book
from app.drill.rules import Rules
from app.drill.server import SimulatedExchange

KEYS = {"APCA-API-KEY-ID": "key-1", "APCA-API-SECRET-KEY": "secret-1"}
OTHER_KEYS = {"APCA-API-KEY-ID": "key-2", "APCA-API-SECRET-KEY": "secret-2"}
NUMBER, OTHER_NUMBER = "PA1000001", "PA2000002"


async def furnish(exchange: SimulatedExchange, *, cash: str = "100000") -> None:
    """Two accounts with a key pair each, two stocks and a coin."""
    await exchange.ask(Book.add_account, NUMBER, "key-1", "secret-1", cash)
    await exchange.ask(Book.add_account, OTHER_NUMBER, "key-2", "secret-2", cash)
    for symbol, price in (("AAPL", "100"), ("MSFT", "200"), ("BTC/USD", "50000")):
        await exchange.ask(Book.add_asset, symbol, price)


@dataclass
class Wire:
    """Talks to the exchange as a program in another language would."""

    exchange: SimulatedExchange
    session: aiohttp.ClientSession
    clock: ManualClock

    async def call(
        self, method: str, path: str, keys: dict[str, str] | None = None, **options: Any
    ) -> tuple[int, Any]:
        """Status and JSON (None without a body)."""
        url = f"{self.exchange.url}{path}"
        async with self.session.request(
            method, url, headers=keys or KEYS, allow_redirects=False, **options
        ) as answer:
            text = await answer.text()
            is_json = answer.content_type == "application/json" and text
            return answer.status, await answer.json() if is_json else (text or None)

    async def get(self, path: str, **query: str) -> Any:
        status, body = await self.call("GET", path, params=query)
        assert status == 200, (status, body)
        return body

    async def buy(self, client_order_id: str, qty: str = "10", **fields: Any) -> tuple[int, Any]:
        body = {
            "symbol": "AAPL",
            "side": "buy",
            "type": "market",
            "time_in_force": "day",
            "qty": qty,
            "client_order_id": client_order_id,
            **fields,
        }
        return await self.call("POST", "/v2/orders", json=body)

    async def sell(self, client_order_id: str, qty: str = "10", **fields: Any) -> tuple[int, Any]:
        return await self.buy(client_order_id, qty, side="sell", **fields)

    async def order(self, client_order_id: str) -> Any:
        return await self.get("/v2/orders:by_client_order_id", client_order_id=client_order_id)

    async def count(self) -> int:
        rows = await self.exchange.rows("SELECT count(*) AS n FROM orders")
        return int(rows[0]["n"])

    async def settled(self) -> None:
        """Until what the market does by itself is done."""
        await self.exchange.settle()


@asynccontextmanager
async def wired(folder: Path, rules: Rules | None = None) -> AsyncIterator[Wire]:
    clock = ManualClock()
    exchange = SimulatedExchange(folder / "exchange.sqlite3", clock, rules)
    await exchange.start()
    await furnish(exchange)
    try:
        async with aiohttp.ClientSession() as session:
            yield Wire(exchange, session, clock)
    finally:
        await exchange.stop()
