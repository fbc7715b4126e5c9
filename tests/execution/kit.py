"""Trading without a door: real ledger, real paper exchange, real lanes; alerts go straight to the claim.

Time stands still unless a test moves it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.brokers.base import Broker
from app.brokers.paper import FillMode, PaperBroker, PaperExchange
from app.claims.base import Admission, Delivery, Verdict
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND, ManualClock
from app.domain.alert import AlertRules, read_alert
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.execution.policy import AccountSetup, policies
from app.execution.trading import Trading
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.ticket import Ticket
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.listener.body import read_body
from app.settings import Settings, read_settings
from app.tasks import Tasks

CONFIG = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["paper"]

[[accounts]]
name = "paper"
broker = "paper"
"""

SETTLED = "('DONE', 'DENIED', 'NOT_PLACED', 'NEEDS_OPERATOR')"


@dataclass
class Desk:
    """What a test works with. `broker` may be wrapped by a test before the desk opens."""

    home: Path
    settings: Settings
    clock: ManualClock
    writer: Writer
    reader: Reader
    exchange: PaperExchange
    store: LedgerClaimStore
    trading: Trading
    tasks: Tasks
    deaths: list[str] = field(default_factory=list)
    numbers: int = 0

    async def deliver(self, source: str = "tv", headers: HeaderKeys | None = None, **fields: Any) -> Verdict:
        """One alert through reading, key and claim; a key of its own unless the test gives one."""
        self.numbers += 1
        body = {"key": f"signal-{self.numbers}", "symbol": "AAPL", "price": "100", **fields}
        body = {name: value for name, value in body.items() if value is not None}
        raw = json.dumps(body).encode()
        settings = self.settings.source(source)
        assert settings is not None
        rules = AlertRules(reaches_live=False, needs_quantity=True, places_brackets=False)
        alert = read_alert(read_body(raw), rules)
        policy = KeyPolicy(
            body_key_is_label=settings.body_key == "label",
            refuse_without_time=settings.without_time == "refuse",
        )
        key = choose_key(settings.id, alert, headers or HeaderKeys(), policy)
        admission = Admission(
            source_id=settings.id,
            source=settings.name,
            accounts=settings.accounts,
            max_age=settings.max_age,
            max_exit_age=settings.max_exit_age,
            max_order_age=self.settings.execution.max_order_age,
            admit_exits=settings.on_conflict == "admit_exits",
            entries_per_minute=settings.rate,
        )
        delivery = Delivery(
            settings.id, self.clock.now(), self.clock.boot(), raw.decode(), raw_fingerprint(raw)
        )
        return await self.store.claim(admission, delivery, alert.signal, key, Ticket())

    async def orders(self, claim_id: int | None = None) -> list[dict[str, Any]]:
        """Rows of v_orders, oldest first; of one signal where it is named."""
        sql = "SELECT * FROM v_orders WHERE signal = coalesce(?, signal) ORDER BY number"
        return await self.reader.rows(sql, (None if claim_id is None else f"S{claim_id}",))

    async def settled(self, verdict: Verdict | None = None) -> list[dict[str, Any]]:
        """Waits until every order (of one signal) is over, and returns them."""
        number = None if verdict is None else verdict.claim_id
        open_orders = f"SELECT count(*) AS n FROM orders WHERE state NOT IN {SETTLED} AND claim_id = coalesce(?, claim_id)"
        await self.until(open_orders, 0, number)
        return await self.orders(number)

    async def until(self, sql: str, wanted: Any, *bindings: Any) -> None:
        """Waits, woken by commits, until the first column of the first row is what is wanted."""
        changed = asyncio.Event()
        ignore = self.writer.listen(lambda _tables: changed.set())
        try:
            async with asyncio.timeout(10):
                while True:
                    rows = await self.reader.rows(sql, bindings)
                    if rows and next(iter(rows[0].values())) == wanted:
                        return
                    await changed.wait()
                    changed.clear()
        finally:
            ignore()

    async def trade(self, **fields: Any) -> dict[str, Any]:
        """Delivers an alert that is to be claimed, waits for its one order to be over, and returns it."""
        verdict = await self.deliver(**fields)
        assert verdict.kind == "accepted", verdict
        (order,) = await self.settled(verdict)
        return order

    async def book(self, symbol: str = "AAPL") -> Decimal:
        rows = await self.reader.rows("SELECT quantity FROM v_positions WHERE symbol = ?", (symbol,))
        return sum((Decimal(row["quantity"]) for row in rows), Decimal(0))

    def paper_orders(self) -> list[dict[str, Any]]:
        """The exchange's own rows, read past everything of ours."""
        import sqlite3

        connection = sqlite3.connect(f"file:{self.home / 'paper.sqlite3'}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute("SELECT * FROM orders ORDER BY id")]
        finally:
            connection.close()

    async def halt(self, state: str) -> None:
        from app.domain.risk import TradingState

        await self.writer.run(lambda tx: tx.set_meta("trading_state", state))
        self.trading.note_state(TradingState(state))


@asynccontextmanager
async def desk(
    home: Path,
    config: str = CONFIG,
    *,
    clock: ManualClock | None = None,
    wrap: Callable[[Broker], Broker] = lambda broker: broker,
    start: bool = True,
) -> AsyncIterator[Desk]:
    """Opens a desk on a home, and closes it in the engine's order."""
    clock = clock or ManualClock()
    settings = await asyncio.to_thread(read_settings, config, home / "config.toml")
    deaths: list[str] = []
    connection = await asyncio.to_thread(open_ledger, home, clock.now())
    writer = Writer(connection, clock, deaths.append)
    reader = Reader(home / FILE_NAME)
    exchange = PaperExchange(home / "paper.sqlite3", clock)
    await exchange.open()
    tasks = Tasks(lambda name, error: deaths.append(f"{name}: {error!r}"))
    await writer.run(lambda tx: _name_everything(tx, settings))
    trading = Trading(
        writer=writer,
        reader=reader,
        clock=clock,
        tasks=tasks,
        accounts=_accounts(settings, exchange, wrap),
        interval=3_600 * SECOND,
        changed=lambda: None,
    )
    store = LedgerClaimStore(writer, clock, lambda _account, symbol, _exchange: symbol)
    if start:
        await trading.start(0)
    opened = Desk(home, settings, clock, writer, reader, exchange, store, trading, tasks, deaths)
    try:
        yield opened
    finally:
        await trading.stop()
        await tasks.stop()
        await exchange.close()
        await reader.close()
        await writer.close()
    assert deaths == []


def _accounts(
    settings: Settings, exchange: PaperExchange, wrap: Callable[[Broker], Broker]
) -> Mapping[str, AccountSetup]:
    found = {}
    for name, policy in policies(settings).items():
        broker = PaperBroker(exchange, name, policy.account.cash, FillMode(policy.account.fills))
        found[name] = AccountSetup(policy, wrap(broker))
    return found


def _name_everything(tx: Transaction, settings: Settings) -> None:
    for source in settings.all_sources:
        if not tx.one("SELECT 1 FROM sources WHERE id = ?", (source.id,)):
            tx.insert("sources", {"id": source.id, "name": source.name})
    for account in settings.accounts:
        if not tx.one("SELECT 1 FROM accounts WHERE name = ?", (account.name,)):
            tx.insert("accounts", {"name": account.name, "broker": account.broker})
