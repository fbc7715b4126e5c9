"""The gate: one transaction that decides a PENDING order and, if it may go, writes SUBMITTING.

Book, sizing, limits and freshness are judged here, together, inside the ledger's write transaction, so that
no two orders can pass on the same room. Nothing here talks to a broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

import msgspec

from app.brokers.base import InstrumentRules, OrderRequest
from app.clock import SECOND
from app.domain.book import Holdings, Nothing, Plan, Trade, open_elsewhere, plan
from app.domain.order import OrdStatus, State
from app.domain.risk import Denial, denial, first_denial
from app.domain.signal import Action, Side
from app.domain.sizing import WIDE, at_least_a_step, round_down
from app.execution import exposure, legs, replies, resend
from app.execution.ids import id_of
from app.execution.policy import Policy, View
from app.execution.ruling import (
    CancelBook,
    Claim,
    Denied,
    EarlierRuns,
    Ready,
    Wait,
    age_of,
    claim_of,
    earlier_of_book,
    is_superseded,
    judge,
    trading_state,
)
from app.ledger import orders
from app.ledger.orders import Order, plain
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
ACTOR = "worker"
UNCERTAIN, UNCERTAIN_FOR = "POSITION_UNCERTAIN", 5 * SECOND
"""So long a position is read again before an order that hinges on it is cut or denied (HOLES H6)."""
EXPIRY = 5 * SECOND
"""How long a request may take to arrive where the venue itself refuses it afterwards."""


@dataclass(frozen=True, slots=True)
class Send:
    """The order is SUBMITTING on disk; this is what goes out, once. `by_person`: whatever the halt says."""

    order: Order
    request: OrderRequest
    attempt_id: int
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """The order stays PENDING; `cancel` names own working orders that must end first."""

    cancel: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True)
class Over:
    """The order ended here: denied, or nothing to do. `cancel` names orders that a cancel signal ends."""

    cancel: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Nothing was decided: the broker was not asked yet, or what it said is older than our own fills."""


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The broker's position is not what our books say: it is read again for a while (HOLES H6).

    `by_own`: an order of ours may have filled just now and not be booked yet.
    """

    by_own: bool


Decision = Send | Waits | Over | LookAgain | Uncertain | None
"""None: the order was no longer PENDING."""


def decide(
    tx: Transaction,
    order_id: int,
    policy: Policy,
    earlier: EarlierRuns,
    view: View | None,
    now: int,
    *,
    reachable: bool,
    entries_wait: bool = False,
    uncertain_for: int = 0,
) -> Decision:
    """Decides one order. `view` is None where the broker was not asked; `reachable` says if it may be.

    `uncertain_for`: microseconds since its position was first read and did not agree with the books.
    """
    order = orders.get(tx, order_id)
    if order.state is not State.PENDING:
        return None
    case = _Case(tx, order, claim_of(tx, order), policy, earlier, now)
    with localcontext(WIDE):
        return case.decide(view, uncertain_for, reachable=reachable, entries_wait=entries_wait)


@dataclass(frozen=True, slots=True)
class _Case:
    tx: Transaction
    order: Order
    claim: Claim
    policy: Policy
    earlier: EarlierRuns
    now: int

    def decide(
        self, view: View | None, uncertain_for: int, *, reachable: bool, entries_wait: bool
    ) -> Decision:
        ruling = judge(
            self.tx,
            self.order,
            self.claim,
            self.policy,
            self.earlier,
            self.now,
            reachable=reachable,
            entries_wait=entries_wait,
        )
        match ruling:
            case Denied(denial=denied, closes=closes):
                return self._deny(denied, closes=closes)
            case Wait():
                return self._wait(ruling)
            case CancelBook():
                return self._cancel()
            case Ready():
                books = tuple(orders.books(self.tx, self.order.account, self.order.instrument))
                if view is None or view.books != books:
                    return LookAgain()
                return self._trade(view, uncertain_for, exits=ruling.exits)

    # ---------------------------------------------------------------- what is sent

    def _trade(self, view: View, uncertain_for: int, *, exits: bool) -> Decision:
        again = resend.is_resend(self.tx, self.order)
        if view.known_as is not None and not (again and view.known_as == self.order.client_order_id):
            reason = f"COLLISION the broker has an order under {view.known_as}, placed after the backup"
            return self._over(State.NEEDS_OPERATOR, reason)
        elsewhere = replies.sent_elsewhere(self.tx, self.order, view.account) if again else None
        if elsewhere is not None:
            return self._over(State.DENIED, elsewhere)
        held = exposure.holdings(self.tx, self.order, view.position)
        price = self._unit_value(view)
        planned = self._plan(held, view, price)
        hinges = self._is_uncertain(view) and self._hinges_on_position(planned, held, view, price)
        if hinges and uncertain_for < UNCERTAIN_FOR:
            if self.order.reason != UNCERTAIN:  # as an exit it is not overtaken by what comes behind it (H3)
                purpose = "exit" if exits else self.order.purpose
                orders.note(self.tx, self.order, at=self.now, reason=UNCERTAIN, purpose=purpose)
            return Uncertain(self._may_be_own_fill(view))
        if again:
            planned = resend.as_before(self.order, planned, held)
        elif isinstance(planned, Trade):
            planned = _in_steps(planned, held, view.rules)
            if hinges and planned.opens > ZERO and self._depends_on_position:
                numbers = {"broker_position": view.position, "expected": self._explained(view)}
                denied = denial(UNCERTAIN, **numbers)
                planned = denied if planned.reduces == ZERO else Trade(planned.side, planned.reduces, ZERO)
        if isinstance(planned, Trade):
            planned = self._within_limits(planned, held, view, price)
        if again and isinstance(planned, Trade) and planned.quantity != self.order.quantity:
            planned = resend.terms_changed(self.order, planned)
        planned = self._for_a_person(planned)
        if exits or (isinstance(planned, Trade) and planned.reduces > ZERO):
            self._supersede()
        if isinstance(planned, Trade) and planned.reduces and planned.opens and not view.flips_in_one_order:
            planned = legs.split(self.tx, self.order, planned, self.now)
        match planned:
            case Trade():
                return self._send(planned, held, view, price)
            case Nothing(detail=detail):
                orders.note(self.tx, self.order, at=self.now, closes_book=int(held.book == ZERO))
                return self._over(State.DONE, f"NOTHING_TO_DO {detail}")
            case Denial():
                return self._deny(planned, closes=exits)

    def _plan(self, held: Holdings, view: View, price: Decimal | None) -> Plan:
        if legs.opens_behind_a_close(self.order):
            return legs.plan_opening(self.order, held)
        size = self.policy.entry_size(self.claim.signal.quantity, price, view.account.equity)
        # A size that takes a price where there is none: the limits deny whatever opens, be it one step.
        return plan(
            self.claim.signal,
            held,
            view.rules.step if size is None else size,
            sized_by_signal=self.policy.sized_by_signal,
        )

    @property
    def _depends_on_position(self) -> bool:
        """Whether the order is sized from what is held: a target, a reverse, the second leg of a turn."""
        signal = self.claim.signal
        turns = signal.action is Action.REVERSE or legs.opens_behind_a_close(self.order)
        return turns or signal.target is not None

    def _is_uncertain(self, view: View) -> bool:
        off = exposure.unexplained(self.tx, self.order, view.position)
        return abs(off) > max(self.policy.drift_tolerance, view.rules.step)

    def _may_be_own_fill(self, view: View) -> bool:
        off = exposure.unexplained(self.tx, self.order, view.position)
        lowest, highest = exposure.still_to_fill(self.tx, self.order)
        return lowest <= off <= highest

    def _hinges_on_position(self, planned: Plan, held: Holdings, view: View, price: Decimal | None) -> bool:
        """Whether the broker's position makes another order, or a denial, than what our books explain would.

        It may be older than a fill of ours: then an exit would be cut or denied for nothing (HOLES H1, H6).
        """
        if isinstance(planned, Trade) and planned.opens > ZERO and self._depends_on_position:
            return True
        explained = replace(held, broker_position=at_least_a_step(self._explained(view)))
        if planned != self._plan(explained, view, price):
            return True
        shorts = isinstance(planned, Trade) and planned.opens > ZERO and planned.side is Side.SELL
        return shorts and open_elsewhere(held) != open_elsewhere(explained)

    def _explained(self, view: View) -> Decimal:
        return WIDE.subtract(view.position, exposure.unexplained(self.tx, self.order, view.position))

    def _for_a_person(self, planned: Plan) -> Plan:
        """A person closes each of our books by an order of its own: that others are open is nothing new."""
        nothing_left = isinstance(planned, Denial) and planned.code == "OTHER_BOOK_OPEN"
        return Nothing("the book is flat") if self.claim.by_person and nothing_left else planned

    def _within_limits(
        self, trade: Trade, held: Holdings, view: View, price: Decimal | None
    ) -> Trade | Denial:
        """Limits stop what opens; what only reduces our book goes out whatever they say (HOLES H10)."""
        if trade.reduces > ZERO and trade.opens == ZERO:
            return trade
        entry = exposure.entry(
            self.tx,
            self.order,
            self.claim.signal,
            self.policy,
            view,
            trade,
            held,
            price,
            age_of(self.order, self.policy, self.earlier, self.now),
            self.now,
        )
        denied = first_denial(entry, self.policy.limits(self.claim.signal.symbol), trading_state(self.tx))
        if denied is None:
            return trade
        if trade.reduces == ZERO:
            return denied
        self.tx.event(self.now, ACTOR, "order cut to its exit", self.order.name, {"denied": denied.text})
        return Trade(trade.side, trade.reduces, ZERO)

    def _send(self, trade: Trade, held: Holdings, view: View, price: Decimal | None) -> Send:
        """Writes SUBMITTING and the attempt: from here on the order may be at the broker."""
        if trade.reduces > ZERO and held.at_broker < abs(held.book):
            numbers = {"book": plain(held.book), "broker_position": plain(held.broker_position)}
            self.tx.event(self.now, ACTOR, "drift", self.order.name, numbers)
        cid = self.order.client_order_id or id_of(self.policy, view.account.identity, self.claim, self.order)
        detail = {"side": trade.side.value, "reduces": plain(trade.reduces), "opens": plain(trade.opens)}
        order = orders.move(
            self.tx,
            self.order,
            State.SUBMITTING,
            at=self.now,
            actor=ACTOR,
            detail={**detail, "book": plain(held.book)},
            side=trade.side.value,
            quantity=plain(trade.quantity),
            purpose="exit" if trade.opens == ZERO else "entry",
            client_order_id=cid,
            ord_status=OrdStatus.PENDING_NEW.value,
            price=None if price is None else plain(price),
            closes_book=int(self._leaves_nothing(trade, held)),
            queued_until=None if view.market.is_open else view.market.next_open or 0,
        )
        if not view.market.is_open:
            session: dict[str, str | int | None] = {
                "venue": view.market.reason,
                "next_open": view.market.next_open,
            }
            self.tx.event(self.now, ACTOR, "queued by the broker", order.name, session)
        deadline = self.now + (
            min(EXPIRY, self.policy.arrival_bound) if view.expires else self.policy.arrival_bound
        )
        request = OrderRequest(
            client_order_id=cid,
            instrument=order.instrument,
            side=trade.side,
            quantity=trade.quantity,
            type=order.type,
            limit_price=order.limit_price,
            stop_price=order.stop_price,
            tif=order.tif,
            # What a later leg of an exit closes came long after the alert: its price is none any more.
            reference_price=self.claim.signal.price if order.leg == 1 else None,
            not_after=deadline + view.clock_offset,
            reduces=trade.opens == ZERO,
        )
        number = self.tx.one("SELECT count(*) FROM attempts WHERE order_id = ?", (order.id,))
        attempt = self.tx.insert(
            "attempts",
            {
                "order_id": order.id,
                "number": 1 + (number[0] if number else 0),
                "at": self.now,
                "identity": view.account.identity,
                "endpoint": view.account.endpoint,
                "request": msgspec.json.encode(request).decode(),
                "arrival_deadline": deadline,
            },
        )
        return Send(order, request, attempt, self.claim.by_person)

    def _leaves_nothing(self, trade: Trade, held: Holdings) -> bool:
        """Whether, filled whole, it leaves nothing of the book, and the sender what he states."""
        if trade.reduces == ZERO or trade.reduces != abs(held.book):
            return False
        target = self.claim.signal.target
        if target is None or not self.policy.sized_by_signal:
            return True
        return held.effective + trade.side.sign * trade.quantity == target

    def _unit_value(self, view: View) -> Decimal | None:
        """By the venue's price; where the payload prices, by the order's own, the alert's, the last (H8)."""
        price = view.price or None
        if view.priced_by_payload:
            price = self.order.limit_price or self.order.stop_price or self.claim.signal.price or price
        return None if price is None else price * view.rules.multiplier

    # ---------------------------------------------------------------- the ways it can end or wait

    def _deny(self, denied: Denial, *, closes: bool = False) -> Over:
        if closes and self.order.purpose != "cancel":
            orders.note(self.tx, self.order, at=self.now, purpose="exit")
        return self._over(State.DENIED, denied.text)

    def _over(self, state: State, reason: str) -> Over:
        if state is State.NEEDS_OPERATOR:
            orders.move(self.tx, self.order, state, at=self.now, actor=ACTOR, reason=reason)
        else:
            resend.end(self.tx, self.order, state, reason, at=self.now, actor=ACTOR)
        return Over()

    def _wait(self, wait: Wait) -> Waits:
        purpose = "exit" if wait.closes else self.order.purpose
        orders.note(self.tx, self.order, at=self.now, reason=wait.reason, purpose=purpose)
        for other in wait.cancel:
            orders.note(self.tx, other, at=self.now, cancel_requested=1)
        return Waits(wait.cancel)

    def _cancel(self) -> Over:
        """Ends every own order of the book that was admitted before; unresolved ones end when found (H7)."""
        found = earlier_of_book(self.tx, self.order, "purpose <> 'cancel'")
        for other in found:
            if other.state is State.PENDING:
                resend.end(self.tx, other, State.DENIED, "CANCELED_BY_SIGNAL", at=self.now, actor=ACTOR)
            else:
                orders.note(self.tx, other, at=self.now, cancel_requested=1)
        names = " ".join(other.name for other in found)
        self._over(State.DONE, f"CANCELED {names}" if names else "NOTHING_TO_DO no open order")
        return Over(tuple(other for other in found if other.state is not State.PENDING))

    def _supersede(self) -> None:
        """No entry goes out after a later exit of its book, whatever the exit found to do (HOLES H3)."""
        for other in earlier_of_book(self.tx, self.order, "state = 'PENDING'"):
            if is_superseded(other, self.order):
                reason = f"SUPERSEDED_BY_EXIT exit={self.order.name}"
                resend.end(self.tx, other, State.DENIED, reason, at=self.now, actor=ACTOR)


def _in_steps(trade: Trade, held: Holdings, rules: InstrumentRules) -> Trade:
    """Rounded down to what the venue takes. All of the book goes out exactly as it is (HOLES H2)."""
    whole = trade.reduces == abs(held.book)
    reduces = trade.reduces if whole else _in_step(trade.reduces, rules.step)
    return Trade(trade.side, reduces, _in_step(trade.opens, rules.step))


def _in_step(quantity: Decimal, step: Decimal) -> Decimal:
    """Less than one step stays as it is: a limit, or the venue, says so with the number."""
    return round_down(quantity, step) if quantity >= step else quantity
