"""What a broker is to Onefill: a table of facts, and calls that never guess.

The classifier and the resolver read the facts and contain no broker's name. An adapter never retries a
placement, never turns a failed lookup into 'not found', and never trades through an endpoint that carries
no client order id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from app.domain.client_order_id import IdForm
from app.domain.order import OrdStatus
from app.domain.signal import OrderType, Side, TimeInForce


class IdClass(StrEnum):
    """What a broker does with a client order id that it has seen (facts/brokers-and-reconciliation 2.1)."""

    A = "A"  # a replay returns the original order
    B = "B"  # unique for good: a replay is refused
    C = "C"  # unique only while the first order is open
    D = "D"  # signed once
    E = "E"  # a label, nothing more


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, in microseconds, the venue still finds an order by a look; None is for good."""

    open: int | None = None
    canceled_unfilled: int | None = None
    filled: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    id_class: IdClass
    flips_in_one_order: bool
    """Whether one order may take a position through zero to the other side."""
    reduce_only_enforced: bool
    priced_by_payload: bool
    """True only for the paper broker: the alert's own price stands in for a quote (HOLES H8)."""
    absence_is_immediate: bool
    """True where one complete look that finds nothing is proof (paper: same machine, no wire)."""
    arrival_deadline_field: str | None = None
    """The request's field that says until when it may arrive and that the venue keeps; None: it has none."""
    id_form: IdForm = IdForm.HEX32
    ladder: tuple[str, ...] = ("by id",)
    """Names of the rungs that a complete look climbs, for the evidence and the screen."""
    retention: Retention = Retention()
    requests_per_minute: int | None = None
    """The venue's limit for one account, orders and looks together; None: there is none."""
    has_sessions: bool = False
    """Whether some instruments trade only while their market is open."""

    @property
    def orders_expire(self) -> bool:
        """Whether each request carries an expiry that the venue keeps: later than that it cannot arrive."""
        return self.arrival_deadline_field is not None


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """What is sent. Quantities and prices are plain Decimals; the instrument is the broker's own spelling."""

    client_order_id: str
    instrument: str
    side: Side
    quantity: Decimal
    type: OrderType = OrderType.MARKET
    limit_price: Decimal | None = None
    stop_price: Decimal | None = None
    tif: TimeInForce | None = None
    reference_price: Decimal | None = None
    """The alert's price; only a broker that is priced by the payload may look at it."""
    not_after: int | None = None
    """The latest arrival, UTC microseconds: what goes into the expiry field where the venue has one."""
    extended_hours: bool = False
    reduces: bool = False
    """Whether it only makes a position smaller; a venue with a reduce-only field is told so."""


@dataclass(frozen=True, slots=True)
class BrokerOrder:
    """An order as the broker knows it."""

    broker_order_id: str
    client_order_id: str | None
    instrument: str
    side: Side
    quantity: Decimal
    status: OrdStatus
    filled_quantity: Decimal
    average_price: Decimal | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Fill:
    exec_id: str
    broker_order_id: str
    client_order_id: str | None
    instrument: str
    side: Side
    quantity: Decimal
    price: Decimal
    fee: Decimal
    at: int


@dataclass(frozen=True, slots=True)
class Account:
    """Who we are at the broker, and what the account holds. `identity` is the broker's own account number."""

    identity: str
    endpoint: str
    cash: Decimal
    equity: Decimal
    blocked: str = ""
    """Why the venue takes no orders of this account now; empty where it does."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The broker has the order and says so with our client order id."""

    order: BrokerOrder


@dataclass(frozen=True, slots=True)
class Refused:
    """A proven refusal: the broker looked at this order and will never work it."""

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DuplicateId:
    """The broker says that it has seen this client order id before."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unsent:
    """Proved: not one byte of the order left. `reason` says what held it back."""

    reason: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """Proved: the venue did not process it, because we ask too often. As good as unsent, but the next send
    waits at least `retry_after` microseconds."""

    detail: str
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Anything else. Bytes may have left; only a look at the broker can tell."""

    detail: str


SubmitReply = Placed | Refused | DuplicateId | Unsent | Throttled | Unknown


