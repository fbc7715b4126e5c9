"""Reading an Alpaca account: single things, and lists paged to their end.

A list that did not end (page limit, a cursor that fails, a page without progress) has failed as a whole:
half of it is evidence of nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TypeVar
from urllib.parse import quote as quoted

from app.brokers import alpaca_wire as wire
from app.brokers.alpaca_http import AlpacaHttp, Answer, trouble_of
from app.brokers.alpaca_symbols import is_coin
from app.brokers.base import Account, BrokerOrder, Fill, LookupFailed, RateLimited, Snapshot
from app.clock import SECOND, Clock
from app.domain.times import read_time

T = TypeVar("T")
ZERO = Decimal(0)

ORDERS_A_PAGE = 500
FILLS_A_PAGE = 100
MAX_PAGES = 50
"""A longer list is a failed section, not a short one."""
MAX_LOOKUPS = 100
"""Orders that a pass looks up one by one, because only their fills have shown them."""
REMEMBERED = 10_000
QUOTE_AGE = 60 * SECOND
"""An older price is no price (HOLES H8)."""


class OrdersById:
    """Whose fill it is: what never changes of the orders seen so far, by Alpaca's id."""

    def __init__(self) -> None:
        self._known: dict[str, BrokerOrder] = {}

    def get(self, broker_order_id: str) -> BrokerOrder | None:
        return self._known.get(broker_order_id)

    def add(self, order: BrokerOrder) -> None:
        self._known[order.broker_order_id] = order
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]


