"""One account's session with its broker: connect, reconcile first, then look after what is open.

An account sends nothing before its own first reconciliation has ended (HOLES H38). What is working is
looked at again on the broker's sign and on a schedule; what is ambiguous is resolved from looks alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from app.brokers.base import Account, Broker, LookupFailed
from app.clock import Clock
from app.domain.order import State
from app.execution import replies
from app.execution.days import day_of
from app.execution.policy import AccountSetup, View
from app.execution.reconciler import Report, reconcile
from app.execution.resolver import resolve
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.ledger.orders import Order
from app.ledger.reader import Reader
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)

LOOKS = (0.5, 1.0, 2.0, 5.0)
"""Seconds between looks at what is open, the last one for ever; the broker's own sign comes before (H4)."""
RECONNECT = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


@dataclass(frozen=True, slots=True)
class AccountFact:
    """`word` is `connecting`, `reconciling`, `ready`, `failing` or `stopped`; `reason` is a sentence."""

    name: str
    word: str
    reason: str


class Session:
    """Owns the broker of one account. `changed` is called when the account's word changes."""

    def __init__(
        self,
        setup: AccountSetup,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        interval: int,
        changed: Callable[[], None],
    ) -> None:
        self.policy = setup.policy
        self.broker: Broker = setup.broker
        self.ready = asyncio.Event()
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._interval = interval
        self._changed = changed
        self._activity = asyncio.Event()
        self._looking = asyncio.Lock()
        self._account: Account | None = None
        self._fact = AccountFact(self.name, "connecting", "not connected yet")

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def fact(self) -> AccountFact:
        return self._fact

    @property
    def identity(self) -> str:
        return self._account.identity if self._account else ""

    def nudge(self) -> None:
        """Something of this account may have changed: look soon."""
        self._activity.set()

    async def run(self) -> None:
        """Connects, reconciles, then looks after the account until it is cancelled."""
        failures = 0
        self.broker.on_activity(self.nudge)
        while True:
            try:
                await self._connect()
                failures = 0
                await self._look_after()
            except (LookupFailed, OSError, LedgerUnavailable) as error:
                self.ready.clear()
                self._say("failing", str(error) or type(error).__name__)
                log.warning("account not ready", account=self.name, error=str(error))
                await asyncio.sleep(RECONNECT[min(failures, len(RECONNECT) - 1)])
                failures += 1

    async def close(self) -> None:
        self.ready.clear()
        self._say("stopped", "Onefill is stopping")
        await self.broker.close()

    async def view(self, instrument: str) -> View:
        """What the broker says right now about the account and one instrument. Raises LookupFailed."""
        began_at = self._clock.now()
        account = await self.broker.account()
        position = await self.broker.position(instrument)
        quote = await self.broker.quote(instrument)
        return View(account, position, quote, self.broker.facts.priced_by_payload, began_at)

    async def reconcile(self, cause: str) -> Report:
        """One complete pass against the broker, recorded whatever it finds."""
        async with self._looking:
            report = await reconcile(self._writer, self._reader, self.broker, self.name, self._clock, cause)
        if report.result == "FAILED":
            raise LookupFailed(report.reason)
        return report

    async def look(self, order: Order) -> Order:
        """Looks one placed order up and books what the broker shows."""
        assert order.client_order_id is not None
        seen = await self.broker.find(order.client_order_id)
        if seen is None:
            return await self._writer.run(lambda tx: self._gone(tx, order))
        fills = await self.broker.fills(order.client_order_id)
        now = self._clock.now()
        return await self._writer.run(
            lambda tx: replies.merge(tx, orders.get(tx, order.id), seen, fills, now)
        )

    async def _connect(self) -> None:
        self._say("connecting", "opening the session")
        account = await self.broker.connect()
        self._account = account
        await self._remember_account(account)
        self._say("reconciling", "comparing the ledger with the broker")
        await self._resolve_all()
        await self.reconcile("start")
        self._say("ready", f"{self.policy.account.broker} account, orders are sent")
        self.ready.set()

    async def _look_after(self) -> None:
        last_pass, looks = self._clock.boot(), 0
        while True:
            try:
                # Not wait_for: on Python 3.11 it swallows a cancel that meets its result.
                async with asyncio.timeout(LOOKS[min(looks, len(LOOKS) - 1)]):
                    await self._activity.wait()
                self._activity.clear()
                looks = 0
            except TimeoutError:
                looks += 1
            await self._resolve_all()
            for order in await self._orders("WORKING"):
                await self._look_at(order)
            if self._clock.boot() - last_pass >= self._interval:
                await self._remember_account(await self.broker.account())
                await self.reconcile("timer")
                last_pass = self._clock.boot()

    async def _look_at(self, order: Order) -> None:
        if order.cancel_requested and order.client_order_id and order.ord_status is not None:
            await self.broker.cancel(order.client_order_id)
        try:
            async with self._looking:
                await self.look(order)
        except LostUpdate as error:
            log.info("order moved meanwhile", order=order.name, error=str(error))

    async def _resolve_all(self) -> None:
        for order in await self._orders("AMBIGUOUS"):
            async with self._looking:
                await resolve(self._writer, self.broker, self.identity, self._clock, order)

    async def _orders(self, state: str) -> list[Order]:
        where = "account = ? AND state = ?"
        return await self._reader.call(
            lambda db: orders.where(Transaction(db, set()), where, (self.name, state))
        )

    def _gone(self, tx: Transaction, order: Order) -> Order:
        """Open here, unknown at the broker: nobody guesses what became of it (DESIGN 6)."""
        now = self._clock.now()
        replies.add_evidence(tx, order.id, self.identity, now, look="by id", result="absent")
        current = orders.get(tx, order.id)
        if current.state is not State.WORKING:
            return current
        reason = "MISSING_AT_BROKER open here, gone there"
        return orders.move(tx, current, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)

    async def _remember_account(self, account: Account) -> None:
        """The account's identity, and what it was worth when the trading day began."""
        await self._writer.run(lambda tx: self._remember(tx, account))

    def _remember(self, tx: Transaction, account: Account) -> None:
        day = day_of(self._clock.now(), self.policy.risk.day_zone)
        tx.change(
            "accounts",
            "UPDATE accounts SET identity = ?, endpoint = ? WHERE name = ?",
            (account.identity, account.endpoint, self.name),
        )
        tx.change(
            "accounts",
            "UPDATE accounts SET day = ?, day_equity = ? WHERE name = ? AND day IS NOT ?",
            (day, orders.plain(account.equity), self.name, day),
        )

    def _say(self, word: str, reason: str) -> None:
        if (word, reason) != (self._fact.word, self._fact.reason):
            self._fact = AccountFact(self.name, word, reason)
            self._changed()
