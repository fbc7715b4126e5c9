"""One drill: what is done, what happened at the exchange, how each order ended, and the proof from its book.

Knows how to tell a drill and how to check one; what happens in each stands in stories.py.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.drill.book import Book
from app.drill.faults import Fault, Reply, Taken
from app.drill.house import KEYS, NUMBER, PATIENCE, House, TooLate
from app.drill.judge import Row, violations
from app.drill.rules import Rules
from app.drill.server import SimulatedExchange
from app.drill.store import plain

ANSWERS = {
    Reply.NORMAL: "answered as it should",
    Reply.RESET: "then the connection was reset",
    Reply.CLOSED: "then the connection was closed",
    Reply.TRUNCATED: "the answer broke off",
    Reply.STATUS: "answered with an HTTP error",
    Reply.HTML: "answered with a page",
    Reply.EMPTY: "answered with nothing",
    Reply.REDIRECT: "answered with a redirect",
    Reply.DUPLICATE: "answered that the id is known",
    Reply.STRANGER: "answered with another's order",
    Reply.NAMELESS: "answered without an id",
    Reply.FLAT: "answered with an empty list",
    Reply.DOUBLED: "answered twice over",
}
ENDED = ("DONE", "DENIED", "NOT_PLACED", "NEEDS_OPERATOR")


@dataclass(frozen=True)
class Story:
    """`run` is given a drill whose program does not run yet. `max_order_age` is the home's setting.
    `told_first`: it is one of those that run when nobody names any."""

    name: str
    title: str
    run: Callable[[Drill], Awaitable[None]]
    max_order_age: str = "60s"
    told_first: bool = True


@dataclass
class Told:
    """What came of one drill. `wrong` is what was not as it has to be; `doubled` what the judge found."""

    name: str
    title: str
    did: list[str] = field(default_factory=list)
    exchange: list[str] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    proof: str = ""
    wrong: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_well(self) -> bool:
        return not self.wrong and not self.doubled


class Drill:
    """What a story works with."""

    def __init__(self, told: Told, house: House, exchange: SimulatedExchange) -> None:
        self.told = told
        self.house = house
        self.exchange = exchange
        self._keys = 0

    def did(self, sentence: str) -> None:
        self.told.did.append(sentence)

    def expect(self, holds: bool, sentence: str) -> None:
        """`sentence` says what has to be."""
        if not holds:
            self.told.wrong.append(sentence)

    def fault(self, reply: Reply, taken: Taken = Taken.BEFORE_REPLY, at: str = "submit", **more: Any) -> None:
        self.exchange.plan.add(Fault(at, reply, taken, **more))

    def lags(self, seconds: float) -> None:
        """So old is what the exchange shows of orders, fills and positions."""
        names = ("find", "order", "orders", "fills", "positions")
        self.exchange.rules.lag = dict.fromkeys(names, int(seconds * 1_000_000))

    def alert(self, action: str = "buy", **fields: Any) -> dict[str, Any]:
        """A body with a key of its own."""
        self._keys += 1
        body = {
            "symbol": "AAPL",
            "action": action,
            "key": f"drill-{time.time_ns()}-{self._keys:04d}",
            **fields,
        }
        return {name: value for name, value in body.items() if value is not None}

    async def post(self, body: dict[str, Any], words: tuple[str, ...] = ("accepted",)) -> None:
        status, word = await self.house.post(body)
        self.expect(
            status == 200 and word in words, f"the alert is answered 200 {words[0]}, not {status} {word}"
        )

    async def buy(self, quantity: int = 10, **fields: Any) -> None:
        await self.post(self.alert("buy", quantity=quantity, price=100, **fields))

    async def state(self, number: int, *states: str) -> Row:
        """The order of that number, once it is in one of the states."""
        sql = f"SELECT * FROM v_orders WHERE number = {number}"
        what = f"order {number} to be {' or '.join(states)}"
        rows = await self.house.until(lambda rows: bool(rows) and rows[0]["state"] in states, sql, what)
        return rows[0]

    async def ended(self, count: int = 1, patience: float = PATIENCE) -> list[Row]:
        """All orders, once there are so many and each is over."""

        def over(rows: list[Row]) -> bool:
            return len(rows) >= count and all(row["state"] in ENDED for row in rows)

        sql = "SELECT * FROM v_orders ORDER BY number"
        return await self.house.until(over, sql, "the orders to end", patience)

    async def make(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Makes something happen at the exchange."""
        return await self.exchange.ask(work, *arguments, **options)

    async def position(self, symbol: str = "AAPL") -> Decimal:
        held: Decimal = await self.exchange.ask(Book.position, NUMBER, symbol)
        return held

    async def filled(self, row: Row, quantity: int = 10) -> None:
        is_so = (row["state"], row["ord_status"], row["filled_quantity"]) == ("DONE", "Filled", str(quantity))
        self.expect(
            is_so, f"{row['id']} ends DONE, filled {quantity}, not {row['state']} {row['ord_status']}"
        )

    async def posts(self, count: int) -> None:
        sent = self.exchange.plan.calls.get("submit", 0)
        self.expect(sent == count, f"the order is sent {count} times, not {sent}")


