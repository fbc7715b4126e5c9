"""The simulated exchange's addresses: which request asks for what, and the honest answer to it.

Blocking; runs on the book's thread. Faults and sockets are the server's (server.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from app.drill import entry, times, wire
from app.drill.book import Book, Row
from app.drill.entry import OPEN, Rejected

ZERO = Decimal(0)


@dataclass(frozen=True)
class Call:
    """One request, read. `account` is the number that its keys belong to."""

    endpoint: str
    account: str
    name: str
    """What stands in the address: an order's id, a symbol."""
    query: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def names(self) -> str:
        """All that it says of symbols and ids, for faults that ask."""
        return " ".join([self.name, *self.query.values(), *map(str, self.body.values())])


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    order: int | None = None
    """The number of the order that was taken with it."""


def submit(book: Book, call: Call) -> Answer:
    row = book.submit(call.account, call.body)
    return Answer(200, wire.order(row), row["seq"])


def cancel(book: Book, call: Call) -> Answer:
    book.cancel(call.account, call.name)
    return Answer(204, None)


def find(book: Book, call: Call) -> Answer:
    return _one(book, call, "client_order_id", call.query.get("client_order_id", ""))


def order(book: Book, call: Call) -> Answer:
    return _one(book, call, "id", call.name)


def _one(book: Book, call: Call, name: str, value: str) -> Answer:
    row = book.find(call.account, name, value)
    if row is None or not _is_shown(book, row, call.endpoint):
        raise Rejected(404, entry.NOT_FOUND, f"order not found for {value}")
    return Answer(200, wire.order(row))


def orders(book: Book, call: Call) -> Answer:
    query = call.query
    limit = min(int(query.get("limit", 50)), 500, book.rules.orders_per_page)
    descending = query.get("direction", "desc") != "asc"
    status = query.get("status", "open")
    rows = book.store.rows("SELECT * FROM orders WHERE account = ? ORDER BY created_ns", call.account)
    rows = [row for row in rows if status == "all" or (row["status"] in OPEN) == (status == "open")]
    rows = [row for row in rows if _is_shown(book, row, call.endpoint)]
    if query.get("symbols"):
        rows = [row for row in rows if row["symbol"] in query["symbols"].split(",")]
    if query.get("after"):
        after = _moment(query["after"])
        rows = [row for row in rows if row["created_ns"] > after]
    if query.get("until"):
        until = _moment(query["until"])
        rows = [row for row in rows if row["created_ns"] < until]
    rows = rows[::-1] if descending else rows
    return Answer(200, [wire.order(row) for row in rows[:limit]])


