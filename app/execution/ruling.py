"""What the ledger alone says about a PENDING order: whether it may go now, waits, or is over.

Reads only, and asks no broker: the lanes use it to leave alone what still waits, the gate asks it again
inside the transaction that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

from app.clock import SECOND
from app.domain.book import reads_as_exit
from app.domain.order import State
from app.domain.risk import Age, Denial, TradingState, denial, halted, stale
from app.domain.signal import Action, OrderType, Signal
from app.execution import exposure, legs, resend
from app.execution.policy import Policy
from app.ledger.orders import OPERATOR_SOURCE, Order
from app.ledger.transaction import Transaction

ZERO = Decimal(0)
RESTING_AFTER = 5 * SECOND
"""A market entry still working after this long is cancelled by an exit like a resting one (HOLES H4)."""
WAITING = "WAITING_FOR_"
BROKER = f"{WAITING}BROKER"
RESEND = f"{WAITING}RESEND"


@dataclass(frozen=True, slots=True)
class Claim:
    """What an order came from. `unanswered`: its sender was told 503 and may send again; `by_person`: it is
    a person's own exit, which a halt does not hold back."""

    signal: Signal
    digest: bytes
    era: int
    unanswered: bool
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """What runs before this one left: the newest wall time that they saw, and their PENDING orders with the
    moment that bounds each."""

    wall_mark: int = 0
    pending: Mapping[int, int | None] = field(default_factory=dict)

    def clock_behind(self, order: Order, now: int) -> int:
        """How far the clock stands before what was seen when the order was already there (HOLES H32).

        An order that was admitted again in this run is of this run.
        """
        if order.id not in self.pending or self.pending[order.id] != order.not_after:
            return 0
        return max(0, self.wall_mark - now)


@dataclass(frozen=True, slots=True)
class Denied:
    """`closes` marks an exit, or what turns a position: the loss of it has to be told."""

    denial: Denial
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """The order stays PENDING; `closes` marks an exit, which has no age limit. `cancel` names own working
    orders that must end first."""

    reason: str
    closes: bool
    cancel: tuple[Order, ...] = ()

    def is_news(self, order: Order) -> bool:
        """Whether the order's row does not say so yet."""
        purpose_differs = self.closes and order.purpose != "exit"
        return bool(self.cancel) or order.reason != self.reason or purpose_differs


@dataclass(frozen=True, slots=True)
class CancelBook:
    """A cancel signal: it ends what its book has open, and needs nothing else."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Nothing stands before it: book, size and limits decide. `exits`: it is an exit whatever they say."""

    exits: bool


Ruling = Denied | Wait | CancelBook | Ready


def claim_of(tx: Transaction, order: Order) -> Claim:
    sql = "SELECT signal, digest, era, unanswered, source_id FROM claims WHERE id = ?"
    row = tx.one(sql, (order.claim_id,))
    assert row is not None
    signal = msgspec.json.decode(row[0], type=Signal)
    return Claim(signal, row[1], row[2], bool(row[3]), by_person=row[4] == OPERATOR_SOURCE)


def trading_state(tx: Transaction) -> TradingState:
    return TradingState(tx.meta("trading_state") or TradingState.ACTIVE.value)


def age_of(order: Order, policy: Policy, earlier: EarlierRuns, now: int) -> Age:
    """Since the first receipt that this admission counts from."""
    age = 0 if order.not_after is None else now - (order.not_after - policy.max_order_age)
    waited_for = (order.reason or "").partition(" ")[0]
    waited_for = waited_for.removeprefix(WAITING) if waited_for.startswith(WAITING) else ""
    return Age(age, policy.max_order_age, earlier.clock_behind(order, now), waited_for)


