"""The settings as typed values: what the rest of Onefill reads.

Frozen, no I/O, no defaults: those stand in `keys.py`, once. Durations are whole microseconds, money and
quantities Decimals, percentages Decimal fractions (0.02 is 2 %). Names and meanings: CONTRACT 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

TEST_SOURCE = "test"
"""Name and id of the built-in source of `onefill send`; no configured source may take either (HOLES H29)."""


@dataclass(frozen=True, slots=True)
class BrokerKind:
    """What the settings must know of a broker before its adapter is built."""

    simulated: bool
    """No wire and no money: `cash`, `fills`, `faults` are its own; `live` and `base_url` are not."""
    brackets: bool
    """Whether it can place a take profit and a stop loss with an order."""
    sandbox_hosts: frozenset[str] = frozenset()
    """Hosts that are known to trade no money. Any other that is not this machine counts as live (H13)."""


BROKERS: dict[str, BrokerKind] = {
    "paper": BrokerKind(simulated=True, brackets=False),
    "alpaca": BrokerKind(
        simulated=False, brackets=False, sandbox_hosts=frozenset({"paper-api.alpaca.markets"})
    ),
}
"""The brokers of this version; a new adapter adds its row here."""

FORMATS = ("auto",)
"""The body formats of this version."""


class SignalSizing(msgspec.Struct, frozen=True, tag="signal"):
    """The order's size is the signal's quantity."""


class QuantitySizing(msgspec.Struct, frozen=True, tag="quantity"):
    """Every entry has this quantity."""

    quantity: Decimal


class CashSizing(msgspec.Struct, frozen=True, tag="cash"):
    """Every entry is worth this much of the account's currency."""

    cash: Decimal


class EquitySizing(msgspec.Struct, frozen=True, tag="equity"):
    """Every entry is worth this fraction of the account's equity."""

    fraction: Decimal


Sizing: TypeAlias = SignalSizing | QuantitySizing | CashSizing | EquitySizing
Symbols: TypeAlias = Literal["all"] | tuple[str, ...]


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is a loopback address, never a name; `port` 0 takes any free one."""

    host: str
    port: int


class Tunnel(msgspec.Struct, frozen=True, kw_only=True):
    """How alerts get in from outside. None is: said by nobody, and not needed by this kind."""

    kind: Literal["none", "cloudflared-quick", "cloudflared-named", "ngrok", "tailscale", "ssh", "own"]
    public_url: str | None
    """Without a slash at its end."""
    program: str | None
    protocol: Literal["auto", "quic", "http2"]
    ssh_target: str | None
    ssh_port: int | None
    ssh_remote: str | None
    ssh_key: str | None

    @property
    def fixed_url(self) -> str | None:
        """The public address where it is known without the tunnel running."""
        return self.public_url if self.kind != "none" else None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One sender of alerts. `id` is the namespace of its keys; empty until `with_source_ids` has made it."""

    name: str
    id: str
    auth: Literal["path", "body"]
    format: str
    accounts: tuple[str, ...]
    max_age: int
    """Microseconds."""
    max_exit_age: int
    """Microseconds."""
    without_time: Literal["window", "refuse"]
    body_key: Literal["identity", "label"]
    on_conflict: Literal["refuse", "admit_exits"]
    duplicate_status: Literal[200, 409]
    rate: int
    """Entries a minute; 0 is no limit of its own."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    broker: str
    cash: Decimal
    live: bool
    base_url: str | None
    """Without a slash at its end; None is the broker's own address."""
    data_url: str | None
    allow_short: bool
    sizing: Sizing
    brackets: Literal["refuse", "place"]
    symbols: Symbols
    capital: Decimal
    """0 is the broker's equity."""
    gate: Literal["hold", "hold_account"]
    when_closed: Literal["deny", "queue"]
    fills: Literal["async", "instant", "partial"]
    faults: tuple[str, ...]

    def allows(self, symbol: str) -> bool:
        """Whether this account may trade `symbol` (as a Signal spells it). An empty list allows nothing."""
        return self.symbols == "all" or symbol.upper() in self.symbols


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of 0 is no limit; a notional of 0 is the position ceiling; divisor and collar are never 0."""

    position_divisor: int
    max_order_notional: Decimal
    max_orders_per_minute: int
    max_orders_per_day: int
    max_open_positions: int
    max_daily_loss: Decimal
    day_zone: str
    price_collar: Decimal
    """A fraction of the venue's price."""
    cooldown: int
    """Microseconds."""


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """All in microseconds."""

    request_timeout: int
    max_order_age: int
    stop_grace: int


class DriftTolerance(msgspec.Struct, frozen=True):
    """How far broker and book may differ, in quantity steps of the instrument."""

    steps: int


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Times in microseconds."""

    interval: int
    positions_interval: int
    absent_confirmations: int
    absent_min_age: int
    arrival_bound: int
    resolve_deadline: int
    ghost_watch: int
    drift_tolerance: DriftTolerance


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """`bodies` and `keys` in microseconds; None is for ever."""

    bodies: int | None
    keys: int | None
    backups: int


class Updates(msgspec.Struct, frozen=True):
    check: bool
    url: str | None


class Quiet(msgspec.Struct, frozen=True):
    """Minutes of the day by this computer's clock; it may go over midnight."""

    start: int
    end: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One receiver of notices. Where `to` is a URL, that is the secret `notice.<name>.url`."""

    name: str
    to: Literal["desktop", "url"]
    kinds: tuple[str, ...]
    quiet: Quiet | None

    @property
    def secret(self) -> str:
        return f"notice.{self.name}.url"


class System(msgspec.Struct, frozen=True, kw_only=True):
    close: Literal["tray", "quit"]
    keep_awake: bool


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    listener: Listener
    tunnel: Tunnel
    sources: tuple[Source, ...]
    """The configured ones. The door serves `all_sources`."""
    accounts: tuple[Account, ...]
    risk: Risk
    execution: Execution
    reconciliation: Reconciliation
    retention: Retention
    updates: Updates
    notices: tuple[Notice, ...]
    system: System
    test_source: Source | None = None
    """The built-in source: reaches one account that trades no money; None where there is no such account."""

    @property
    def all_sources(self) -> tuple[Source, ...]:
        return self.sources if self.test_source is None else (*self.sources, self.test_source)

    def source(self, name: str) -> Source | None:
        return next((source for source in self.all_sources if source.name == name), None)

    def account(self, name: str) -> Account | None:
        return next((account for account in self.accounts if account.name == name), None)

    def reaches_live(self, source: Source) -> bool:
        """Whether an alert of this source can trade money."""
        return any(account.live for account in self.accounts if account.name in source.accounts)
