"""Orders that are working: looked up until they end; one that the broker does not show is never just over.

Where one look is proof (paper) a missing order is a person's at once. Behind a wire the whole ladder has to
miss it, several times: until then it counts as working, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import structlog

from app.brokers.base import Account, Broker
from app.clock import Clock
from app.domain import absence
from app.domain.order import State
from app.domain.signal import Side
from app.domain.sizing import ZERO
from app.execution import exposure, ladder, replies
from app.execution.ladder import Climb
from app.execution.policy import Policy
from app.execution.resolver import doubled
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.reader import Reader
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

log = structlog.get_logger(__name__)

LOOK = "missing: by id, open orders, recent orders, fills"
MISSING = "MISSING_AT_BROKER"


class Following:
    """Looks working orders of one account up. `jitter` is drawn for each wait, from 0 to 1."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        broker: Broker,
        clock: Clock,
        policy: Policy,
        jitter: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._broker = broker
        self._clock = clock
        self._policy = policy
        self._jitter = jitter
        self._here: set[tuple[int, str, str]] = set()
        """Orders that were sent to the account that answers, as it was then."""
        self._missing: dict[int, tuple[int, int]] = {}
        """Of each order that a look has missed: how often it was looked for, and when next (boot)."""

    async def look_at(self, order: Order, account: Account, *, may_cancel: bool) -> None:
        """Looks one order up and books what is new; ends it first where that was asked for.

        Raises LookupFailed, and LostUpdate where the order moved meanwhile.
        """
        assert order.client_order_id is not None
        cid = order.client_order_id
        if not await self._is_here(order, account):
            return
        if order.cancel_requested and may_cancel:
            await self._broker.cancel(cid)
        seen = await self._broker.find(cid)
        if seen is None or seen.client_order_id != cid:
            await self._look_further(order, account)
            return
        if self._missing.pop(order.id, None) is not None or (order.reason or "").startswith(MISSING):
            await self._writer.run(lambda tx: self._is_back(tx, order.id, account))
        if not replies.is_news(order, seen):
            return
        fills = await self._broker.fills(cid)
        found = seen
        ended = await self._writer.run(
            lambda tx: replies.merge(tx, orders.get(tx, order.id), found, fills, self._clock.now())
        )
        if ended.state is State.DONE and ended.purpose == "exit" and ended.filled_quantity:
            await self._check_side(ended)

    async def _is_here(self, order: Order, account: Account) -> bool:
        """Sent to another account than answers: no look from here says anything about it (HOLES H13)."""
        key = (order.id, account.identity, account.endpoint)
        if key in self._here:
            return True
        elsewhere = await self._reader.call(
            lambda db: replies.sent_elsewhere(Transaction(db, set()), order, account)
        )
        if elsewhere is None:
            self._here.add(key)
            return True

        def give_up(tx: Transaction) -> None:
            now = self._clock.now()
            orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=elsewhere)

        await self._writer.run(give_up)
        return False

    # ---------------------------------------------------------------- open here, unknown there

    async def _look_further(self, order: Order, account: Account) -> None:
        if self._broker.facts.absence_is_immediate:
            await self._writer.run(lambda tx: self._gone(tx, order.id, account))
            return
        climbs, due = self._missing.get(order.id, (0, 0))
        if self._clock.boot() < due:
            return
        seen = await ladder.climb(self._broker, order, order.created_at, self._clock)
        wait = absence.wait(climbs + 1, self._jitter())
        self._missing[order.id] = (climbs + 1, self._clock.boot() + wait)
        await self._writer.run(lambda tx: self._conclude(tx, order.id, account, seen))

    def _gone(self, tx: Transaction, order_id: int, account: Account) -> None:
        """Open here, unknown at the broker: nobody guesses what became of it (DESIGN 6)."""
        order = orders.get(tx, order_id)
        if order.state is not State.WORKING:
            return
        now = self._clock.now()
        replies.add_evidence(tx, order.id, account.identity, now, look="by id", result="absent")
        reason = f"{MISSING} open here, gone there"
        orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)

    def _conclude(self, tx: Transaction, order_id: int, account: Account, seen: Climb) -> None:
        order, now = orders.get(tx, order_id), self._clock.now()
        if order.state is not State.WORKING:
            return
        result = "absent" if seen.is_absent else "failed" if seen.failed else "found"
        detail = seen.words
        replies.add_evidence(tx, order.id, account.identity, now, look=LOOK, result=result, detail=detail)
        if len(seen.under_our_id) > 1:
            doubled(tx, order, seen.under_our_id, now)
        elif seen.seen is not None:
            replies.merge(tx, order, seen.seen, seen.fills, now)
        elif seen.is_absent:
            self._missed(tx, order, now)

    def _missed(self, tx: Transaction, order: Order, now: int) -> None:
        rows = tx.execute(
            "SELECT result FROM evidence WHERE order_id = ? AND look = ? ORDER BY id DESC LIMIT 100",
            (order.id, LOOK),
        )
        in_a_row = 0
        for (result,) in rows:
            if result == "found":
                break
            in_a_row += result == "absent"
        reason = f"{MISSING} open here, gone there looks={in_a_row} of={self._policy.absent_confirmations}"
        kept = self._broker.facts.retention.canceled_unfilled
        if kept is not None and now - order.updated_at > kept:
            reason += f" older_than_the_venue_keeps={kept // 1_000_000}s"
        # It was there: a venue that shows it late does not make it missing within seconds (facts 4.3).
        is_old = now - self._known_there(tx, order) >= self._policy.absent_min_age
        if is_old and in_a_row >= self._policy.absent_confirmations:
            orders.move(tx, order, State.NEEDS_OPERATOR, at=now, actor="resolver", reason=reason)
        elif not (order.reason or "").startswith(MISSING):
            orders.note(tx, order, at=now, reason=reason)
            tx.event(now, "resolver", "missing at the broker", order.name, {"reason": reason})

    def _known_there(self, tx: Transaction, order: Order) -> int:
        """When the broker last said that it has it: by its answer, or in a look. UTC microseconds."""
        sql = (
            "SELECT max(at) FROM (SELECT coalesce(ended_at, at) AS at FROM attempts WHERE order_id = ? "
            "UNION ALL SELECT at FROM evidence WHERE order_id = ? AND result = 'found')"
        )
        row = tx.one(sql, (order.id, order.id))
        return order.created_at if row is None or row[0] is None else int(row[0])

    def _is_back(self, tx: Transaction, order_id: int, account: Account) -> None:
        order, now = orders.get(tx, order_id), self._clock.now()
        if order.state is State.WORKING and (order.reason or "").startswith(MISSING):
            replies.add_evidence(tx, order.id, account.identity, now, look=LOOK, result="found")
            orders.note(tx, order, at=now, reason=None)

    # ---------------------------------------------------------------- after an exit

    async def _check_side(self, exit_: Order) -> None:
        """Where nothing at the venue keeps an exit from opening: the side is looked at afterwards (H5)."""
        if self._broker.facts.reduce_only_enforced:
            return
        position = await self._broker.position(exit_.instrument)
        await self._writer.run(lambda tx: self._flipped(tx, exit_.id, position))

    def _flipped(self, tx: Transaction, order_id: int, position: Decimal) -> None:
        exit_ = orders.get(tx, order_id)
        assert exit_.side is not None
        # What it closed was on the other side; what is on its own side now is ours only by our other orders.
        ours = sum((book.net for book in orders.books(tx, exit_.account, exit_.instrument)), ZERO)
        lowest, highest = exposure.still_to_fill(tx, exit_)
        ours += highest if exit_.side is Side.BUY else lowest
        beyond = min(position * exit_.side.sign, (position - ours) * exit_.side.sign)
        if beyond <= self._policy.drift_tolerance:
            return
        detail = {"order": exit_.name, "position": plain(position), "severity": "critical"}
        tx.event(self._clock.now(), f"broker:{exit_.account}", "flipped", exit_.account, detail)
        log.critical("an exit has turned the position", order=exit_.name, position=plain(position))