async def tell(story: Story) -> Told:
    """Runs one drill in a folder of its own, which is gone afterwards."""
    told, began = Told(story.name, story.title), time.monotonic()
    loop = asyncio.get_running_loop()
    folder = await loop.run_in_executor(None, lambda: tempfile.TemporaryDirectory(prefix="onefill-drill-"))
    place = Path(folder.name)
    exchange = SimulatedExchange(place / "exchange.sqlite3", rules=Rules(filling="in_reply"))
    await exchange.start()
    house = House(place, exchange, story.max_order_age)
    try:
        await exchange.ask(Book.add_account, NUMBER, KEYS["KEY_ID"], KEYS["SECRET_KEY"], "100000")
        await exchange.ask(Book.add_asset, "AAPL", "100")
        try:
            await story.run(Drill(told, house, exchange))
        except TooLate as late:
            told.wrong.append(str(late))
        await exchange.settle()
        await _prove(told, house, exchange)
    finally:
        await house.kill()
        await exchange.stop()
        await loop.run_in_executor(None, folder.cleanup)
    told.seconds = round(time.monotonic() - began, 1)
    return told


async def _prove(told: Told, house: House, exchange: SimulatedExchange) -> None:
    if not await house.has_ledger():
        told.wrong.append("the program has made no ledger: there is nothing to compare")
        return
    orders = await house.rows("SELECT * FROM v_orders ORDER BY number")
    moves = await house.rows(
        "SELECT subject, detail FROM v_events WHERE what = 'order moved' ORDER BY number"
    )
    looks = await house.rows("SELECT 'O' || order_id AS id, result FROM evidence")
    for row in orders:
        way = ["PENDING", *(json.loads(m["detail"])["to"] for m in moves if m["subject"] == row["id"])]
        terms = " ".join(str(row[name]) for name in ("side", "quantity", "symbol") if row[name])
        line = f"{row['id']} {terms}: {' > '.join(way)}"
        line += f", {row['ord_status']}" if row["ord_status"] and row["state"] == "DONE" else ""
        line += f" ({row['reason']})" if row["reason"] else ""
        seen = [look["result"] for look in looks if look["id"] == row["id"]]
        counted = [f"{seen.count(word)} {word}" for word in dict.fromkeys(seen)]
        told.orders.append(f"{line}; looks: {', '.join(counted)}" if counted else line)
    placed = await exchange.rows("SELECT * FROM orders ORDER BY seq")
    for row in placed:
        whose = "by wire" if row["origin"] == "api" else "by hand"
        filled = f"{row['filled_qty']} of {row['qty']} filled"
        told.exchange.append(f"{whose}: {row['side']} {row['symbol']} {row['status']}, {filled}")
    requests = await exchange.rows("SELECT outcome, answered FROM requests WHERE endpoint = 'submit'")
    for row in requests:
        told.exchange.append(f"asked to place: {row['outcome']}; {ANSWERS[row['answered']]}")
    loop = asyncio.get_running_loop()
    told.doubled = await loop.run_in_executor(None, violations, exchange.file, house.home)
    ours = [row for row in placed if row["origin"] == "api"]
    ids = {row["client_order_id"] for row in ours}
    there = sum((Decimal(row["filled_qty"]) for row in ours), Decimal(0))
    fills = await house.rows("SELECT quantity FROM v_fills")
    here = sum((Decimal(row["quantity"]) for row in fills), Decimal(0))
    under = counted_of(len(ids), "client order id")
    told.proof = (
        f"the exchange's book: {counted_of(len(ours), 'order')} under {under}, {plain(there)} filled; "
        f"the ledger: {counted_of(len(orders), 'order')}, {plain(here)} filled"
    )


def counted_of(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
