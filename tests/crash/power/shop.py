"""A home opened by the product's own opening and recovery, without a door: what a power cut is tried on.

The alerts of a run, the promises that were made in it, and what may be held against them. Time stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from app.brokers.base import Broker, LastCheck, OrderRequest, Placed, SubmitReply
from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.brokers.paper import PaperBroker, PaperExchange
from app.claims.base import Verdict
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND, ManualClock
from app.engine import opening
from app.engine.opening import Opened, open_home
from app.engine.parts import instrument_of
from app.execution import session
from app.execution.policy import AccountSetup, policies
from app.execution.trading import Trading
from app.ledger import store, wal
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME as LEDGER_FILE
from app.ledger.store import open_ledger
from app.ledger.writer import Writer
from app.secrets import Secrets
from app.settings import Settings
from app.tasks import Tasks
from tests.crash.power.disk import Disk
from tests.execution.kit import Desk

CONFIG = """
[[sources]]
name = "tv"
id = "tv-id"
accounts = ["paper", "halves"]

[[accounts]]
name = "paper"
broker = "paper"

[[accounts]]
name = "halves"
broker = "paper"
fills = "partial"

[risk]
max_orders_per_minute = 0
"""
ACCOUNTS = ("paper", "halves")
BEGAN = 1_772_465_400 * SECOND
LOOKS = (0.02, 0.05)
"""Seconds between looks at what is open, instead of the product's."""
CHECKPOINT_PAGES = 60
"""Few, so that both files are checkpointed during a run."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One key. `side` is that of the one order in each account that it may become, '' for a cancel."""

    key: str
    symbol: str
    side: str
    fields: dict[str, Any]


ALERTS = (
    Alert("entry-one-1", "ONE", "buy", {"action": "buy", "quantity": "2"}),
    Alert("entry-two-2", "TWO", "buy", {"action": "buy", "quantity": "3"}),
    Alert(
        "resting-3", "SIX", "buy", {"action": "buy", "quantity": "4", "type": "limit", "limit_price": "90"}
    ),
    Alert("exit-one-4", "ONE", "sell", {"action": "exit"}),
    Alert("cancel-5", "SIX", "", {"action": "cancel"}),
    Alert("entry-ten-6", "TEN", "buy", {"action": "buy", "quantity": "1"}),
)


class Promises(PaperBroker):
    """The paper broker, each of its replies marked on the disk as a promise."""

    disk: Disk

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        reply = await super().submit(request, last_check)
        if isinstance(reply, Placed):
            self.disk.mark("placed", request.client_order_id)
        return reply


