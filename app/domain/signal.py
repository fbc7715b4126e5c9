"""What an alert means: the parsed Signal and its words.

Pure. A Signal is what the payload asks for, never what the configuration makes of it. Reading one out of
the payload's fields is `alert.py`; deciding what order it becomes is `book.py` and `risk.py`.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

import msgspec


class Action(StrEnum):
    BUY = "buy"
    SELL = "sell"
    EXIT = "exit"
    REVERSE = "reverse"
    CANCEL = "cancel"


class Direction(StrEnum):
    LONG = "long"
    SHORT = "short"
    FLAT = "flat"


class OrderType(StrEnum):
    MARKET = "market"
    LIMIT = "limit"
    STOP = "stop"
    STOP_LIMIT = "stop_limit"


class TimeInForce(StrEnum):
    DAY = "day"
    GTC = "gtc"
    IOC = "ioc"
    FOK = "fok"


class Side(StrEnum):
    BUY = "buy"
    SELL = "sell"

    @property
    def sign(self) -> int:
        return 1 if self is Side.BUY else -1


class KeySource(StrEnum):
    """Where an idempotency key came from (CONTRACT 3)."""

    BODY = "body"
    HEADER = "header"
    DERIVED = "derived"
    WINDOW = "window"


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One order as the payload asks for it.

    Quantities and prices are finite Decimals above zero (position sizes may be zero). Times are UTC
    microseconds. `symbol` is upper case without its exchange prefix; `interval` is TradingView's spelling
    (`1`, `15`, `240`, `1D`, `1W`, `1M`, `30S`). `price` is a reference only and never an order's own price.
    """

    symbol: str
    action: Action
    strategy: str | None = None
    exchange: str | None = None
    interval: str | None = None
    bar_time: int | None = None
    fired_at: int | None = None
    quantity: Decimal | None = None
    type: OrderType = OrderType.MARKET
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    price: Decimal | None = None
    tif: TimeInForce | None = None
    order_id: str | None = None
    market_position: Direction | None = None
    market_position_size: Decimal | None = None
    prev_market_position: Direction | None = None
    prev_market_position_size: Decimal | None = None
    sentiment: Direction | None = None
    take_profit: str | None = None
    """Canonical JSON of what was asked for; None when no bracket was asked for."""
    stop_loss: str | None = None
    reduce_only: bool = False
    paper_only: bool = False
    comment: str | None = None

    @property
    def target(self) -> Decimal | None:
        """The signed position the sender wants to end with, or None where the payload states no target.

        `flat` is zero with or without a size; long or short without a size states only a direction.
        """
        if self.market_position is Direction.FLAT or self.sentiment is Direction.FLAT:
            return Decimal(0)
        if self.market_position is None or self.market_position_size is None:
            return None
        return (
            self.market_position_size
            if self.market_position is Direction.LONG
            else -self.market_position_size
        )

    @property
    def previous(self) -> Decimal | None:
        """The signed position before this order, as the sender states it; None where it does not."""
        if self.prev_market_position is Direction.FLAT:
            return Decimal(0)
        if self.prev_market_position is None or self.prev_market_position_size is None:
            return None
        long = self.prev_market_position is Direction.LONG
        return self.prev_market_position_size if long else -self.prev_market_position_size


class InvalidSignal(Exception):
    """A payload that cannot become a Signal: answered 400 (CONTRACT 3).

    `reason` is a stable word (`missing_field`, `invalid_number`, ...), `fields` the names as they were sent,
    `detail` one sentence for a person: what is wrong, where, and what to do about it.
    """

    def __init__(self, reason: str, fields: tuple[str, ...] = (), detail: str = "") -> None:
        super().__init__(f"{reason} {', '.join(fields)} {detail}".strip())
        self.reason = reason
        self.fields = fields
        self.detail = detail
