"""Trading without a door: real ledger, real paper exchange, real lanes; alerts go straight to the claim.

Time stands still unless a test moves it; what the product does every second it does here every few
milliseconds, so that nothing has to be waited out.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
from structlog.testing import capture_logs

from app.brokers.base import Broker, OrderRequest, Placed
from app.brokers.paper import FillMode, PaperBroker, PaperExchange
from app.claims.base import Admission, Delivery, Verdict
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND, ManualClock
from app.domain import absence
from app.domain.alert import AlertRules, read_alert
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.domain.risk import TradingState
from app.domain.signal import Side
from app.engine.recovery import recover, register
from app.execution import lanes, session, trading
from app.execution.policy import AccountSetup, policies
from app.execution.trading import Trading
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.ticket import Ticket
from app.ledger.writer import Writer
from app.listener.body import read_body
from app.settings import Settings, SignalSizing, read_settings
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

TWO_ACCOUNTS = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["paper", "second"]

[[accounts]]
name = "paper"
broker = "paper"

[[accounts]]
name = "second"
broker = "paper"
"""

FAST = 0.01
"""Seconds between two sweeps, looks or tries to reconnect."""

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
    log: list[Any] = field(default_factory=list)
    """What was logged: a test's own lines are kept from the terminal, whose rendering reads files."""

    def logged(self, event: str) -> list[Any]:
        return [line for line in self.log if line["event"] == event]

    async def deliver(self, source: str = "tv", headers: HeaderKeys | None = None, **fields: Any) -> Verdict:
        """One alert through reading, key and claim; a key of its own unless the test gives one."""
        self.numbers += 1
        body = {"key": f"signal-{self.numbers}", "symbol": "AAPL", "price": "100", **fields}
        body = {name: value for name, value in body.items() if value is not None}
        raw = json.dumps(body).encode()
        settings = self.settings.source(source)
        assert settings is not None
        sizings = [account.sizing for account in self.settings.accounts if account.name in settings.accounts]
        sized_by_signal = any(isinstance(sizing, SignalSizing) for sizing in sizings)
        rules = AlertRules(reaches_live=False, needs_quantity=sized_by_signal, places_brackets=False)
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
        mine = "claim_id = coalesce(?, claim_id)"
        await self.until(f"SELECT count(*) FROM orders WHERE state NOT IN {SETTLED} AND {mine}", 0, number)
        return await self.orders(number)

    async def state(self, number: int, state: str) -> dict[str, Any]:
        """Waits until the order of that number is in that state, and returns it."""
        await self.until("SELECT state FROM orders WHERE id = ?", state, number)
        return await self.order(number)

    async def waits(self, number: int, reason: str) -> dict[str, Any]:
        """Waits until the order is PENDING for that reason, and returns it."""
        sql = "SELECT state || ' ' || coalesce(reason, '') FROM orders WHERE id = ?"
        await self.until(sql, f"PENDING {reason}", number)
        return await self.order(number)

    async def order(self, number: int) -> dict[str, Any]:
        (row,) = await self.reader.rows("SELECT * FROM v_orders WHERE number = ?", (number,))
        return row

    async def events(self, what: str) -> list[dict[str, Any]]:
        rows = await self.reader.rows("SELECT * FROM v_events WHERE what = ? ORDER BY number", (what,))
        return [{**row, "detail": json.loads(row["detail"])} for row in rows]

    async def until(self, sql: str, wanted: Any, *bindings: Any) -> None:
        """Waits, woken by commits, until the first column of the first row is what is wanted."""
        changed = asyncio.Event()
        ignore = self.writer.listen(lambda _tables: changed.set())
        seen: Any = None
        try:
            async with asyncio.timeout(30):
                while True:
                    rows = await self.reader.rows(sql, bindings)
                    seen = next(iter(rows[0].values())) if rows else None
                    if rows and seen == wanted:
                        return
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            orders = [(row["id"], row["state"], row["reason"]) for row in await self.orders()]
            raise AssertionError(f"still {seen!r}, not {wanted!r}; orders {orders}") from None
        finally:
            ignore()

    async def trade(self, **fields: Any) -> dict[str, Any]:
        """Delivers an alert that is to be claimed, waits for its one order to be over, and returns it."""
        verdict = await self.deliver(**fields)
        assert verdict.kind == "accepted", verdict
        (order,) = await self.settled(verdict)
        return order

    async def book(self, symbol: str = "AAPL", strategy: str | None = None) -> Decimal:
        """Our own net on a symbol: of one strategy's book, or of all."""
        rows = await self.reader.rows(
            "SELECT quantity FROM v_positions WHERE symbol = ? AND strategy = coalesce(?, strategy)",
            (symbol, strategy),
        )
        return sum((Decimal(row["quantity"]) for row in rows), Decimal(0))

    async def by_hand(self, side: str, quantity: str, *, symbol: str = "AAPL", price: str = "100") -> None:
        """A person's order at the exchange, past Onefill."""
        hand = PaperBroker(self.exchange, "paper", self.settings.accounts[0].cash, FillMode.INSTANT)
        request = OrderRequest(
            f"hand-{uuid.uuid4().hex}", symbol, Side(side), Decimal(quantity), reference_price=Decimal(price)
        )
        assert isinstance(await hand.submit(request, lambda: None), Placed)

    def paper_orders(self) -> list[dict[str, Any]]:
        """The exchange's own rows, read past everything of ours."""
        # Not with Python's own SQLite: two libraries in one process drop each other's locks.
        path = str(self.home / "paper.sqlite3")
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            columns = [row[1] for row in connection.execute("PRAGMA table_info(orders)")]
            rows = connection.execute("SELECT * FROM orders ORDER BY id").fetchall()
            return [dict(zip(columns, row, strict=True)) for row in rows]
        finally:
            connection.close()

    async def until_logged(self, *events: str) -> None:
        """Waits until one of these lines has been logged."""
        async with asyncio.timeout(30):
            while not any(self.logged(event) for event in events):  # noqa: ASYNC110
                await asyncio.sleep(FAST / 2)

    async def ready(self, account: str = "paper") -> None:
        """Waits until an account's first reconciliation is through and it sends."""
        async with asyncio.timeout(30):
            await self.trading._sessions[account].ready.wait()

    async def halt(self, state: str) -> None:
        await self.writer.run(lambda tx: tx.set_meta("trading_state", state))
        self.trading.note_state(TradingState(state))


