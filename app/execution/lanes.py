"""Lanes: one worker an account and instrument, fed from the ledger in the order of admission.

A lane catches whatever goes wrong and goes on: if bytes may have left, the order is AMBIGUOUS, else it is a
person's (HOLES H34). A parked entry blocks nobody behind it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec
import structlog

from app.brokers.base import HeldBack, LookupFailed, SubmitReply, Unknown
from app.clock import SECOND, Clock
from app.domain.order import State
from app.domain.signal import Signal
from app.execution import replies
from app.execution.gate import Decision, Send, decide
from app.execution.session import Session
from app.failpoint import failpoint
from app.ledger import orders
from app.ledger.errors import LedgerUnavailable
from app.ledger.orders import Order
from app.ledger.reader import Reader
from app.ledger.transaction import LostUpdate, Transaction
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)


class HeldBackCheck(Protocol):
    def __call__(self, *, exits: bool) -> str | None: ...


RECORD_RETRY = 0.2
"""Seconds between tries to write down what a broker has already answered."""


class Lane:
    """Places the PENDING orders of one account and instrument, one after the other."""

    def __init__(
        self,
        session: Session,
        instrument: str,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        held_back: HeldBackCheck,
        wall_mark: int,
    ) -> None:
        self.session = session
        self.instrument = instrument
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._held_back = held_back
        self._wall_mark = wall_mark
        self._wake = asyncio.Event()
        self.idle = asyncio.Event()
        """Set while no order of this lane is being decided or is on its way to the broker."""
        self.idle.set()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await self.session.ready.wait()
            self._wake.clear()
            try:
                for order_id in await self._pending():
                    if not self.session.ready.is_set():
                        break
                    self.idle.clear()
                    await self._place(order_id)
                    self.idle.set()
            except (LedgerUnavailable, LookupFailed) as error:
                # The sweep wakes this lane again; nothing was decided, so nothing is lost.
                log.warning("lane waits", lane=self.name, error=str(error))
            finally:
                self.idle.set()

    @property
    def name(self) -> str:
        return f"{self.session.name}:{self.instrument}"

    async def _pending(self) -> list[int]:
        rows = await self._reader.rows(
            "SELECT id FROM orders WHERE state = 'PENDING' AND account = ? AND instrument = ? "
            "ORDER BY claim_id, leg",
            (self.session.name, self.instrument),
        )
        return [row["id"] for row in rows]

    async def _place(self, order_id: int) -> None:
        try:
            decision = await self._decide(order_id)
        except LostUpdate as error:
            log.info("order moved meanwhile", order=f"O{order_id}", error=str(error))
            return
        except (LedgerUnavailable, LookupFailed):
            raise
        except Exception as error:
            log.exception("an order could not be decided", order=f"O{order_id}", error=repr(error))
            reason = f"INTERNAL {type(error).__name__}: {error}"[:300]
            await self._writer.run(lambda tx: self._give_up(tx, order_id, reason))
            return
        if isinstance(decision, Send):
            await self._send(decision)
        elif decision is not None and decision.cancel:
            self.session.nudge()

    async def _decide(self, order_id: int) -> Decision:
        signal = await self._reader.call(lambda db: signal_of(Transaction(db, set()), order_id))
        if signal.price is not None:
            await self.session.broker.observe_price(self.instrument, signal.price)
        view = await self.session.view(self.instrument)
        return await self._writer.run(
            lambda tx: decide(tx, order_id, self.session.policy, view, self._clock.now(), self._wall_mark)
        )

    async def _send(self, send: Send) -> None:
        """One send. If this task is cancelled meanwhile the row stays SUBMITTING, and the next start asks."""
        failpoint("before_broker")
        reply: SubmitReply
        try:
            reply = await self.session.broker.submit(send.request, lambda: self._last_check(send.order))
        except Exception as error:
            log.exception("the broker adapter failed", order=send.order.name, error=repr(error))
            reply = Unknown(f"adapter error {type(error).__name__}")
        failpoint("after_broker")
        await self._record(send, reply)
        self.session.nudge()

    async def _record(self, send: Send, reply: SubmitReply) -> None:
        """Writes the reply down, however long the ledger takes: to forget it would make a fact a doubt."""

        def write(tx: Transaction) -> Order:
            return replies.record_reply(tx, send.order.id, send.attempt_id, reply, self._clock.now())

        while True:
            try:
                await self._writer.run(write)
                return
            except LedgerUnavailable as error:
                if error.word == "stopping":
                    return
                log.warning("reply not recorded yet", order=send.order.name, error=str(error))
                await asyncio.sleep(RECORD_RETRY)
            except LostUpdate as error:
                log.info("order moved meanwhile", order=send.order.name, error=str(error))
                return

    def _last_check(self, order: Order) -> None:
        """Asked by the adapter right before the first byte (HOLES H30, H31). Raises HeldBack."""
        held = self._held_back(exits=order.purpose == "exit")
        if held is not None:
            raise HeldBack(held)
        if order.not_after is not None and self._clock.now() > order.not_after:
            late = (self._clock.now() - order.not_after) / SECOND
            raise HeldBack(f"STALE late={late:.1f}s")

    def _give_up(self, tx: Transaction, order_id: int, reason: str) -> None:
        order = orders.get(tx, order_id)
        if order.state is State.PENDING:
            orders.move(tx, order, State.NEEDS_OPERATOR, at=self._clock.now(), actor="worker", reason=reason)


def signal_of(tx: Transaction, order_id: int) -> Signal:
    """The signal that an order came from. Raises LookupError."""
    row = tx.one(
        "SELECT c.signal FROM orders o JOIN claims c ON c.id = o.claim_id WHERE o.id = ?", (order_id,)
    )
    if row is None:
        raise LookupError(f"there is no order O{order_id}")
    return msgspec.json.decode(row[0], type=Signal)
