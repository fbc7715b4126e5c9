"""Lanes: one worker an account and instrument, fed from the ledger in the order of admission.

A lane catches whatever goes wrong and goes on: if bytes may have left, the order is AMBIGUOUS, else it is a
person's (HOLES H34). What waits blocks nobody behind it, and is left alone until something has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Protocol

import apsw
import structlog

from app.brokers.base import Broker, HeldBack, LastCheck, LookupFailed, SubmitReply, Throttled, Unknown
from app.clock import SECOND, Clock
from app.domain.order import State
from app.execution import replies
from app.execution.gate import Over, Send, Uncertain, Waits, decide
from app.execution.ids import ids_to_look_up, must_look_first
from app.execution.policy import View
from app.execution.ruling import EarlierRuns, Ready, Wait, claim_of, judge
from app.execution.session import Session
from app.failpoint import failpoint
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.ledger.orders import OPEN, Order
from app.ledger.reader import Reader
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)

PATIENCE = 20
"""How often in a row an order may have to be looked at again before the lane leaves it to the next wake."""
RECORD_RETRY = 0.2
"""Seconds between tries to write down what a broker has already answered."""
HOLD_OFF = (1 * SECOND, 2 * SECOND, 5 * SECOND, 15 * SECOND)
"""How long a lane leaves a broker alone that could not be asked or took nothing, the last one for ever."""

READ_AGAIN, READS_FOR_OWN = 0.05, 15
"""Seconds between reads, and how many, while a fill of our own may be what is not booked yet."""
LOOK_AGAIN_AFTER = SECOND // 2
"""Between two reads of a position that does not agree with the books."""


class HeldBackCheck(Protocol):
    def __call__(self, *, exits: bool) -> str | None: ...


class ShownPrices:
    """Shows alerts' prices to a broker that is priced by them: each once, never an older after a newer."""

    def __init__(self, claimed_before: int) -> None:
        """`claimed_before` is the newest claim of earlier runs: what they showed is not shown again."""
        self._claimed_before = claimed_before
        self._newest: dict[str, int] = {}

    async def show(self, broker: Broker, instrument: str, claim_id: int, price: Decimal) -> None:
        newest = self._newest.get(instrument, self._claimed_before)
        if broker.facts.priced_by_payload and claim_id > newest:
            self._newest[instrument] = claim_id
            await broker.observe_price(instrument, price)


@dataclass(frozen=True, slots=True)
class _Item:
    """An order about which something is to be done. `price` is its alert's; `look_first`: the ledger went
    back in time, and the broker may know the order."""

    order_id: int
    claim_id: int
    needs_broker: bool
    price: Decimal | None
    look_first: bool = False