async def passes(d: Desk, seconds: float) -> None:
    """Lets time pass, a quarter of a second with each sweep."""
    for _ in range(int(seconds * 4)):
        d.clock.advance(SECOND // 4)
        await asyncio.sleep(FAST)


async def decided(d: Desk, number: int) -> dict[str, Any]:
    """Lets time pass until the order is not waiting any more."""
    async with asyncio.timeout(30):
        while (await d.order(number))["state"] == "PENDING":
            await passes(d, 0.5)
    await d.until("SELECT state IN ('DONE', 'DENIED') FROM orders WHERE id = ?", 1, number)
    return await d.order(number)


@asynccontextmanager
async def desk(
    home: Path,
    config: str = CONFIG,
    *,
    clock: ManualClock | None = None,
    wrap: Callable[[Broker], Broker] = lambda broker: broker,
    start: bool = True,
    wall_mark: int = 0,
) -> AsyncIterator[Desk]:
    """Opens a desk on a home as the engine does, recovery included, and closes it in the engine's order.

    `wall_mark` is the newest wall time that an earlier run has seen.
    """
    clock = clock or ManualClock()
    settings = await asyncio.to_thread(read_settings, config, home / "config.toml")
    deaths: list[str] = []
    connection = await asyncio.to_thread(open_ledger, home, clock.now())
    writer = Writer(connection, clock, deaths.append)
    reader = Reader(home / FILE_NAME)
    exchange = PaperExchange(home / "paper.sqlite3", clock)
    await exchange.open()
    tasks = Tasks(lambda name, error: deaths.append(f"{name}: {error!r}"))
    await writer.run(lambda tx: register(tx, settings.all_sources, settings.accounts))
    await writer.run(lambda tx: recover(tx, clock.now()))
    part = Trading(
        writer=writer,
        reader=reader,
        clock=clock,
        tasks=tasks,
        accounts=_accounts(settings, exchange, wrap),
        interval=3_600 * SECOND,
        changed=lambda: None,
    )
    store = LedgerClaimStore(writer, clock, lambda _account, symbol, _exchange: symbol)
    opened = Desk(home, settings, clock, writer, reader, exchange, store, part, tasks, deaths)
    with _in_a_hurry(), capture_logs() as opened.log:
        if start:
            await part.start(wall_mark)
        try:
            yield opened
        finally:
            await part.stop()
            await tasks.stop()
            await exchange.close()
            await reader.close()
            await writer.close()
    assert deaths == []


@contextmanager
def _in_a_hurry() -> Iterator[None]:
    with (
        patch.object(session, "LOOKS", (FAST,)),
        patch.object(session, "RECONNECT", (FAST,)),
        patch.object(absence, "SCHEDULE", (0,)),
        patch.object(trading, "SWEEP", FAST),
        patch.object(lanes, "RECORD_RETRY", FAST),
    ):
        yield


def _accounts(
    settings: Settings, exchange: PaperExchange, wrap: Callable[[Broker], Broker]
) -> Mapping[str, AccountSetup]:
    found = {}
    for name, policy in policies(settings).items():
        broker = PaperBroker(exchange, name, policy.account.cash, FillMode(policy.account.fills))
        found[name] = AccountSetup(policy, wrap(broker))
    return found
