"""The client order id that an order goes out under, and whether the broker may know it already.

Made once, when the order is sent, and stored with it: what is made again here is only ever looked up.
"""

from __future__ import annotations

from app.domain.client_order_id import client_order_id
from app.execution.policy import Policy
from app.execution.ruling import Claim
from app.ledger.orders import Order
from app.ledger.restore import LOOKUP_BEFORE_SEND
from app.ledger.transaction import Transaction

LATER = 3
"""Generations beyond its own that an order is looked for under."""
WEEK = 7 * 24 * 3_600 * 1_000_000


def id_of(policy: Policy, identity: str, claim: Claim, order: Order, generation: int | None = None) -> str:
    """`identity` is the broker's own account number. Another generation of the leg can be asked for."""
    environment = "live" if policy.account.live else "paper"
    return client_order_id(
        f"{policy.account.broker}:{environment}:{identity}",
        claim.digest,
        order.leg,
        order.generation if generation is None else generation,
        claim.era,
    )


def must_look_first(tx: Transaction) -> bool:
    """Whether the ledger ever went back in time: then what it lost may be at the broker (HOLES H39)."""
    return tx.meta(LOOKUP_BEFORE_SEND) is not None


def ids_to_look_up(
    tx: Transaction, policy: Policy, identity: str, claim: Claim, order: Order
) -> tuple[str, ...]:
    """Ids under which the broker may have this order unknown to the ledger: those of this and of every
    earlier generation of the leg, but for what another row carries.

    For a week after a restore a few later ones as well: in the time that was lost a person may have replayed
    the order, and its signal may come in again as if it were the first.
    """
    newest = order.generation + (LATER if _is_soon_after_restore(tx, order) else 0)
    made = [id_of(policy, identity, claim, order, number) for number in range(1, newest + 1)]
    known = "SELECT 1 FROM orders WHERE account = ? AND client_order_id = ? AND id <> ?"
    return tuple(cid for cid in made if tx.one(known, (order.account, cid, order.id)) is None)


def _is_soon_after_restore(tx: Transaction, order: Order) -> bool:
    restored_at = tx.meta(LOOKUP_BEFORE_SEND)
    return restored_at is not None and order.created_at < int(restored_at) + WEEK
