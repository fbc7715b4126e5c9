"""From settings to what the engine starts: each source as the door knows it, each account's broker.

Pure but for making objects; nothing is opened here. A new broker is one line in `_broker`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from app.brokers.base import Broker
from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.brokers.paper import PaperBookRefused, PaperBroker, PaperExchange
from app.brokers.paper_faults import PaperFaults
from app.claims.base import Admission
from app.clock import Clock
from app.domain.alert import AlertRules
from app.domain.key import KeyPolicy
from app.engine.credentials import Retired
from app.execution.policy import AccountSetup, policies
from app.listener.auth import Credential, SourceAccess, secret_digest
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


class Brokers:
    """The brokers of all accounts, and what several of them share (the paper exchange)."""

    def __init__(self, home: Path, settings: Settings, clock: Clock) -> None:
        self._exchange = PaperExchange(home / PAPER_FILE, clock)
        self._has_paper = any(account.broker == "paper" for account in settings.accounts)
        self.refused: dict[str, str] = {}
        """Accounts that stay without a broker until the next start, and why."""
        rules = policies(settings)
        self.setups = {
            account.name: AccountSetup(rules[account.name], self._broker(account))
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

    def _broker(self, account: Account) -> Broker:
        if account.broker == "paper":
            paper = PaperBroker(self._exchange, account.name, account.cash, account.fills)
            return PaperFaults(paper, account.faults) if account.faults else paper
        raise ValueError(f"no adapter for {account.broker}")


def instrument_of(_account: str, symbol: str, _exchange: str | None) -> str:
    """An account's own spelling of an alert's symbol. Paper takes every symbol as the alert spells it."""
    return symbol