@dataclass(slots=True)
class Shop:
    """An opened home. `recovered` is what the opening found; nothing trades before `desk.trading.start`."""

    desk: Desk
    recovered: Opened
    broken: list[str] = field(default_factory=list)

    async def send(self, alert: Alert) -> Verdict:
        return await self.desk.deliver(key=alert.key, symbol=alert.symbol, **alert.fields)

    async def quiet(self) -> None:
        """Waits until nothing is on its way: left are orders that rest, and what waits behind a person's."""
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(self._time_passes_where_it_is_waited_for())
            await self.desk.until(
                "SELECT count(*) FROM orders o WHERE state IN ('SUBMITTING', 'AMBIGUOUS') "
                "OR (state = 'WORKING' AND (type = 'market' OR cancel_requested = 1)) "
                "OR (state = 'PENDING' AND (reason IS NULL OR NOT EXISTS (SELECT 1 FROM orders person "
                "WHERE person.state = 'NEEDS_OPERATOR' AND person.account = o.account)))",
                0,
            )
            ticking.cancel()

    async def _time_passes_where_it_is_waited_for(self) -> None:
        """A cut can leave the exchange behind the ledger: then an order looks again for five seconds."""
        waits = "SELECT 1 FROM orders WHERE state = 'PENDING' AND reason LIKE 'POSITION_UNCERTAIN%' LIMIT 1"
        while True:
            if await self.desk.reader.rows(waits):
                self.desk.clock.advance(SECOND // 2)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(home: Path, now: int, disk: Disk | None = None) -> AsyncIterator[Shop]:
    """Opens the home as a start does; with a disk, both files lie on it. Raises StartRefused and the like."""
    clock = ManualClock(now)
    vfs = None if disk is None else disk.name
    inspect = store._inspect
    with (
        patch.object(opening, "open_ledger", partial(open_ledger, vfs=vfs)),
        # It only reads. A read-only connection that cannot lock as it closes is an error only through apsw.
        patch.object(store, "_inspect", lambda path, known, _vfs: inspect(path, known, None)),
    ):
        started = await asyncio.to_thread(open_home, home, clock, lambda: Secrets(home, {}, keyring=None))
    deaths: list[str] = []
    writer = Writer(started.connection, clock, deaths.append)
    reader = Reader(home / LEDGER_FILE)
    exchange = PaperExchange(home / PAPER_FILE, clock, vfs)
    tasks = Tasks(lambda name, error: deaths.append(f"{name}: {error!r}"))
    trading = Trading(
        writer=writer,
        reader=reader,
        clock=clock,
        tasks=tasks,
        accounts=_setups(started.settings, exchange, disk),
        interval=3_600 * SECOND,
        changed=lambda: None,
    )
    claims = LedgerClaimStore(writer, clock, instrument_of)
    desk = Desk(home, started.settings, clock, writer, reader, exchange, claims, trading, tasks, deaths)
    try:
        await exchange.open()
        await exchange.run(lambda book: book._store._connection.wal_autocheckpoint(CHECKPOINT_PAGES))
        with patch.object(session, "LOOKS", LOOKS), patch.object(wal, "PAGES_IDLE", CHECKPOINT_PAGES):
            yield Shop(desk, started, deaths)
    finally:
        await trading.stop()
        await tasks.stop()
        await exchange.close()
        await reader.close()
        await writer.close()
        started.lock.release()


def _setups(settings: Settings, exchange: PaperExchange, disk: Disk | None) -> dict[str, AccountSetup]:
    setups = {}
    for name, policy in policies(settings).items():
        broker: Broker = PaperBroker(exchange, name, policy.account.cash, policy.account.fills)
        if disk is not None:
            marking = Promises(exchange, name, policy.account.cash, policy.account.fills)
            marking.disk = disk
            broker = marking
        setups[name] = AccountSetup(policy, broker)
    return setups


async def made(home: Path, disk: Disk | None = None) -> None:
    """A home as a first start leaves it, its accounts opened, closed in good order."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.toml").write_text(CONFIG)
    async with opened(home, BEGAN, disk) as shop:
        await shop.desk.trading.start(0)
        await shop.desk.until("SELECT count(*) FROM reconciliations", len(ACCOUNTS))


async def trade(home: Path, disk: Disk) -> None:
    """The run whose every write is recorded: claims alone and together, a duplicate, a conflict, fills in two
    pieces, a resting order and its cancel, an exit, checkpoints between, and a stop in good order."""
    async with opened(home, BEGAN, disk) as shop:
        await shop.desk.trading.start(0)
        await asyncio.gather(*(_answered(shop, disk, alert) for alert in ALERTS[:2]))
        await _answered(shop, disk, ALERTS[0])
        conflict = await shop.desk.deliver(key=ALERTS[1].key, symbol="TWO", action="buy", quantity="9")
        assert conflict.kind == "conflict", conflict
        await shop.quiet()
        for alert in ALERTS[2:]:
            await _answered(shop, disk, alert)
            await shop.quiet()
        assert shop.broken == []


async def _answered(shop: Shop, disk: Disk, alert: Alert) -> None:
    verdict = await shop.send(alert)
    assert verdict.kind in ("accepted", "duplicate"), verdict
    disk.mark("answered", alert.key)
