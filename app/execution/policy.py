"""What the configuration says about one account, in the shape that the gate reads.

No I/O and no decision; a payload can reach none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from app.brokers.base import Account as BrokerAccount
from app.brokers.base import Broker, InstrumentRules, Market
from app.clock import SECOND
from app.domain.risk import Limits
from app.domain.sizing import SMALLEST_STEP, WIDE, ZERO, round_down, worth
from app.ledger.orders import Book
from app.settings import Account, CashSizing, EquitySizing, QuantitySizing, Risk, Settings, SignalSizing


@dataclass(frozen=True, slots=True)
class Policy:
    """One account's rules. Durations in microseconds, the request timeout in seconds."""

    account: Account
    risk: Risk
    max_order_age: int
    arrival_bound: int
    absent_confirmations: int
    absent_min_age: int
    resolve_deadline: int
    ghost_watch: int
    request_timeout: float
    drift_tolerance: Decimal
    """How far broker and books may differ on an instrument before it is called drift."""

    @property
    def name(self) -> str:
        return self.account.name

    @property
    def sized_by_signal(self) -> bool:
        return isinstance(self.account.sizing, SignalSizing)

    def limits(self, symbol: str) -> Limits:
        return Limits(
            position_divisor=self.risk.position_divisor,
            max_order_notional=self.risk.max_order_notional,
            max_orders_per_minute=self.risk.max_orders_per_minute,
            max_orders_per_day=self.risk.max_orders_per_day,
            max_open_positions=self.risk.max_open_positions,
            max_daily_loss=self.risk.max_daily_loss,
            cooldown=self.risk.cooldown,
            capital=self.account.capital,
            allow_short=self.account.allow_short,
            symbol_allowed=self.account.allows(symbol),
            places_brackets=self.account.brackets == "place",
            price_collar=self.risk.price_collar,
            queues_when_closed=self.account.when_closed == "queue",
        )

    def entry_size(self, asked: Decimal | None, price: Decimal | None, equity: Decimal) -> Decimal | None:
        """The units of an entry by the account's sizing, rounded down; `price` is what one unit is worth.

        Zero where the signal states none; None where it takes a price and there is none.
        """
        match self.account.sizing:
            case SignalSizing():
                return ZERO if asked is None else asked
            case QuantitySizing(quantity=quantity):
                return round_down(quantity)
            case CashSizing(cash=cash):
                return None if price is None else worth(cash, price)
            case EquitySizing(fraction=fraction):
                return None if price is None else worth(WIDE.multiply(equity, fraction), price)


@dataclass(frozen=True, slots=True)
class AccountSetup:
    """An account as the engine hands it to trading: its rules, and the broker that serves it."""

    policy: Policy
    broker: Broker

    @property
    def name(self) -> str:
        return self.policy.name


def policies(settings: Settings) -> dict[str, Policy]:
    """The rules of every configured account, by name."""
    return {
        account.name: Policy(
            account=account,
            risk=settings.risk,
            max_order_age=settings.execution.max_order_age,
            arrival_bound=settings.reconciliation.arrival_bound,
            absent_confirmations=settings.reconciliation.absent_confirmations,
            absent_min_age=settings.reconciliation.absent_min_age,
            resolve_deadline=settings.reconciliation.resolve_deadline,
            ghost_watch=settings.reconciliation.ghost_watch,
            request_timeout=settings.execution.request_timeout / SECOND,
            drift_tolerance=SMALLEST_STEP * settings.reconciliation.drift_tolerance.steps,
        )
        for account in settings.accounts
    }


@dataclass(frozen=True, slots=True)
class View:
    """What the broker says right before an order is decided.

    `books` are our own on the instrument as the ledger had them before that look: where they have changed
    since, the look is older than our own fills and says nothing (HOLES H6).
    """

    account: BrokerAccount
    position: Decimal
    price: Decimal | None
    priced_by_payload: bool
    books: tuple[Book, ...]
    market: Market
    rules: InstrumentRules
    last_fill: int
    """The ledger's newest fill when the look began: the cash was read after it."""
    flips_in_one_order: bool = True
    clock_offset: int = 0
    """The venue's clock minus ours, as it was last measured, in microseconds."""
    expires: bool = False
    """Whether the venue keeps the arrival deadline of a request itself."""
    known_as: str | None = None
    """A client order id of this order's that the broker knows although nothing was sent (HOLES H39)."""
