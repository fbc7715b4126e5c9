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
    earlier generation of the leg, but for what another row carries."""
    made = [id_of(policy, identity, claim, order, number) for number in range(1, order.generation + 1)]
    known = "SELECT 1 FROM orders WHERE account = ? AND client_order_id = ? AND id <> ?"
    return tuple(cid for cid in made if tx.one(known, (order.account, cid, order.id)) is None)
