"""One account's session with its broker: connect, reconcile first, then look after what is open.

An account sends nothing before its own first reconciliation has ended (HOLES H38). What is working is
looked at again on the broker's sign and on a schedule; what is ambiguous is resolved from looks alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import structlog

from app.brokers.base import Account, Broker, LookupFailed, RateLimited
from app.clock import SECOND, Clock
from app.domain import absence
from app.domain.order import State
from app.execution import exposure, identity
from app.execution.bounded import BoundedBroker
from app.execution.days import day_of
from app.execution.following import Following
from app.execution.identity import CLEARED, Standing
from app.execution.policy import AccountSetup, View
from app.execution.reconciler import reconcile
from app.execution.report import Report
from app.execution.resolver import resolve
from app.execution.viewing import look
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
PAUSE = 5 * SECOND
"""After an answer that asks for a pause and does not say how long."""
SOON = 5 * SECOND
"""Between passes while something does not agree."""
MOST_LOOKS = 5
"""Working orders that are looked up in one round where the venue counts requests."""
SKEW_WARNS = SECOND // 2
"""How far our clock may be from the venue's (facts/brokers-and-reconciliation.md 4.9)."""


@dataclass(frozen=True, slots=True)
class AccountFact:
    """`word` is `connecting`, `reconciling`, `ready`, `exits_only`, `blocked` (it reads and sends nothing),
    `failing` or `stopped`; `reason` is a sentence."""

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
        peers: Sequence[str] = (),
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
        self._following = Following(writer, reader, self.broker, clock, setup.policy, jitter)
        self._peers = peers
        self._account: Account | None = None
        self._remembered: tuple[str, str, str] | None = None
        self._standing = CLEARED
        self._blocked_there = ""
        self._clock_offset: int | None = None
        """The venue's clock minus ours, as the last pass has measured it."""
        self._last_result = ""
        self._last_pass = 0
        self._reconcile_due = False
        self._paused_until = 0
        self._trouble = ""
        self._turn = 0
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

    def begin_anew(self, why: str = "time has jumped: the session begins anew") -> None:
        """What is known of the broker is old: nothing is sent before it is connected and reconciled anew."""
        if self.closing:
            return
        self._old.set()
        self.ready.clear()
        self._say("connecting", why)
        self.nudge()

    async def run(self) -> None:
        """Connects, reconciles, then looks after the account until it is cancelled; a failure begins anew."""
        self.broker.on_activity(self.nudge)
        cause = "start"
        reason = ""
        while True:
            pause = 0.0
            try:
                await self._connect(cause)
                cause = "reconnect"
                await self._look_after()
                await self.broker.close()
                self.broker.on_activity(self.nudge)
                continue
            except (LookupFailed, LedgerUnavailable) as error:
                reason = str(error) or type(error).__name__
                pause = (error.retry_after or 0) / SECOND if isinstance(error, RateLimited) else 0.0
                log.warning("account not ready", account=self.name, error=reason)
            except Exception as error:
                reason = f"an error in Onefill: {error!r}"
                log.exception("account session failed", account=self.name, error=repr(error))
            self.ready.clear()
            self._say("failing", reason)
            await asyncio.sleep(max(pause, RECONNECT[min(self._failures, len(RECONNECT) - 1)]))
            self._failures += 1

    async def close(self) -> None:
        self.ready.clear()
        self._say("stopped", "Onefill is stopping")
        await self.broker.close()

    async def view(self, instrument: str) -> View:
        """What the broker says right now about the account and one instrument. Raises LookupFailed."""
        seen = await look(self._reader, self.broker, self.name, instrument, self._clock_offset or 0)
        self._same(seen.account)
        return seen

    @contextlib.asynccontextmanager
    async def asked(self) -> AsyncIterator[Account]:
        """For a person's question: who the session is, while nobody else looks. Raises LookupFailed."""
        self._known_account()
        async with self._looking:
            yield self._same(await self.broker.account())

    async def reconcile(self, cause: str) -> Report:
        """One pass against the broker, recorded whatever it finds; FAILED where it cannot read."""
        if self._account is None or not self._standing.may_read:
            # Not open, or not ours to compare with: nothing was read, and nothing is written.
            now = self._clock.now()
            return Report(self.name, cause, now, now, reason=self._standing.reason or self._fact.reason)
        async with self._looking:
            report = await reconcile(
                self._writer,
                self._reader,
                self.broker,
                self.policy,
                self._known_account(),
                self._clock,
                cause,
            )
        self._last_result = report.result
        if report.clock_offset is not None:
            self._clock_offset = report.clock_offset
        return report

    def reconcile_soon(self) -> None:
        """Something does not agree: a pass is due before its time."""
        self._reconcile_due = True
        self.nudge()

    # ---------------------------------------------------------------- the session's life

    async def _connect(self, cause: str) -> None:
        self._old.clear()
        self._say("connecting", "opening the session")
        self._account = await self.broker.connect()
        standing = await self._remember(self._account)
        if standing.may_read:
            self._say("reconciling", "comparing the ledger with the broker")
            self._looks.clear()
            await self._resolve_all()
            await self._reconcile_or_fail(cause, first=True)
        if self._old.is_set():
            return  # it jumped again meanwhile
        self._say_where_it_stands()
        self.nudge()

    async def _look_after(self) -> None:
        """Until the session is old."""
        self._last_pass, looks = self._clock.boot(), 0
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
            if self._clock.boot() < self._paused_until:
                continue
            try:
                await self._look_around()
            except RateLimited as limited:
                # The venue wants to be left alone: no failure, and evidence of nothing.
                pause = PAUSE if limited.retry_after is None else limited.retry_after
                self._paused_until = self._clock.boot() + pause
                log.info("looks pause", account=self.name, seconds=pause / SECOND, why=str(limited))

    async def _look_around(self) -> None:
        """One round: what is in doubt, what is working, and what is due."""
        due = self._clock.boot() - self._last_pass >= self._interval_now()
        if not self._standing.may_read:
            if due:
                self._last_pass = self._clock.boot()
                await self._remember(self._same(await self.broker.account()))
            return
        trouble = await self._resolve_all()
        trouble = await self._look_at_working() or trouble
        if due:
            self._reconcile_due = False
            await self._remember(self._same(await self.broker.account()))
            await self._reconcile_or_fail("timer")
            self._last_pass = self._clock.boot()
        self._trouble = trouble
        self._say_where_it_stands()
        self._failures = 0

    def _interval_now(self) -> int:
        """A pass that was asked for, or that a wrong clock waits for, comes sooner."""
        waits = self.entries_wait or bool(self._blocked_there)
        soon = self._reconcile_due or waits or self._last_result == "PARTIAL"
        return min(self._interval, SOON) if soon else self._interval

    async def _reconcile_or_fail(self, cause: str, *, first: bool = False) -> None:
        """Nothing is sent before a pass that has read everything (HOLES H38, facts 4.4)."""
        report = await self.reconcile(cause)
        if report.result == "FAILED" or (first and report.result == "PARTIAL"):
            raise LookupFailed(report.reason)

    async def _resolve_all(self) -> str:
        """Looks what is in doubt up, as far as it is due. Returns why a look failed, if one did."""
        account, trouble = self._known_account(), ""
        unclear = await self._orders(State.AMBIGUOUS)
        self._looks = {order.id: self._looks.get(order.id, (0, 0)) for order in unclear}
        for order in unclear:
            looks, due = self._looks[order.id]
            if self._clock.boot() < due:
                continue
            try:
                async with self._looking:
                    failed = await resolve(
                        self._writer, self.broker, account, self._clock, order, self.policy
                    )
                trouble = failed or trouble
            except LostUpdate as error:
                log.info("order moved meanwhile", order=order.name, error=str(error))
            wait = absence.wait(looks + 1, self._jitter())
            self._looks[order.id] = (looks + 1, self._clock.boot() + wait)
        return trouble

    async def _look_at_working(self) -> str:
        """Looks working orders up; where the venue counts requests only so many a round, in turn."""
        working = await self._orders(State.WORKING)
        if self.broker.facts.requests_per_minute is not None and len(working) > MOST_LOOKS:
            self._turn = (self._turn + MOST_LOOKS) % len(working)
            working = (working[self._turn :] + working[: self._turn])[:MOST_LOOKS]
        trouble = ""
        for order in working:
            try:
                async with self._looking:
                    await self._following.look_at(order, self._known_account(), may_cancel=self._sends)
            except LostUpdate as error:
                log.info("order moved meanwhile", order=order.name, error=str(error))
            except RateLimited:
                raise
            except LookupFailed as error:
                # One order's look is one order's: the others are looked at, and exits go out.
                trouble = str(error)
                log.warning("a look failed", order=order.name, error=trouble)
        return trouble

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

    async def _remember(self, account: Account) -> Standing:
        """Keeps who answers, and what the account was worth when the day began; writes only news."""
        now = self._clock.now()
        news = (account.identity, account.endpoint, day_of(now, self.policy.risk.day_zone))
        self._blocked_there = account.blocked
        if news != self._remembered or not self._standing.may_send:
            self._standing = await self._writer.run(
                lambda tx: identity.take(tx, self.policy, account, self._peers, now)
            )
            self._remembered = news
        return self._standing

    # ---------------------------------------------------------------- its word

    @property
    def entries_wait(self) -> bool:
        """Whether only exits are sent: the clock differs too far from the venue's (facts 4.9)."""
        return self._clock_offset is not None and abs(self._clock_offset) > exposure.SKEW_BLOCKS

    def _say_where_it_stands(self) -> None:
        """Ready only as who it is, and by a clock that agrees with the venue's."""
        if self._old.is_set() or self.closing:
            return
        if not self._standing.may_send:
            self.ready.clear()
            word = "failing" if self._standing.word == "same_account" else "blocked"
            self._say(word, self._standing.reason)
            return
        offset = self._clock_offset or 0
        said = f"{abs(offset) / SECOND:.1f} s {'behind' if offset > 0 else 'ahead of'} the venue's"
        if self._blocked_there:
            self.ready.clear()
            self._say("blocked", f"the broker takes no orders of this account: {self._blocked_there}")
            return
        if self.entries_wait:
            # By a wrong clock nobody can tell how old an entry is; an exit is worth more than that doubt.
            self.ready.set()
            reason = f"this computer's clock is {said}: set it right; entries wait until then, exits go out"
            self._say("exits_only", reason)
            return
        reason = f"{self.policy.account.broker} account, orders are sent"
        if abs(offset) > SKEW_WARNS:
            reason += f"; this computer's clock is {said}"
        if self._last_result == "PARTIAL":
            reason += "; the last reconciliation could not read everything"
        if self._trouble:
            reason += f"; a look at an order failed: {self._trouble}"
        self.ready.set()
        self._say("ready", reason)

    def _say(self, word: str, reason: str) -> None:
        if (word, reason) != (self._fact.word, self._fact.reason):
            self._fact = AccountFact(self.name, word, reason)
            self._changed()