class LookupFailed(Exception):
    """A look at the broker that did not come back complete. Evidence of nothing."""


class RateLimited(LookupFailed):
    """The venue wants to be left alone for `retry_after` microseconds (None: it does not say how long).

    A pause, not a failure: it counts as nothing.
    """

    def __init__(self, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class HeldBack(Exception):
    """Raised by the last check before the first byte: the order must not leave. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


LastCheck = Callable[[], None]
"""Called by the adapter in the last moment before the first byte; HeldBack stops the order (HOLES H30, H31).

It may be called on a thread of the adapter's: it reads flags and clocks, and never waits.
"""


@dataclass(frozen=True, slots=True)
class Market:
    """Whether an instrument trades now. `next_open` is UTC microseconds, None where nobody knows."""

    is_open: bool
    reason: str
    next_open: int | None = None


@dataclass(frozen=True, slots=True)
class InstrumentRules:
    """What the venue says of an instrument. A symbol that it does not know is not tradable, with a reason."""

    step: Decimal
    """Quantities are multiples of it."""
    minimum: Decimal
    """The smallest quantity of one order."""
    is_tradable: bool
    is_shortable: bool
    multiplier: Decimal = Decimal(1)
    """What one unit is worth at a price of one."""
    reason: str = ""
    """Why it is not tradable."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a reconciliation reads, in one pass. Positions are signed, by instrument.

    A section that could not be read to its end is named in `failed`, and what its field holds is no evidence:
    it is UNKNOWN, never empty and never flat. Whose account it is was read: else there is no snapshot.
    """

    account: Account
    positions: dict[str, Decimal]
    """As they were after orders and fills were read."""
    open_orders: list[BrokerOrder]
    fills: list[Fill] = field(default_factory=list)
    recent_orders: list[BrokerOrder] = field(default_factory=list)
    """Every order of any state that was created since the time asked for."""
    positions_before: dict[str, Decimal] = field(default_factory=dict)
    """As they were before orders and fills were read."""
    failed: dict[str, str] = field(default_factory=dict)
    """By section (SECTIONS): why it is unknown."""
    clock_offset: int | None = None
    """The venue's clock minus ours, in microseconds; None where it is not known."""
    pages: int = 0
    requests: int = 0


SECTIONS = ("clock", "positions", "open_orders", "recent_orders", "fills")


class Broker(Protocol):
    """One account at one broker. Every method may raise LookupFailed, except `submit`, which answers."""

    @property
    def facts(self) -> BrokerFacts: ...

    async def connect(self) -> Account:
        """Opens the session and reads the account's identity."""
        ...

    async def close(self) -> None: ...

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply: ...

    async def cancel(self, client_order_id: str) -> None:
        """Asks for a cancel. Only a later look tells what became of it."""
        ...

    async def find(self, client_order_id: str) -> BrokerOrder | None:
        """The order under this id in any state; None only when a complete look found none."""
        ...

    async def account(self) -> Account: ...

    async def position(self, instrument: str) -> Decimal:
        """The signed position; zero only when the read succeeded and said so."""
        ...

    async def quote(self, instrument: str) -> Decimal | None:
        """The venue's own price, at most 60 s old; where the payload prices, the last one that was shown."""
        ...

    async def fills(self, client_order_id: str) -> list[Fill]: ...

    async def snapshot(self, since: int) -> Snapshot:
        """One pass for the reconciler: account, positions, open orders, orders and fills from `since` on.

        Raises LookupFailed only where nothing at all could be read, or not whose account it is.
        """
        ...

    async def market(self, instrument: str) -> Market:
        """Whether the instrument trades now, regular session."""
        ...

    async def rules(self, instrument: str) -> InstrumentRules:
        """Steps and limits of an instrument. One that the venue does not know is not tradable."""
        ...

    async def observe_price(self, instrument: str, price: Decimal) -> None:
        """Shows the broker an alert's price; brokers with a market of their own ignore it."""
        ...

    def on_activity(self, wake: Callable[[], None]) -> None:
        """`wake` is called on the loop whenever an order of this account may have changed."""
        ...
