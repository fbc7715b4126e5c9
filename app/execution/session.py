"""One account's session with its broker: connect, reconcile first, then look after what is open.

An account sends nothing before its own first reconciliation has ended (HOLES H38). What is working is
looked at again on the broker's sign and on a schedule; what is ambiguous is resolved from looks alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import structlog

from app.brokers.base import Account, Broker, LookupFailed
from app.clock import Clock
from app.domain import absence
from app.domain.order import State
from app.execution import exposure, replies
from app.execution.bounded import BoundedBroker
from app.execution.days import day_of
from app.execution.policy import AccountSetup, View
from app.execution.reconciler import Report, reconcile
from app.execution.resolver import resolve
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.ledger.orders import OPEN, Order
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
    """Owns the broker of one account. `changed` is called when the account's word changes; one that does
    not send only looks, and asks for no cancel either."""

    def __init__(
        self,
        setup: AccountSetup,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        interval: int,
        changed: Callable[[], None],
        *,
        sends: bool = True,
        steady: Callable[[], bool] = lambda: True,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.policy = setup.policy
        self._sends = sends
        self.broker: Broker = BoundedBroker(setup.broker, setup.policy.request_timeout)
        self.ready = asyncio.Event()
        self.closing = False
        """Set at stop: no further order is begun."""
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._interval = interval
        self._changed = changed
        self._steady = steady
        self._old = asyncio.Event()
        """Set when time has jumped: the session has to be opened anew."""
        self._activity = asyncio.Event()
        self._looking = asyncio.Lock()
        self._jitter = jitter
        self._looks: dict[int, tuple[int, int]] = {}
        """Of each order in doubt: how often it was looked up, and when (boot time) it is due again."""
        self._account: Account | None = None
        self._remembered: tuple[str, str, str] | None = None
        self._failures = 0
        self._fact = AccountFact(self.name, "connecting", "not connected yet")

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def fact(self) -> AccountFact:
        return self._fact

    def nudge(self) -> None:
        """Something of this account may have changed: look soon."""
        self._activity.set()

    @property
    def is_reachable(self) -> bool:
        """Whether the broker may be asked and sent to now: reconciled, and nothing has jumped since (H31)."""
        return self.ready.is_set() and self._steady()

    def begin_anew(self) -> None:
        """What is known of the broker is old: nothing is sent before it is connected and reconciled anew."""
        if self.closing:
            return
        self._old.set()
        self.ready.clear()
        self._say("connecting", "time has jumped: the session begins anew")
        self.nudge()

    async def run(self) -> None:
        """Connects, reconciles, then looks after the account until it is cancelled; a failure begins anew."""
        self.broker.on_activity(self.nudge)
        cause = "start"
        reason = ""
        while True:
            try:
                await self._connect(cause)
                cause = "reconnect"
                await self._look_after()
                await self.broker.close()
                self.broker.on_activity(self.nudge)
                continue
            except (LookupFailed, LedgerUnavailable) as error:
                reason = str(error) or type(error).__name__
                log.warning("account not ready", account=self.name, error=reason)
            except Exception as error:
                reason = f"an error in Onefill: {error!r}"
                log.exception("account session failed", account=self.name, error=repr(error))
            self.ready.clear()
            self._say("failing", reason)
            await asyncio.sleep(RECONNECT[min(self._failures, len(RECONNECT) - 1)])
            self._failures += 1

    async def close(self) -> None:
        self.ready.clear()
        self._say("stopped", "Onefill is stopping")
        await self.broker.close()

    async def view(self, instrument: str) -> View:
        """What the broker says right now about the account and one instrument. Raises LookupFailed."""
        books = await self._reader.call(
            lambda db: tuple(orders.books(Transaction(db, set()), self.name, instrument))
        )
        account = self._same(await self.broker.account())
        position = await self.broker.position(instrument)
        quote = await self.broker.quote(instrument)
        return View(account, position, quote, self.broker.facts.priced_by_payload, books)

    @contextlib.asynccontextmanager
    async def asked(self) -> AsyncIterator[Account]:
        """For a person's question: who the session is, while nobody else looks. Raises LookupFailed."""
        self._known_account()
        async with self._looking:
            yield self._same(await self.broker.account())

    async def reconcile(self, cause: str) -> Report:
        """One complete pass against the broker, recorded whatever it finds; FAILED where it cannot read."""
        async with self._looking:
            return await reconcile(
                self._writer,
                self._reader,
                self.broker,
                self.name,
                self._clock,
                cause,
                self.policy.drift_tolerance,
                self.policy.ghost_watch,
            )

    # ---------------------------------------------------------------- the session's life

    async def _connect(self, cause: str) -> None:
        self._old.clear()
        self._say("connecting", "opening the session")
        self._account = await self.broker.connect()
        await self._remember(self._account)
        self._say("reconciling", "comparing the ledger with the broker")
        self._looks.clear()
        await self._resolve_all()
        await self._reconcile_or_fail(cause)
        if self._old.is_set():
            return  # it jumped again meanwhile
        self.ready.set()
        self._say("ready", f"{self.policy.account.broker} account, orders are sent")
        self.nudge()

    async def _look_after(self) -> None:
        """Until the session is old."""
        last_pass, looks = self._clock.boot(), 0
        while not self._old.is_set():
            try:
                async with asyncio.timeout(LOOKS[min(looks, len(LOOKS) - 1)]):
                    await self._activity.wait()
                looks = 0
            except TimeoutError:
                looks += 1
            self._activity.clear()
            if self._old.is_set():
                return
            await self._resolve_all()
            for order in await self._orders(State.WORKING):
                await self._look_at(order)
            if self._clock.boot() - last_pass >= self._interval:
                await self._remember(self._same(await self.broker.account()))
                await self._reconcile_or_fail("timer")
                last_pass = self._clock.boot()
            self._failures = 0

    async def _reconcile_or_fail(self, cause: str) -> None:
        report = await self.reconcile(cause)
        if report.result == "FAILED":
            raise LookupFailed(report.reason)

    async def _resolve_all(self) -> None:
        account = self._known_account()
        unclear = await self._orders(State.AMBIGUOUS)
        self._looks = {order.id: self._looks.get(order.id, (0, 0)) for order in unclear}
        for order in unclear:
            looks, due = self._looks[order.id]
            if self._clock.boot() < due:
                continue
            wait = absence.wait(looks + 1, self._jitter())
            self._looks[order.id] = (looks + 1, self._clock.boot() + wait)
            try:
                async with self._looking:
                    await resolve(self._writer, self.broker, account, self._clock, order, self.policy)
            except LostUpdate as error:
                log.info("order moved meanwhile", order=order.name, error=str(error))

    async def _look_at(self, order: Order) -> None:
        """Looks one placed order up and books what is new; ends it first where that was asked for."""
        assert order.client_order_id is not None
        cid = order.client_order_id
        try:
            async with self._looking:
                if order.cancel_requested and self._sends:
                    await self.broker.cancel(cid)
                seen = await self.broker.find(cid)
                if seen is None:
                    await self._writer.run(lambda tx: self._gone(tx, order.id))
                    return
                if not replies.is_news(order, seen):
                    return
                fills = await self.broker.fills(cid)
                found = seen
                await self._writer.run(
                    lambda tx: replies.merge(tx, orders.get(tx, order.id), found, fills, self._clock.now())
                )
        except LostUpdate as error:
            log.info("order moved meanwhile", order=order.name, error=str(error))

    def _gone(self, tx: Transaction, order_id: int) -> None:
        """Open here, unknown at the broker: nobody guesses what became of it (DESIGN 6)."""
        order = orders.get(tx, order_id)
        if order.state is not State.WORKING or not self.broker.facts.absence_is_immediate:
            return
        now, account = self._clock.now(), self._known_account()
        replies.add_evidence(tx, order.id, account.identity, now, look="by id", result="absent")
        elsewhere = replies.sent_elsewhere(tx, order, account)
        reason = elsewhere or "MISSING_AT_BROKER open here, gone there"
        orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)

    async def _orders(self, state: State) -> list[Order]:
        where = f"{OPEN} AND account = ? AND state = ?"
        return await self._reader.call(
            lambda db: orders.where(Transaction(db, set()), where, (self.name, state.value))
        )

    # ---------------------------------------------------------------- who we are there

    def _known_account(self) -> Account:
        if self._account is None:
            raise LookupFailed("the session is not open")
        return self._account

    def _same(self, account: Account) -> Account:
        """Another account answers than the session was opened with: it begins anew (HOLES H13)."""
        known = self._known_account()
        if (account.identity, account.endpoint) != (known.identity, known.endpoint):
            raise LookupFailed(f"another account answers: {account.identity}, not {known.identity}")
        return account

    async def _remember(self, account: Account) -> None:
        """Keeps the account's identity, and what it was worth when the day began; writes only news."""
        now = self._clock.now()
        news = (account.identity, account.endpoint, day_of(now, self.policy.risk.day_zone))
        if news != self._remembered:
            await self._writer.run(lambda tx: self._write_account(tx, account, now))
            self._remembered = news

    def _write_account(self, tx: Transaction, account: Account, now: int) -> None:
        identity, endpoint = account.identity, account.endpoint
        known = tx.one("SELECT identity, endpoint FROM accounts WHERE name = ?", (self.name,))
        if known is not None and tuple(known) != (identity, endpoint):
            sql = "UPDATE accounts SET identity = ?, endpoint = ? WHERE name = ?"
            tx.change("accounts", sql, (identity, endpoint, self.name))
            if known[0] is not None:
                detail = {"was": known[0], "was_at": known[1], "is": identity, "is_at": endpoint}
                tx.event(now, f"broker:{self.name}", "another account", self.name, detail)
        exposure.begin_day(tx, self.name, self.policy, account.equity, now)

    def _say(self, word: str, reason: str) -> None:
        if (word, reason) != (self._fact.word, self._fact.reason):
            self._fact = AccountFact(self.name, word, reason)
            self._changed()
