"""Alpaca's JSON and what it is in Python: orders, fills, positions, the account, and how it refuses.

Pure. Money and quantities are strings there and Decimals here; a word that is not known is never taken for
an end. Sources: docs.alpaca.markets (Trading API v2), facts/brokers-and-reconciliation 2.2.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from app.brokers.alpaca_symbols import as_pair, is_coin
from app.brokers.base import Account, BrokerFacts, BrokerOrder, Fill, IdClass, LookupFailed, OrderRequest
from app.brokers.classify import ReplyCodes, Rule
from app.domain.number import bounded, plain
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side, TimeInForce
from app.domain.times import read_time

T = TypeVar("T")
ZERO = Decimal(0)
NOT_FOUND = "404"
"""How the codes of 'there is none' begin: 40410000 and its kin."""

FACTS = BrokerFacts(
    id_class=IdClass.B,
    flips_in_one_order=False,
    reduce_only_enforced=False,
    priced_by_payload=False,
    absence_is_immediate=False,
    ladder=("by id", "open orders", "all orders", "fills", "positions"),
    requests_per_minute=200,
    has_sessions=True,
)

_STATUSES = {
    "pending_new": OrdStatus.PENDING_NEW,
    "accepted": OrdStatus.NEW,
    "new": OrdStatus.NEW,
    "partially_filled": OrdStatus.PARTIALLY_FILLED,
    "pending_cancel": OrdStatus.PENDING_CANCEL,
    "filled": OrdStatus.FILLED,
    "canceled": OrdStatus.CANCELED,
    "expired": OrdStatus.EXPIRED,
    "rejected": OrdStatus.REJECTED,
    # A person has put another order in its place: ours has ended, the new one is a stranger's.
    "replaced": OrdStatus.CANCELED,
}
"""Those that are not here (held, suspended, stopped, done_for_day, calculated, ...) may still fill: open."""

_TIFS = {
    TimeInForce.DAY: "day",
    TimeInForce.GTC: "gtc",
    TimeInForce.IOC: "ioc",
    TimeInForce.FOK: "fok",
}


class Answer(msgspec.Struct):
    """What Alpaca sends. One number that nobody can count with makes the whole of it unreadable."""

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec makes an error of the whole answer."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, Decimal):
                bounded(value)


class Order(Answer):
    id: str
    side: str
    status: str
    created_at: str
    symbol: str = ""
    client_order_id: str | None = None
    submitted_at: str | None = None
    asset_class: str = ""
    qty: Decimal | None = None
    filled_qty: Decimal = ZERO
    filled_avg_price: Decimal | None = None

    @property
    def submitted(self) -> int:
        """What lists are ordered by."""
        return _time(self.submitted_at or self.created_at)

    def read(self) -> BrokerOrder:
        """Raises ValueError."""
        # An order for an amount of money has no quantity until it has filled.
        quantity = _number(self.qty) if self.qty is not None else _number(self.filled_qty)
        filled = _number(self.filled_qty)
        status = _STATUSES.get(self.status)
        if status is None:
            status = OrdStatus.PARTIALLY_FILLED if filled else OrdStatus.NEW
        return BrokerOrder(
            broker_order_id=self.id,
            client_order_id=self.client_order_id or None,
            instrument=spelled(self.symbol, self.asset_class),
            side=_side(self.side),
            quantity=quantity,
            status=status,
            filled_quantity=filled,
            average_price=None if self.filled_avg_price is None else _number(self.filled_avg_price),
            created_at=_time(self.created_at),
        )


class FillActivity(Answer):
    """It names the order by Alpaca's id alone."""

    id: str
    transaction_time: str
    price: Decimal
    qty: Decimal
    side: str
    order_id: str
    symbol: str = ""

    @property
    def at(self) -> int:
        return _time(self.transaction_time)

    def read(self, order: BrokerOrder | None) -> Fill:
        """`order` is the one that it belongs to, where that is known. Raises ValueError."""
        return Fill(
            exec_id=self.id,
            broker_order_id=self.order_id,
            client_order_id=None if order is None else order.client_order_id,
            instrument=self.symbol if order is None else order.instrument,
            side=_side(self.side),
            quantity=_above_zero(self.qty),
            price=_number(self.price),
            # No commission; what regulators take is booked by the day and not by the fill.
            fee=ZERO,
            at=self.at,
        )


class Position(Answer):
    symbol: str
    qty: Decimal
    side: str
    asset_class: str = ""

    def read(self) -> tuple[str, Decimal]:
        """The instrument and its signed quantity. Raises ValueError where side and sign disagree."""
        if self.side not in ("long", "short"):
            raise ValueError(f"a position of {self.symbol} that cannot be read")
        if self.side == "long" and self.qty < 0:
            raise ValueError(f"a long position of {self.symbol} below zero")
        signed = abs(self.qty) if self.side == "long" else -abs(self.qty)
        return spelled(self.symbol, self.asset_class), signed


class AccountAnswer(Answer):
    account_number: str
    cash: Decimal
    equity: Decimal
    status: str = "ACTIVE"
    trading_blocked: bool = False
    account_blocked: bool = False
    trade_suspended_by_user: bool = False

    def read(self, endpoint: str) -> Account:
        if not self.account_number:
            raise ValueError("an account without a number")
        why = [
            words
            for is_so, words in (
                (self.status != "ACTIVE", f"the account is {self.status}"),
                (self.account_blocked, "the account is blocked"),
                (self.trading_blocked, "trading is blocked"),
                (self.trade_suspended_by_user, "trading was suspended in Alpaca's settings"),
            )
            if is_so
        ]
        return Account(
            identity=self.account_number,
            endpoint=endpoint,
            cash=self.cash,
            equity=self.equity,
            blocked=", ".join(why),
        )


