"""The gate: one transaction that decides a PENDING order and, if it may go, writes SUBMITTING.

Book, sizing, limits and freshness are judged here, together, inside the ledger's write transaction, so that
no two orders can pass on the same room. Nothing here talks to a broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import msgspec

from app.brokers.base import OrderRequest
from app.clock import SECOND
from app.domain.book import Holdings, Misplaced, Nothing, Trade, plan, reads_as_exit
from app.domain.client_order_id import client_order_id
from app.domain.order import OrdStatus, State
from app.domain.risk import Denial, TradingState, denial, first_denial
from app.domain.signal import Action, OrderType, Signal
from app.execution import exposure
from app.execution.policy import Policy, View
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
RESTING_AFTER = 5 * SECOND
"""A market order still working after this long is cancelled by an exit like a resting one (HOLES H4)."""
ACTOR = "worker"


@dataclass(frozen=True, slots=True)
class Send:
    """The order is SUBMITTING on disk; this is what goes out, once."""

    order: Order
    request: OrderRequest
    attempt_id: int


@dataclass(frozen=True, slots=True)
class Waits:
    """The order stays PENDING; `cancel` names own working orders that must end first."""

    reason: str
    cancel: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True)
class Over:
    """The order ended here: denied, or nothing to do. `cancel` names orders that a cancel signal ends."""

    order: Order
    cancel: tuple[Order, ...] = ()


Decision = Send | Waits | Over | None
"""None: the order was no longer PENDING."""


def decide(
    tx: Transaction, order_id: int, policy: Policy, view: View, now: int, last_seen_wall: int
) -> Decision:
    """Decides one order. `last_seen_wall` is the newest wall time an earlier run has recorded (HOLES H32)."""
    order = orders.get(tx, order_id)
    if order.state is not State.PENDING:
        return None
    row = tx.one("SELECT signal, unanswered, digest FROM claims WHERE id = ?", (order.claim_id,))
    assert row is not None
    signal = msgspec.json.decode(row[0], type=Signal)
    case = _Case(tx, order, signal, policy, view, now, digest=row[2], wall_mark=last_seen_wall)
    if row[1]:
        return case.unanswered()
    return case.decide()


@dataclass(frozen=True, slots=True)
class _Case:
    tx: Transaction
    order: Order
    signal: Signal
    policy: Policy
    view: View
    now: int
    digest: bytes
    wall_mark: int

    # ---------------------------------------------------------------- the ways it can end

    def unanswered(self) -> Decision:
        """The sender was told 503 and may send again: nothing is placed, and nothing waits for ever."""
        if self.order.not_after is not None and self.now > self.order.not_after:
            return self._deny(denial("STALE", unanswered="503 was answered and no resend came"))
        orders.note(self.tx, self.order, at=self.now, reason="WAITING_FOR_RESEND")
        return Waits("WAITING_FOR_RESEND")

    def decide(self) -> Decision:
        trading = TradingState(self.tx.meta("trading_state") or TradingState.ACTIVE.value)
        if trading is TradingState.HALTED and self.signal.action is not Action.CANCEL:
            return self._deny(denial("TRADING_HALTED", state=trading.value))
        if self.signal.action is Action.CANCEL:
            return self._cancel()
        held = exposure.holdings(self.tx, self.order, self.view)
        effective = held.book + held.in_flight
        exits = reads_as_exit(self.signal, held.book) or reads_as_exit(self.signal, effective)
        turns = self.signal.action is Action.REVERSE or (self.signal.target or ZERO) * effective < ZERO
        wait = self._must_wait(exits=exits, needs_settled_book=exits or turns)
        if wait is not None:
            return self._wait(wait, exits=exits)
        if not exits and self.policy.size_needs_price and self._price() is None:
            return self._deny(denial("REFERENCE_PRICE_UNAVAILABLE"))
        size = self.policy.entry_size(self.signal.quantity, self._price(), self.view.account.equity)
        intended = plan(self.signal, held, size, sized_by_signal=self.policy.sized_by_signal)
        match intended:
            case Nothing(detail=detail):
                return self._nothing(detail)
            case Misplaced(detail=detail):
                return self._deny(Denial("OTHER_BOOK_OPEN", (("books", detail),)))
            case Trade():
                return self._send(self._within_limits(intended, held, trading), intended)

    def _within_limits(self, trade: Trade, held: Holdings, trading: TradingState) -> Trade | Denial:
        """Limits stop what opens; what only reduces our book goes out whatever they say (HOLES H10)."""
        if trade.opens == ZERO:
            return trade
        entry = exposure.entry(
            self.tx, self.order, self.policy, self.view, trade, held, self._price(), self._age(), self.now
        )
        denied = self._clock_denial() or first_denial(entry, self.policy.limits(self.signal.symbol), trading)
        if denied is None:
            return trade
        if trade.reduces == ZERO:
            return denied
        self.tx.event(self.now, ACTOR, "order cut to its exit", self.order.name, {"denied": denied.text})
        return Trade(trade.side, trade.reduces, ZERO)

    def _send(self, allowed: Trade | Denial, intended: Trade) -> Decision:
        if isinstance(allowed, Denial):
            return self._deny(allowed)
        exits = allowed.opens == ZERO
        if exits:
            self._supersede_older_entries()
        cid = self.order.client_order_id or client_order_id(
            f"{self.policy.account.broker}:{self.view.account.identity}",
            self.digest,
            self.order.leg,
            self.order.generation,
        )
        order = orders.move(
            self.tx,
            self.order,
            State.SUBMITTING,
            at=self.now,
            actor=ACTOR,
            detail={
                "quantity": plain(allowed.quantity),
                "side": allowed.side.value,
                "cut": allowed != intended,
            },
            side=allowed.side.value,
            quantity=plain(allowed.quantity),
            purpose="exit" if exits else "entry",
            client_order_id=cid,
            ord_status=OrdStatus.PENDING_NEW.value,
            not_after=None if exits else self.order.not_after,
        )
        request = OrderRequest(
            client_order_id=cid,
            instrument=order.instrument,
            side=allowed.side,
            quantity=allowed.quantity,
            type=order.type,
            limit_price=order.limit_price,
            stop_price=order.stop_price,
            tif=order.tif,
            reference_price=self.signal.price,
        )
        attempt = self.tx.insert(
            "attempts",
            {
                "order_id": order.id,
                "number": 1 + self._attempts(),
                "at": self.now,
                "identity": self.view.account.identity,
                "endpoint": self.view.account.endpoint,
                "request": msgspec.json.encode(request).decode(),
                "arrival_deadline": self.now + self.policy.arrival_bound,
            },
        )
        return Send(order, request, attempt)

    def _deny(self, denied: Denial) -> Over:
        order = orders.move(self.tx, self.order, State.DENIED, at=self.now, actor=ACTOR, reason=denied.text)
        return Over(order)

    def _nothing(self, detail: str) -> Over:
        reason = f"NOTHING_TO_DO {detail}".strip()
        return Over(orders.move(self.tx, self.order, State.DONE, at=self.now, actor=ACTOR, reason=reason))

    def _wait(self, wait: Waits, *, exits: bool) -> Decision:
        stale = None if exits else self._stale()
        if stale is not None:
            return self._deny(stale)
        orders.note(
            self.tx,
            self.order,
            at=self.now,
            reason=wait.reason,
            purpose="exit" if exits else self.order.purpose,
        )
        for order in wait.cancel:
            orders.note(self.tx, order, at=self.now, cancel_requested=1)
        return wait

    def _cancel(self) -> Decision:
        """Ends every own order of the book that was admitted before; unresolved ones end when found (H7)."""
        ended: list[str] = []
        working: list[Order] = []
        for other in self._earlier("state NOT IN ('DONE', 'DENIED', 'NOT_PLACED')"):
            if other.purpose == "cancel":
                continue
            if other.state is State.PENDING:
                orders.move(
                    self.tx, other, State.DENIED, at=self.now, actor=ACTOR, reason="CANCELED_BY_SIGNAL"
                )
            else:
                orders.note(self.tx, other, at=self.now, cancel_requested=1)
                working.append(other)
            ended.append(other.name)
        reason = "CANCELED " + " ".join(ended) if ended else "NOTHING_TO_DO no open order"
        order = orders.move(self.tx, self.order, State.DONE, at=self.now, actor=ACTOR, reason=reason)
        return Over(order, tuple(working))

    def _supersede_older_entries(self) -> None:
        for other in self._earlier("state = 'PENDING' AND purpose = 'undecided'"):
            reason = f"SUPERSEDED_BY_EXIT exit={self.order.name}"
            orders.move(self.tx, other, State.DENIED, at=self.now, actor=ACTOR, reason=reason)

    # ---------------------------------------------------------------- what it looks at

    def _must_wait(self, *, exits: bool, needs_settled_book: bool) -> Waits | None:
        whole_account = self.policy.account.gate == "hold_account" and not exits
        unknown = exposure.unresolved(self.tx, self.order, whole_account=whole_account)
        if unknown:
            return Waits(f"WAITING_FOR_{unknown[0].name}")
        if needs_settled_book:
            working = [other for other in self._earlier("state = 'WORKING'") if other.leaves > ZERO]
            if working:
                resting = tuple(other for other in working if self._is_resting_entry(other))
                return Waits(f"WAITING_FOR_{working[0].name}", resting)
        # An entry behind an exit that still waits would be closed by it (HOLES H3).
        earlier = self._earlier("purpose = 'exit' AND state IN ('PENDING', 'WORKING')")
        return Waits(f"WAITING_FOR_{earlier[0].name}") if earlier else None

    def _is_resting_entry(self, other: Order) -> bool:
        if other.cancel_requested or other.purpose == "exit":
            return False
        return other.type is not OrderType.MARKET or self.now - other.updated_at > RESTING_AFTER

    def _earlier(self, condition: str) -> list[Order]:
        """Orders of this book that were admitted before this one."""
        return exposure.of_book(self.tx, self.order, f"{condition} AND claim_id < ?", self.order.claim_id)

    def _attempts(self) -> int:
        row = self.tx.one("SELECT count(*) FROM attempts WHERE order_id = ?", (self.order.id,))
        return int(row[0]) if row else 0

    def _price(self) -> Decimal | None:
        """The broker's price; where the payload prices it, the order's own limit or stop comes first (H8)."""
        own = self.order.limit_price or self.order.stop_price
        return own if own is not None and self.view.priced_by_payload else self.view.price

    def _age(self) -> int:
        """Since the first receipt that this admission counts from; replayed orders carry their own bound."""
        if self.order.not_after is None:
            return 0
        return self.now - (self.order.not_after - self.policy.max_order_age)

    def _stale(self) -> Denial | None:
        age = self._age()
        if age <= self.policy.max_order_age:
            return None
        return denial("STALE", age=f"{age / SECOND:.1f}s", limit=f"{self.policy.max_order_age / SECOND:g}s")

    def _clock_denial(self) -> Denial | None:
        """A clock that stands before what an earlier run has seen makes every age a guess (HOLES H32)."""
        if self.now >= self.wall_mark and self._age() >= -5 * SECOND:
            return None
        return denial(
            "STALE", clock="set back", behind=f"{max(self.wall_mark - self.now, -self._age()) / SECOND:.0f}s"
        )