class AlpacaReader:
    """One pass of looks; counts its pages and requests."""

    def __init__(self, http: AlpacaHttp, clock: Clock, seen: OrdersById) -> None:
        self._http = http
        self._clock = clock
        self._seen = seen
        self.pages = 0
        self.requests = 0

    # ---------------------------------------------------------------- single things

    async def account(self) -> Account:
        answer = await self._get("/v2/account")
        return _sound(lambda: wire.decode(answer, wire.AccountAnswer, "account").read(self._http.base_url))

    async def clock(self) -> tuple[wire.Clock, int]:
        """The market's clock, and how far it is ahead of ours, in microseconds."""
        before = self._clock.now()
        answer = await self._get("/v2/clock")
        middle = (before + self._clock.now()) // 2
        clock = wire.decode(answer, wire.Clock, "clock")
        return clock, _sound(lambda: clock.at) - middle

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        """The order under our id; None only where Alpaca itself says that there is none."""
        query = {"client_order_id": client_order_id}
        order = await self._order("/v2/orders:by_client_order_id", query)
        if order is not None and order.client_order_id != client_order_id:
            raise LookupFailed(f"asked for one order, another came back: {order.client_order_id}"[:200])
        return order

    async def _order(self, path: str, query: Mapping[str, str] | None) -> BrokerOrder | None:
        answer = await self._ask(path, query)
        if _is_absence(answer):
            return None
        order = _sound(lambda: wire.decode(_body(answer, "order"), wire.Order, "order").read())
        if not order.broker_order_id:
            raise LookupFailed("an order without an id")
        self._seen.add(order)
        return order

    async def asset(self, instrument: str) -> wire.Asset | None:
        answer = await self._ask(f"/v2/assets/{quoted(instrument, safe='')}")
        if _is_absence(answer):
            return None
        return wire.decode(_body(answer, "asset"), wire.Asset, "asset")

    async def quote(self, instrument: str, offset: int) -> Decimal | None:
        """The last trade, else the middle of bid and ask; None where neither is at most 60 s old."""
        trade = await self._latest_trade(instrument)
        if trade is not None and trade.p > 0 and self._is_fresh(trade.t, offset):
            return trade.p
        asked = await self._latest_quote(instrument)
        if asked is None or asked.ap <= 0 or asked.bp <= 0 or not self._is_fresh(asked.t, offset):
            return None
        return (asked.ap + asked.bp) / 2

    async def _latest_trade(self, instrument: str) -> wire.Trade | None:
        if is_coin(instrument):
            body = await self._data("/v1beta3/crypto/us/latest/trades", {"symbols": instrument})
            found = None if body is None else wire.decode(body, wire.CoinTrades, "trade")
            return None if found is None else found.trades.get(instrument)
        body = await self._data(f"/v2/stocks/{quoted(instrument, safe='')}/trades/latest")
        return None if body is None else wire.decode(body, wire.StockTrade, "trade").trade

    async def _latest_quote(self, instrument: str) -> wire.Quote | None:
        if is_coin(instrument):
            body = await self._data("/v1beta3/crypto/us/latest/quotes", {"symbols": instrument})
            found = None if body is None else wire.decode(body, wire.CoinQuotes, "quote")
            return None if found is None else found.quotes.get(instrument)
        body = await self._data(f"/v2/stocks/{quoted(instrument, safe='')}/quotes/latest")
        return None if body is None else wire.decode(body, wire.StockQuote, "quote").quote

    def _is_fresh(self, at: str, offset: int) -> bool:
        age = self._clock.now() + offset - _sound(lambda: read_time(at))
        return abs(age) <= QUOTE_AGE

    # ---------------------------------------------------------------- lists

    async def positions(self) -> dict[str, Decimal]:
        found = wire.decode(await self._get("/v2/positions"), list[wire.Position], "positions")
        self.pages += 1
        held: dict[str, Decimal] = {}
        for position in found:
            instrument, quantity = _sound(position.read)
            if held.get(instrument, quantity) != quantity:
                raise LookupFailed(f"positions: two different ones of {instrument}")
            held[instrument] = quantity
        return held

    async def orders(self, status: str, since: int | None) -> list[BrokerOrder]:
        """Every order of the status (`open`, `all`) submitted from `since` on, oldest first.

        Pages by time. Each page begins where the one before ended, so that none of the same instant is lost.
        """
        found: dict[str, BrokerOrder] = {}
        after = None if since is None else since - 1
        longest = 0
        for _ in range(MAX_PAGES):
            page = await self._page_of_orders(status, after)
            news = [row for row in page if row.id not in found]
            for row in news:
                order = _sound(row.read)
                found[row.id] = order
                self._seen.add(order)
            if not news:
                if page and len(page) >= longest:
                    await self._check_end(status, page)
                return list(found.values())
            longest = max(longest, len(page))
            after = _sound(partial(_last_time, page)) - 1
        raise LookupFailed(f"{status} orders: more than {MAX_PAGES} pages")

    async def _check_end(self, status: str, page: list[wire.Order]) -> None:
        """A page that shows nothing new and is as long as any may have been cut off: nothing may follow."""
        if await self._page_of_orders(status, _sound(partial(_last_time, page)) + 1):
            raise LookupFailed(f"{status} orders: pages too short to be followed")

    async def _page_of_orders(self, status: str, after: int | None) -> list[wire.Order]:
        query = {"status": status, "limit": str(ORDERS_A_PAGE), "direction": "asc", "nested": "false"}
        if after is not None:
            query["after"] = wire.rfc3339(max(0, after))
        self.pages += 1
        return wire.decode(await self._get("/v2/orders", query), list[wire.Order], "orders")

    async def fills_of(self, order: BrokerOrder) -> list[Fill]:
        """All fills of one order; as soon as they add up to what it has filled, no further page is read."""
        # An activity is never earlier than its order; a second for clocks that differ among themselves.
        mine = await self._fill_activities(order.created_at - SECOND, order)
        return [_sound(partial(one.read, order)) for one in mine]

    async def fills(self, since: int) -> list[Fill]:
        """Every fill from `since` on, each with our id where its order has one."""
        activities = await self._fill_activities(since - 1, None)
        unknown = {one.order_id for one in activities if self._seen.get(one.order_id) is None}
        if len(unknown) > MAX_LOOKUPS:
            raise LookupFailed(f"fills of {len(unknown)} orders that no list shows")
        for order_id in sorted(unknown):
            await self._order(f"/v2/orders/{quoted(order_id, safe='')}", None)
        return [_sound(partial(one.read, self._seen.get(one.order_id))) for one in activities]

    async def _fill_activities(self, after: int, order: BrokerOrder | None) -> list[wire.FillActivity]:
        """Those of one order, or all; each once. A page leads to the next by its last entry."""
        query = {"after": wire.rfc3339(max(0, after)), "direction": "asc", "page_size": str(FILLS_A_PAGE)}
        if order is not None:
            query["order_id"] = order.broker_order_id
        shown: set[str] = set()
        found: list[wire.FillActivity] = []
        for _ in range(MAX_PAGES):
            body = await self._get("/v2/account/activities/FILL", query)
            page = wire.decode(body, list[wire.FillActivity], "fills")
            self.pages += 1
            if not page:
                return found
            news = [one for one in page if one.id not in shown]
            if not news:
                raise LookupFailed("fills: a page shows nothing new")
            for one in news:
                if one.id not in shown and (order is None or one.order_id == order.broker_order_id):
                    found.append(one)
                shown.add(one.id)
            if order is not None and sum((one.qty for one in found), ZERO) >= order.filled_quantity:
                return found
            query["page_token"] = _sound(partial(_newest, page)).id
        raise LookupFailed(f"fills: more than {MAX_PAGES} pages")

    # ---------------------------------------------------------------- one pass over everything

    async def snapshot(self, since: int) -> Snapshot:
        """In the order that shows what changes meanwhile: clock, positions, orders, fills, positions."""
        account = await self.account()
        failed: dict[str, str] = {}

        async def section(name: str, read: Callable[[], Awaitable[T]]) -> T | None:
            try:
                return await read()
            except RateLimited:
                raise
            except LookupFailed as error:
                failed.setdefault(name, str(error))
                return None

        clock = await section("clock", self.clock)
        before = await section("positions", self.positions)
        open_orders = await section("open_orders", lambda: self.orders("open", None))
        recent = await section("recent_orders", lambda: self.orders("all", since))
        fills = await section("fills", lambda: self.fills(since))
        after = await section("positions", self.positions)
        return Snapshot(
            account=account,
            positions=after or {},
            open_orders=open_orders or [],
            fills=fills or [],
            recent_orders=recent or [],
            positions_before=before or {},
            failed=failed,
            clock_offset=None if clock is None else clock[1],
            pages=self.pages,
            requests=self.requests,
        )

    # ---------------------------------------------------------------- requests

    async def _ask(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        self.requests += 1
        return await self._http.get(path, query)

    async def _get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return _body(await self._ask(path, query), path)

    async def _data(self, path: str, query: Mapping[str, str] | None = None) -> bytes | None:
        """Market data; None where the venue says that it has none of the symbol."""
        self.requests += 1
        answer = await self._http.get(path, query, data=True)
        if answer.status in (400, 403, 404, 422) and trouble_of(answer) is not None:
            return None
        return _body(answer, path)


def _last_time(page: list[wire.Order]) -> int:
    """Raises ValueError."""
    return max(row.submitted for row in page)


def _newest(page: list[wire.FillActivity]) -> wire.FillActivity:
    """The last of the newest ones. Raises ValueError."""
    return max(enumerate(page), key=lambda numbered: (numbered[1].at, numbered[0]))[1]


def _body(answer: Answer, what: str) -> bytes:
    if answer.is_success:
        return answer.body
    trouble = trouble_of(answer)
    said = "" if trouble is None else f" {trouble.code or ''} {trouble.message}"
    if answer.status in (401, 403):
        said = f"{said}: Alpaca refuses the keys of this account, set them anew"
    raise LookupFailed(f"{what}: HTTP {answer.status}{said}"[:200])


def _is_absence(answer: Answer) -> bool:
    """A 404 that Alpaca has said itself: one of a gateway is a failed look."""
    trouble = trouble_of(answer) if answer.status == 404 else None
    return trouble is not None and trouble.is_absence


def _sound(read: Callable[[], T]) -> T:
    """What cannot be read has not been seen. Raises LookupFailed."""
    try:
        return read()
    except LookupFailed:
        raise
    except (ValueError, ArithmeticError) as error:
        raise LookupFailed(f"an answer that cannot be read: {error}"[:200]) from None