class Clock(msgspec.Struct):
    timestamp: str
    is_open: bool
    next_open: str | None = None

    @property
    def at(self) -> int:
        return _time(self.timestamp)

    @property
    def opens_at(self) -> int | None:
        return None if self.next_open is None else _time(self.next_open)


class Asset(Answer):
    symbol: str
    tradable: bool
    status: str = "active"
    shortable: bool = False
    easy_to_borrow: bool = False
    fractionable: bool = False
    min_order_size: Decimal | None = None
    min_trade_increment: Decimal | None = None
    asset_class: str = msgspec.field(name="class", default="")


class Trade(Answer):
    t: str
    p: Decimal


class Quote(Answer):
    t: str
    ap: Decimal = ZERO
    bp: Decimal = ZERO


class StockTrade(msgspec.Struct):
    trade: Trade | None = None


class StockQuote(msgspec.Struct):
    quote: Quote | None = None


class CoinTrades(msgspec.Struct):
    trades: dict[str, Trade]


class CoinQuotes(msgspec.Struct):
    quotes: dict[str, Quote]


class Trouble(msgspec.Struct):
    """What Alpaca says instead of an answer."""

    code: int = 0
    message: str = ""

    @property
    def is_absence(self) -> bool:
        # A wrong address is no absence, whatever code it comes with.
        return str(self.code).startswith(NOT_FOUND) and "endpoint" not in self.message


def decode(body: bytes, kind: type[T], what: str) -> T:
    """Raises LookupFailed for whatever is not what was asked for: a page, half an answer, nothing."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArithmeticError) as error:
        raise LookupFailed(f"{what}: an answer that cannot be read: {error}"[:200]) from None


def spelled(symbol: str, asset_class: str) -> str:
    """Coins have a slash in orders and none in positions; here they always have it."""
    return (as_pair(symbol) or symbol) if asset_class == "crypto" else symbol


def body_of(request: OrderRequest, arrival_deadline_field: str | None) -> bytes:
    """The order as it is sent. A plain order only: no notional amounts, no legs."""
    coin = is_coin(request.instrument)
    tif = request.tif or (TimeInForce.GTC if coin else TimeInForce.DAY)
    body: dict[str, Any] = {
        "symbol": request.instrument,
        "qty": plain(request.quantity),
        "side": request.side.value,
        "type": request.type.value,
        "time_in_force": _TIFS[tif],
        "client_order_id": request.client_order_id,
    }
    for name, price in (("limit_price", request.limit_price), ("stop_price", request.stop_price)):
        if price is not None:
            body[name] = plain(price)
    if request.extended_hours and not coin:
        body["extended_hours"] = True
    if arrival_deadline_field is not None and request.not_after is not None:
        body[arrival_deadline_field] = rfc3339(request.not_after)
    return msgspec.json.encode(body)


def fault_of(request: OrderRequest) -> str | None:
    """Why Alpaca would refuse the order whatever the market is, in words; None where it would not."""
    coin, tif = is_coin(request.instrument), request.tif
    if coin:
        if request.type is OrderType.STOP:
            return "Alpaca has no plain stop orders for coins: use a stop_limit order"
        if tif is TimeInForce.DAY:
            return "Alpaca trades coins around the clock: tif is gtc or ioc, not day"
        return None
    if request.quantity % 1 and tif not in (None, TimeInForce.DAY):
        return f"Alpaca takes parts of a share only in orders for the day, not with tif {tif}"
    if request.extended_hours and (
        request.type is not OrderType.LIMIT or tif not in (None, TimeInForce.DAY, TimeInForce.GTC)
    ):
        return "Alpaca takes only limit orders, day or gtc, outside the session"
    return None


def read_order(answer: Any) -> BrokerOrder:
    """The order in a decoded answer. Raises ValueError."""
    try:
        return msgspec.convert(answer, Order).read()
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


CODES = ReplyCodes(
    read_order=read_order,
    # The code is shared with other faults of an order: the words decide (alpacahq/Alpaca-API 135).
    duplicate=(Rule(statuses=(422,), message=r"client[\s_-]?order[\s_-]?id must be unique"),),
    refused=(
        Rule(statuses=(400,), code="400[0-9]{5}"),
        Rule(statuses=(401,), code="401[0-9]{5}"),
        # Said by the gate of the venue about the keys, before any order is looked at.
        Rule(statuses=(401,), message=r"^(unauthorized|request is not authorized)\.?$"),
        Rule(statuses=(403,), message=r"^(forbidden|access forbidden|request is not authorized)\.?$"),
        Rule(statuses=(403,), code="403[0-9]{5}"),
        Rule(statuses=(404,), code="404[0-9]{5}"),
        Rule(statuses=(422,), code="(400|422)[0-9]{5}"),
    ),
    throttled=(
        Rule(statuses=(429,), code="429[0-9]{5}"),
        # Alpaca's own words without its code; a gateway's 429 is a page, or JSON in another shape.
        Rule(statuses=(429,), message=r"^(rate limit exceeded|too many requests)\.?$"),
    ),
)


def rfc3339(at: int) -> str:
    """UTC microseconds as Alpaca's filters take them."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"


def _time(text: str) -> int:
    """Microseconds of RFC 3339 with nanoseconds. Raises ValueError."""
    return read_time(text)


def _side(word: str) -> Side:
    """`sell_short` is a sale. Raises ValueError."""
    return Side("sell" if word == "sell_short" else word)


def _number(number: Decimal) -> Decimal:
    if number < 0:
        raise ValueError(f"below zero: {number}")
    return number


def _above_zero(number: Decimal) -> Decimal:
    """A fill of nothing is no fill."""
    if number <= 0:
        raise ValueError(f"not above zero: {number}")
    return number
