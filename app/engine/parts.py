"""From settings to what the engine starts: each source as the door knows it, each account's broker.

Pure but for making objects; nothing is opened here. A new broker is a line in `FACTORIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.brokers.alpaca import AlpacaBroker, addresses
from app.brokers.alpaca_http import Keys
from app.brokers.alpaca_symbols import instrument_of as alpaca_instrument_of
from app.brokers.base import Broker, LookupFailed
from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.brokers.paper import PaperBookRefused, PaperBroker, PaperExchange
from app.brokers.paper_faults import PaperFaults
from app.claims.base import Admission
from app.clock import SECOND, Clock
from app.domain.alert import AlertRules
from app.domain.key import KeyPolicy
from app.engine.credentials import Retired
from app.execution.policy import AccountSetup, policies
from app.listener.auth import Credential, SourceAccess, secret_digest
from app.secrets import Secrets, SecretsError, environment_name
from app.settings import Account, Settings, SignalSizing, Source


def door_sources(
    settings: Settings, credentials: Mapping[str, str], retired: Retired
) -> dict[str, SourceAccess]:
    """Every source as the door knows it, by name."""
    return {
        source.name: _access(
            settings,
            source,
            (Credential(secret_digest(credentials[source.name])), *retired.get(source.id, ())),
        )
        for source in settings.all_sources
    }


def alert_rules(settings: Settings, source: Source) -> AlertRules:
    """How a source's alerts are read."""
    accounts = [account for account in settings.accounts if account.name in source.accounts]
    return AlertRules(
        reaches_live=settings.reaches_live(source),
        needs_quantity=any(isinstance(account.sizing, SignalSizing) for account in accounts),
        places_brackets=all(account.brackets == "place" for account in accounts),
    )


def admission_of(settings: Settings, source: Source) -> Admission:
    """What the claim's transaction needs of a source."""
    return Admission(
        source_id=source.id,
        source=source.name,
        accounts=source.accounts,
        max_age=source.max_age,
        max_exit_age=source.max_exit_age,
        max_order_age=settings.execution.max_order_age,
        admit_exits=source.on_conflict == "admit_exits",
        entries_per_minute=source.rate,
    )


def key_policy(source: Source) -> KeyPolicy:
    """How the key of a source's alerts is chosen."""
    return KeyPolicy(
        body_key_is_label=source.body_key == "label",
        refuse_without_time=source.without_time == "refuse",
    )


def _access(settings: Settings, source: Source, credentials: tuple[Credential, ...]) -> SourceAccess:
    return SourceAccess(
        name=source.name,
        id=source.id,
        auth=source.auth,
        credentials=credentials,
        rules=alert_rules(settings, source),
        key_policy=key_policy(source),
        admission=admission_of(settings, source),
        duplicate_status=source.duplicate_status,
    )


@dataclass(frozen=True, slots=True)
class Shared:
    """What a factory may use beside the account's own settings. `timeout`: seconds that one call has."""

    exchange: PaperExchange
    clock: Clock
    make_secrets: Callable[[], Secrets]
    timeout: float


Factory = Callable[[Account, Shared], Broker]


def paper_broker(account: Account, shared: Shared) -> Broker:
    paper = PaperBroker(shared.exchange, account.name, account.cash, account.fills)
    return PaperFaults(paper, account.faults) if account.faults else paper


def alpaca_broker(account: Account, shared: Shared) -> Broker:
    return AlpacaBroker(
        addresses(account.live, account.base_url, account.data_url),
        partial(alpaca_keys, account.name, shared.make_secrets),
        shared.clock,
        live=account.live,
        timeout=shared.timeout,
    )


def alpaca_keys(account: str, make_secrets: Callable[[], Secrets]) -> Keys:
    """The keys as they are kept now. Blocking. Raises LookupFailed, which says how to set what is missing."""
    kept = make_secrets()
    found: list[str] = []
    for name in (f"account.{account}.key_id", f"account.{account}.secret_key"):
        try:
            secret = kept.find(name)
        except SecretsError as error:
            raise LookupFailed(str(error)) from None
        if secret.value is None:
            problem = f" ({secret.problem})" if secret.problem else ""
            remedy = f"type `onefill secret set {name}`, or set {environment_name(name)}"
            raise LookupFailed(f"there is no {name}{problem}: {remedy}")
        found.append(secret.value.strip())
    return Keys(*found)


FACTORIES: dict[str, Factory] = {"paper": paper_broker, "alpaca": alpaca_broker}
"""By the settings' word for a broker. A new one is a line here and a row in app.settings.BROKERS."""

Instruments = Callable[[str, str, str | None], str]
"""(account, symbol, exchange) as an alert has them -> the account's own spelling."""

SPELLINGS: dict[str, Callable[[str, str | None], str]] = {"alpaca": alpaca_instrument_of}
"""By broker. One that is not here takes every symbol as the alert spells it."""


def instruments(settings: Settings) -> Instruments:
    brokers = {account.name: account.broker for account in settings.accounts}

    def instrument_of(account: str, symbol: str, exchange: str | None) -> str:
        spell = SPELLINGS.get(brokers.get(account, ""))
        return symbol if spell is None else spell(symbol, exchange)

    return instrument_of


def instrument_of(_account: str, symbol: str, _exchange: str | None) -> str:
    """Paper's spelling: every symbol as the alert has it."""
    return symbol


class Brokers:
    """The brokers of all accounts, and what several of them share (the paper exchange)."""

    def __init__(
        self, home: Path, settings: Settings, clock: Clock, make_secrets: Callable[[], Secrets]
    ) -> None:
        """`make_secrets` may block: factories hand it on to whoever reads on a thread."""
        self._exchange = PaperExchange(home / PAPER_FILE, clock)
        self._has_paper = any(account.broker == "paper" for account in settings.accounts)
        self.refused: dict[str, str] = {}
        """Accounts that stay without a broker until the next start, and why."""
        shared = Shared(self._exchange, clock, make_secrets, settings.execution.request_timeout / SECOND)
        rules = policies(settings)
        self.setups = {
            account.name: AccountSetup(rules[account.name], FACTORIES[account.broker](account, shared))
            for account in settings.accounts
        }

    async def open(self) -> None:
        """Opens what accounts share. What must not be used stops its own accounts, not the door (H38)."""
        if not self._has_paper:
            return
        try:
            await self._exchange.open()
        except PaperBookRefused as error:
            self.refused = {
                name: str(error)
                for name, setup in self.setups.items()
                if setup.policy.account.broker == "paper"
            }

    async def close(self) -> None:
        await self._exchange.close()