class Lane:
    """Places the PENDING orders of one account and instrument, one after the other."""

    def __init__(
        self,
        session: Session,
        instrument: str,
        *,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        prices: ShownPrices,
        held_back: HeldBackCheck,
        earlier: EarlierRuns,
    ) -> None:
        self.session = session
        self.instrument = instrument
        self.in_hand: int | None = None
        """The order that is being decided or is on its way to the broker."""
        self.idle = asyncio.Event()
        """Set while there is none."""
        self.idle.set()
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._prices = prices
        self._held_back = held_back
        self._earlier = earlier
        self._wake = asyncio.Event()
        self._failures = 0
        self._not_before = 0
        self._uncertain: dict[int, tuple[int, int]] = {}
        """Orders whose position is uncertain: since when (boot time), and when it is read again."""
        self._reads: dict[int, int] = {}

    @property
    def name(self) -> str:
        return f"{self.session.name}:{self.instrument}"

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._work_off()
            except LedgerUnavailable as error:
                # The sweep wakes this lane again; nothing was decided, so nothing is lost.
                log.warning("lane waits", lane=self.name, error=str(error))
            except Exception as error:
                log.exception("a lane failed and goes on", lane=self.name, error=repr(error))

    # ---------------------------------------------------------------- what there is to do

    async def _work_off(self) -> None:
        """Deals with one order at a time, each time from the oldest on: what had to wait a moment ago may go
        now, and what came after it must not overtake it (HOLES H3)."""
        last, times = 0, 0
        while not self.session.closing:
            item = await self._reader.call(self._next)
            if item is None:
                return
            last, times = item.order_id, times + 1 if item.order_id == last else 1
            if times > PATIENCE:
                log.error("a lane gets nowhere with an order", lane=self.name, order=f"O{item.order_id}")
                return
            self.in_hand = item.order_id
            self.idle.clear()
            try:
                await self._place(item)
            finally:
                self.in_hand = None
                self.idle.set()

    def _next(self, connection: apsw.Connection) -> _Item | None:
        """The oldest order that can go on, or whose row does not say yet what it waits for."""
        tx = Transaction(connection, set())
        reachable = (
            self._is_reachable
        )  # asked once: no order may find a broker that the one before it did not
        condition = f"{OPEN} AND state = 'PENDING' AND account = ? AND instrument = ?"
        now = self._clock.boot()
        for order in orders.where(tx, condition, (self.session.name, self.instrument)):
            if now < self._uncertain.get(order.id, (0, 0))[1]:
                continue
            item = self._item(tx, order, reachable=reachable)
            if item is not None:
                return item
        return None

    def _item(self, tx: Transaction, order: Order, *, reachable: bool) -> _Item | None:
        try:
            claim = claim_of(tx, order)
            ruling = judge(
                tx,
                order,
                claim,
                self.session.policy,
                self._earlier,
                self._clock.now(),
                reachable=reachable,
                entries_wait=self.session.entries_wait,
            )
        except Exception as error:
            # The gate meets it again, and makes it a person's.
            log.exception("an order could not be judged", order=order.name, error=repr(error))
            return _Item(order.id, order.claim_id, needs_broker=False, price=None)
        if isinstance(ruling, Wait) and not ruling.is_news(order):
            return None
        price = None if claim.unanswered else claim.signal.price
        return _Item(order.id, order.claim_id, isinstance(ruling, Ready), price, must_look_first(tx))

    @property
    def _is_reachable(self) -> bool:
        return self.session.is_reachable and self._clock.boot() >= self._not_before

    def _hold_off(self, at_least: int | None = None) -> None:
        pause = max(HOLD_OFF[min(self._failures, len(HOLD_OFF) - 1)], at_least or 0)
        self._not_before = self._clock.boot() + pause
        self._failures += 1

    # ---------------------------------------------------------------- one order

    async def _place(self, item: _Item) -> None:
        since = self._uncertain.get(item.order_id, (self._clock.boot(), 0))[0]
        try:
            view = await self._ask(item)
            decision = await self._writer.run(
                lambda tx: decide(
                    tx,
                    item.order_id,
                    self.session.policy,
                    self._earlier,
                    view,
                    self._clock.now(),
                    reachable=self._is_reachable,
                    entries_wait=self.session.entries_wait,
                    uncertain_for=self._clock.boot() - since,
                )
            )
        except LedgerUnavailable:
            raise
        except LostUpdate as error:
            log.info("order moved meanwhile", order=f"O{item.order_id}", error=str(error))
            return
        except Exception as error:
            log.exception("an order could not be decided", order=f"O{item.order_id}", error=repr(error))
            reason = f"INTERNAL {type(error).__name__}: {error}"[:300]
            await self._writer.run(lambda tx: self._give_up(tx, item.order_id, reason))
            return
        if isinstance(decision, Uncertain):
            await self._read_again(item.order_id, since, by_own=decision.by_own)
            return
        self._uncertain.pop(item.order_id, None)
        self._reads.pop(item.order_id, None)
        if isinstance(decision, Send):
            await self._send(decision)
        elif isinstance(decision, Waits | Over) and decision.cancel:
            self.session.nudge()

    async def _read_again(self, order_id: int, since: int, *, by_own: bool) -> None:
        """A fill of ours is booked in a moment: for that the lane stands. Else others go on meanwhile."""
        reads = self._reads.get(order_id, 0)
        if by_own and reads < READS_FOR_OWN:
            self._reads[order_id] = reads + 1
            self._uncertain[order_id] = (since, 0)
            self.session.nudge()
            await asyncio.sleep(READ_AGAIN)
            return
        self._uncertain[order_id] = (since, self._clock.boot() + LOOK_AGAIN_AFTER)
        self.session.reconcile_soon()

    async def _ask(self, item: _Item) -> View | None:
        """What the broker says, where the order needs it and it can be asked; else the order waits for it."""
        if not self._is_reachable:
            return None
        try:
            if item.price is not None:
                await self._prices.show(self.session.broker, self.instrument, item.claim_id, item.price)
            if not item.needs_broker:
                return None
            view = await self.session.view(self.instrument)
            return await self._look_first(item.order_id, view) if item.look_first else view
        except LookupFailed as error:
            self._hold_off()
            log.warning("lane waits for its broker", lane=self.name, error=str(error))
            return None

    async def _look_first(self, order_id: int, view: View) -> View:
        """Asks for every id that the order may be known by, before anything can be sent under one."""

        def read(connection: apsw.Connection) -> tuple[str, ...]:
            tx = Transaction(connection, set())
            order = orders.get(tx, order_id)
            return ids_to_look_up(tx, self.session.policy, view.account.identity, claim_of(tx, order), order)

        for cid in await self._reader.call(read):
            if await self.session.broker.find(cid) is not None:
                return replace(view, known_as=cid)
        return view

    async def _send(self, send: Send) -> None:
        """One send. If this task is cancelled meanwhile the row stays SUBMITTING, and the next start asks."""
        failpoint("before_broker")
        reply = await self.session.broker.submit(send.request, self._last_check(send))
        failpoint("after_broker")
        recorded = await self._record(send, reply)
        if recorded is not None and recorded.state is State.PENDING:
            self._hold_off(reply.retry_after if isinstance(reply, Throttled) else None)
        else:
            self._failures = 0
        self.session.nudge()

    async def _record(self, send: Send, reply: SubmitReply) -> Order | None:
        """Writes the reply down, however long the ledger takes: to forget it would make a fact a doubt."""
        while True:
            try:
                return await self._writer.run(_recording(send, reply, self._clock))
            except LedgerUnavailable as error:
                if error.word == "stopping":
                    return None
                log.warning("reply not recorded yet", order=send.order.name, error=str(error))
                await asyncio.sleep(RECORD_RETRY)
            except LostUpdate as error:
                log.info("order moved meanwhile", order=send.order.name, error=str(error))
                return None
            except Exception as error:
                log.exception("a reply could not be recorded", order=send.order.name, error=repr(error))
                if isinstance(reply, Unknown):
                    return None
                reply = Unknown(f"a reply that could not be recorded: {error}"[:200])

    def _last_check(self, send: Send) -> LastCheck:
        """Asked by the adapter right before the first byte (HOLES H30, H31), perhaps on its own thread.

        Late is what either clock calls late: the wall clock may be set back, the other may not have counted
        a sleep.
        """
        order = send.order
        exits = order.purpose == "exit"
        not_after = order.not_after
        left = 0 if not_after is None else not_after - self._clock.now()
        deadline = self._clock.boot() + left

        def check() -> None:
            held = None if send.by_person else self._held_back(exits=exits)
            if held is not None:
                raise HeldBack(held)
            if not exits and not_after is not None:
                late = max(self._clock.now() - not_after, self._clock.boot() - deadline)
                if late > 0:
                    raise HeldBack(f"STALE late={late / SECOND:.1f}s")
            if not self.session.is_reachable:
                raise HeldBack("PAUSED the account is opened and reconciled anew first")

        return check

    def _give_up(self, tx: Transaction, order_id: int, reason: str) -> None:
        order = orders.get(tx, order_id)
        if order.state is State.PENDING:
            orders.move(tx, order, State.NEEDS_OPERATOR, at=self._clock.now(), actor="worker", reason=reason)


def _recording(send: Send, reply: SubmitReply, clock: Clock) -> Callable[[Transaction], Order]:
    return lambda tx: replies.record_reply(tx, send.order.id, send.attempt_id, reply, clock.now())
