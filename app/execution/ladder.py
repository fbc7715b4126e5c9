"""One complete look for an order at its broker: every rung of the ladder, and what each of them showed.

Reads the broker and decides nothing. A rung that failed, a page that is missing, or an order that comes back
under another id makes the look incomplete: evidence of nothing (facts/brokers-and-reconciliation.md 4.6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from app.brokers.base import Broker, BrokerOrder, Fill, LookupFailed, RateLimited, Snapshot
from app.clock import Clock
from app.domain.freshness import MAX_SKEW
from app.domain.sizing import ZERO
from app.ledger.orders import Order, plain

LOOK = "by id, open orders, recent orders, fills, position"
BY_ID = "by id"
NEEDED = ("clock", "positions", "open_orders", "recent_orders", "fills")
"""Without one of these a look is not complete."""


@dataclass(frozen=True, slots=True)
class Climb:
    """`seen` is the order under our id. `failed` says why the look proves nothing, empty where it may."""

    began_at: int
    seen: BrokerOrder | None = None
    fills: list[Fill] = field(default_factory=list)
    under_our_id: tuple[str, ...] = ()
    """The broker's numbers of all orders that bear our id: more than one is a double."""
    others: list[BrokerOrder] = field(default_factory=list)
    """Orders of the window that bear another id or none."""
    position: Decimal | None = None
    failed: str = ""
    rungs: tuple[str, ...] = ()

    @property
    def is_absent(self) -> bool:
        return not self.failed and self.seen is None and not self.fills and not self.under_our_id

    @property
    def words(self) -> str:
        return "; ".join(self.rungs)


async def climb(broker: Broker, order: Order, sent_at: int, clock: Clock) -> Climb:
    """Looks for an order that was first sent at `sent_at` (UTC microseconds). Raises RateLimited alone."""
    assert order.client_order_id is not None
    cid, began_at = order.client_order_id, clock.now()
    try:
        seen = await broker.find(cid)
        fills = [] if seen is None else await broker.fills(cid)
    except RateLimited:
        raise
    except LookupFailed as error:
        return Climb(began_at, failed=str(error) or "the look by id failed", rungs=(f"{BY_ID}: {error}",))
    if seen is not None and seen.client_order_id != cid:
        other = f"another order came back ({seen.client_order_id})"
        return Climb(began_at, failed=f"{BY_ID}: {other}", rungs=(f"{BY_ID}: {other}",))
    first = f"{BY_ID}: {'absent' if seen is None else seen.broker_order_id}"
    try:
        snapshot = await broker.snapshot(sent_at - MAX_SKEW)
    except RateLimited:
        raise
    except LookupFailed as error:
        # What was found stays found; only that there is nothing else is not known.
        numbers = () if seen is None else (seen.broker_order_id,)
        failed = "" if seen is not None else str(error) or "the lists could not be read"
        return Climb(began_at, seen, fills, numbers, failed=failed, rungs=(first, f"lists: {error}"))
    return _of_lists(order, began_at, seen, fills, snapshot, first)


def _of_lists(
    order: Order, began_at: int, seen: BrokerOrder | None, fills: list[Fill], snapshot: Snapshot, first: str
) -> Climb:
    cid = order.client_order_id
    listed = {one.broker_order_id: one for one in (*snapshot.recent_orders, *snapshot.open_orders)}
    ours = {number: one for number, one in listed.items() if one.client_order_id == cid}
    if seen is not None:
        ours[seen.broker_order_id] = seen
    elif len(ours) == 1:
        (seen,) = ours.values()
    filled = [fill for fill in snapshot.fills if fill.client_order_id == cid]
    missing = [f"{name}: {snapshot.failed[name]}" for name in NEEDED if name in snapshot.failed]
    if snapshot.clock_offset is None and not missing:
        missing = ["clock: not known"]
    before = snapshot.positions_before.get(order.instrument, ZERO)
    position = snapshot.positions.get(order.instrument, ZERO)
    if before != position and not missing:
        missing = [f"position: {plain(before)} became {plain(position)} during the look"]
    rungs = (
        first,
        f"open orders: {len(snapshot.open_orders)}",
        f"recent orders: {len(snapshot.recent_orders)}, ours: {len(ours)} (pages={snapshot.pages})",
        f"fills: {len(snapshot.fills)}, ours: {len(filled)}",
        f"position: {plain(position)}",
        *missing,
    )
    return Climb(
        began_at,
        seen,
        fills or filled,
        tuple(sorted(ours)),
        [one for number, one in listed.items() if number not in ours],
        position,
        failed="" if seen is not None else "; ".join(missing),
        rungs=rungs,
    )


def twins(others: list[BrokerOrder], order: Order, since: int, until: int) -> list[BrokerOrder]:
    """Orders that look like this one, made while it may have arrived: it may be one of them.

    Whether one of them is known as another's is the caller's to say. UTC microseconds.
    """
    return [
        one
        for one in others
        if (one.instrument, one.side, one.quantity) == (order.instrument, order.side, order.quantity)
        and since - MAX_SKEW <= one.created_at <= until + MAX_SKEW
    ]