def judge(
    tx: Transaction,
    order: Order,
    claim: Claim,
    policy: Policy,
    earlier: EarlierRuns,
    now: int,
    *,
    reachable: bool,
    entries_wait: bool = False,
) -> Ruling:
    """`reachable` says whether the broker may be asked now, `entries_wait` whether for exits alone. `now` is
    UTC in microseconds."""
    signal = claim.signal
    if claim.unanswered:
        return _unanswered(order, now)
    if order.cancel_requested:
        return Denied(denial(resend.canceled_by(tx, order)))
    opens_only = legs.opens_behind_a_close(order)
    books = () if opens_only else exposure.reach(tx, order)
    exits = any(reads_as_exit(signal, book) for book in books)
    # What turns a position closes it first: that half must not be lost, however late it is.
    closes = exits or any(_turns(signal, book) for book in books)
    other = resend.another_generation(tx, order)
    if other is not None:
        numbers = {"order": other.name, "state": other.state.value}
        return Denied(denial("EARLIER_GENERATION", **numbers), closes)
    trading = trading_state(tx)
    stop = None if claim.by_person else halted(trading, opens=False)
    if stop is not None:
        return Denied(stop, closes)
    if signal.action is Action.CANCEL:
        return CancelBook()
    if not closes:
        late = halted(trading, opens=True) or stale(age_of(order, policy, earlier, now))
        if late is not None:
            return Denied(late)
    before = legs.leg_before(tx, order) if opens_only else None
    broken = legs.broken(before)
    if broken is not None:
        return Denied(broken)
    wait = _what_it_waits_for(tx, order, policy, now, closes=closes)
    if wait is None and before is not None and before.state is not State.DONE:
        wait = Wait(f"{WAITING}{before.name}", closes=False)
    if wait is not None:
        return wait
    if not reachable or (entries_wait and not closes):
        reason = order.reason or ""
        return Wait(reason if reason.startswith(BROKER) else BROKER, closes)
    return Ready(exits)


def _unanswered(order: Order, now: int) -> Ruling:
    """The sender was told 503 and may send again: nothing is placed, and nothing waits for ever."""
    if order.not_after is not None and now > order.not_after:
        return Denied(denial("STALE", unanswered="503", waited_for="RESEND"))
    return Wait(RESEND, closes=False)


def _turns(signal: Signal, book: Decimal) -> bool:
    return signal.action is Action.REVERSE or (signal.target or ZERO) * book < ZERO


def _what_it_waits_for(
    tx: Transaction, order: Order, policy: Policy, now: int, *, closes: bool
) -> Wait | None:
    whole_account = policy.account.gate == "hold_account" and not closes
    unknown = exposure.unresolved(tx, order, whole_account=whole_account, earlier=closes)
    if unknown:
        return Wait(f"{WAITING}{unknown[0].name}", closes)
    if closes:
        wait = _working_orders(tx, order, now)
        if wait is not None:
            return wait
    # What comes behind an exit that still waits must not be closed by it (HOLES H3).
    ahead = [
        other
        for other in earlier_of_book(tx, order, "purpose = 'exit' AND state IN ('PENDING', 'WORKING')")
        if not _may_overtake(other, order, now, closes=closes)
    ]
    return Wait(f"{WAITING}{ahead[0].name}", closes) if ahead else None


def _may_overtake(exit_: Order, order: Order, now: int, *, closes: bool) -> bool:
    """Whether an order need not wait for an earlier exit of its book: that rests, or is made void by it."""
    if exit_.state is State.WORKING:
        return _rests(exit_, now)
    if exit_.reason == RESEND:
        return True  # its sender was told that it is not in
    return closes and is_superseded(exit_, order)


def is_superseded(older: Order, order: Order) -> bool:
    """Whether an exit makes an older unsent order of its book void: entries (HOLES H3), and exits at a price
    of their own, as it cancels those that rest (H5)."""
    if older.state is not State.PENDING or older.purpose == "cancel":
        return False
    priced = older.type is not OrderType.MARKET and order.type is OrderType.MARKET
    return older.purpose != "exit" or priced


def _working_orders(tx: Transaction, order: Order, now: int) -> Wait | None:
    """An exit lets its book's working orders end first, and cancels those that rest (HOLES H4, H5).

    Two resting exits stand side by side as long as each has something of the book to close.
    """
    working = [other for other in earlier_of_book(tx, order, "state = 'WORKING'") if other.leaves > ZERO]
    rests = order.type is not OrderType.MARKET
    ahead = [other for other in working if not (rests and other.purpose == "exit")]
    if ahead:
        cancel = tuple(other for other in ahead if _rests(other, now) and not other.cancel_requested)
        return Wait(f"{WAITING}{ahead[0].name}", True, cancel)
    if working and exposure.holdings(tx, order, ZERO).closable == ZERO:
        return Wait(f"{WAITING}{working[0].name}", True)
    return None


def _rests(other: Order, now: int) -> bool:
    if other.type is not OrderType.MARKET:
        return True
    return other.purpose != "exit" and now - other.updated_at > RESTING_AFTER


def earlier_of_book(tx: Transaction, order: Order, condition: str) -> list[Order]:
    """Open orders of the order's book that were admitted before it."""
    return exposure.of_book(tx, order, f"{condition} AND claim_id < ?", order.claim_id)