def fills(book: Book, call: Call) -> Answer:
    query = call.query
    size = min(int(query.get("page_size", 100)), 100)
    rows = book.store.rows("SELECT * FROM fills WHERE account = ? ORDER BY at_ns", call.account)
    lag = book.rules.lag.get("fills", 0)
    if lag:
        rows = [row for row in rows if row["at_ns"] // 1_000 <= book.now() - lag]
    if query.get("after"):
        after = _moment(query["after"])
        rows = [row for row in rows if row["at_ns"] > after]
    if query.get("until"):
        until = _moment(query["until"])
        rows = [row for row in rows if row["at_ns"] < until]
    if query.get("direction", "desc") != "asc":
        rows.reverse()
    token = query.get("page_token")
    if token:
        numbers = [row["id"] for row in rows]
        left = book.rules.page_tokens_left
        if token not in numbers or left == 0:
            raise Rejected(entry.UNPROCESSABLE, 40010000, "page_token is invalid or has expired")
        if left is not None:
            book.rules.page_tokens_left = left - 1
        rows = rows[numbers.index(token) + 1 :]
    return Answer(200, [wire.fill(row, book.order(row["order_seq"])) for row in rows[:size]])


def account(book: Book, call: Call) -> Answer:
    row = book.store.row("SELECT * FROM accounts WHERE number = ?", call.account)
    assert row is not None
    held = book.holdings(call.account)
    worth = sum((qty * _price(book, symbol) for symbol, qty in held.items()), ZERO)
    return Answer(200, wire.account(row, book.cash(call.account), worth, book.rules.buying_power))


def positions(book: Book, call: Call) -> Answer:
    held = book.holdings(call.account, _until(book, call.endpoint))
    return Answer(200, [wire.position(symbol, qty, _price(book, symbol)) for symbol, qty in held.items()])


def position(book: Book, call: Call) -> Answer:
    held = book.holdings(call.account, _until(book, call.endpoint))
    wanted = call.name.replace("/", "").upper()
    for symbol, qty in held.items():
        if wanted in (symbol.replace("/", ""), wire.asset_id(symbol).upper()):
            return Answer(200, wire.position(symbol, qty, _price(book, symbol)))
    raise Rejected(404, entry.NOT_FOUND, "position does not exist")


def clock(book: Book, _call: Call) -> Answer:
    return Answer(200, wire.clock(book.now(), is_open=book.rules.is_open))


def asset(book: Book, call: Call) -> Answer:
    return Answer(200, wire.asset(_asset(book, call.name)))


def trade(book: Book, call: Call) -> Answer:
    row = _asset(book, call.name)
    return Answer(200, {"symbol": row["symbol"], "trade": wire.latest_trade(row, _traded_at(book))})


def quote(book: Book, call: Call) -> Answer:
    row = _asset(book, call.name)
    return Answer(200, {"symbol": row["symbol"], "quote": wire.latest_quote(row, _traded_at(book))})


def coin_trades(book: Book, call: Call) -> Answer:
    wanted = call.query.get("symbols", "").split(",")
    rows = [row for row in map(book.asset, wanted) if row is not None]
    return Answer(200, {"trades": {row["symbol"]: wire.latest_trade(row, _traded_at(book)) for row in rows}})


def coin_quotes(book: Book, call: Call) -> Answer:
    wanted = call.query.get("symbols", "").split(",")
    rows = [row for row in map(book.asset, wanted) if row is not None]
    return Answer(200, {"quotes": {row["symbol"]: wire.latest_quote(row, _traded_at(book)) for row in rows}})


def _asset(book: Book, symbol: str) -> Row:
    row = book.asset(symbol)
    if row is None:
        raise Rejected(404, entry.NOT_FOUND, f"asset not found for {symbol}")
    return row


def _traded_at(book: Book) -> int:
    return book.now() - book.rules.quote_age


def _price(book: Book, symbol: str) -> Decimal:
    row = book.asset(symbol)
    return Decimal(row["price"]) if row else ZERO


def _until(book: Book, endpoint: str) -> int | None:
    """Positions as they were so long ago; `positions` speaks for one position too."""
    lag = book.rules.lag.get(endpoint, book.rules.lag.get("positions", 0))
    return book.now() - lag if lag else None


def _is_shown(book: Book, row: Row, endpoint: str) -> bool:
    lag = book.rules.lag.get(endpoint, 0)
    if lag and book.now() < row["created_ns"] // 1_000 + lag:
        return False
    kept = book.rules.retention.get(row["status"])
    return kept is None or row["ended_at"] is None or book.now() < row["ended_at"] + kept


def _moment(text: str) -> int:
    try:
        return times.read_ns(text)
    except ValueError as error:
        raise Rejected(entry.UNPROCESSABLE, entry.INVALID, str(error)) from None


Handler = Callable[[Book, Call], Answer]

ENDPOINTS: tuple[tuple[str, str, str, Handler], ...] = (
    ("submit", "POST", r"/v2/orders", submit),
    ("find", "GET", r"/v2/orders:by_client_order_id", find),
    ("orders", "GET", r"/v2/orders", orders),
    ("order", "GET", r"/v2/orders/([^/]+)", order),
    ("cancel", "DELETE", r"/v2/orders/([^/]+)", cancel),
    ("account", "GET", r"/v2/account", account),
    ("positions", "GET", r"/v2/positions", positions),
    ("position", "GET", r"/v2/positions/(.+)", position),
    ("fills", "GET", r"/v2/account/activities/FILL", fills),
    ("clock", "GET", r"/v2/clock", clock),
    ("asset", "GET", r"/v2/assets/(.+)", asset),
    ("trade", "GET", r"/v2/stocks/([^/]+)/trades/latest", trade),
    ("quote", "GET", r"/v2/stocks/([^/]+)/quotes/latest", quote),
    ("trade", "GET", r"/v1beta3/crypto/us/latest/trades", coin_trades),
    ("quote", "GET", r"/v1beta3/crypto/us/latest/quotes", coin_quotes),
)
"""Name (as faults and rules use it), method, address, answer."""


def route(method: str, path: str) -> tuple[str, str, Handler] | None:
    """The endpoint's name, what stands in the address, and who answers."""
    for endpoint, wanted, pattern, handler in ENDPOINTS:
        match = re.fullmatch(pattern, path) if method == wanted else None
        if match is not None:
            return endpoint, match[1] if match.groups() else "", handler
    return None


def answer(book: Book, handler: Handler, call: Call) -> Answer:
    """The honest answer, refusals included."""
    try:
        return handler(book, call)
    except Rejected as refused:
        return Answer(refused.status, refused.body)


def read_body(raw: bytes) -> Mapping[str, Any]:
    """An empty mapping for what is none; the exchange then says what is missing."""
    try:
        body = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
