"""What the door asks of a claim store, and what it gets back.

Nothing here knows SQL or HTTP; the answers' shapes are the door's business.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from app.domain.exit_hint import ExitHint
from app.domain.key import ChosenKey
from app.domain.signal import Signal
from app.ledger.ticket import Ticket


@dataclass(frozen=True, slots=True)
class Admission:
    """The rules of the source that the claim's transaction needs. Durations in microseconds."""

    source_id: str
    source: str
    accounts: tuple[str, ...]
    max_age: int
    max_exit_age: int
    max_order_age: int
    admit_exits: bool
    """`on_conflict = "admit_exits"`: a conflicting exit is admitted under a key of its own (HOLES H16)."""
    entries_per_minute: int
    """0 = no limit of its own."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request that passed authentication. `body` has its secrets blanked already."""

    source_id: str
    received_at: int
    received_boot: int
    body: str
    raw_fingerprint: bytes
    warnings: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    hint: ExitHint | None = None
    """Of one that nothing is placed for: the books, in the source's `accounts`, that make it an exit."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A delivery that claims nothing.

    `verdict` is the answer's status word, `reason` a stable word of its own.
    """

    http_status: int
    verdict: str
    reason: str
    fields: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a delivery in the claim's transaction.

    `kind` is `accepted`, `duplicate`, `conflict`, `stale` or `not_accepted`. `digest` and `admitted_at` are
    set where this very delivery was admitted. `deliveries` counts the accepted and duplicate ones of the key,
    this one included. Times in UTC microseconds.
    """

    kind: str
    delivery_id: int
    claim_id: int | None = None
    key: str | None = None
    key_source: str | None = None
    outcome: dict[str, Any] | None = None
    first_received_at: int | None = None
    deliveries: int | None = None
    reason: str | None = None
    fields: tuple[str, ...] = ()
    detail: str = ""
    digest: bytes | None = None
    admitted_at: int | None = None
    reads_as_exit: bool = False
    """Not asked of a duplicate."""
    warnings: tuple[str, ...] = ()


class ClaimStore(Protocol):
    def claim(
        self, admission: Admission, delivery: Delivery, signal: Signal, key: ChosenKey, ticket: Ticket
    ) -> asyncio.Future[Verdict]:
        """Decides and records in one durable transaction; the future has the verdict.

        It raises TicketLate if the ticket expired first, LedgerUnavailable if nothing can be claimed durably;
        the latter may be raised at once as well. Whoever waits may end it before: once decided upon, a claim
        goes on, and what became of a late one is recorded.
        """
        ...

    async def refuse(self, delivery: Delivery, refusal: Refusal, key: str | None, ticket: Ticket) -> int:
        """Records a refused delivery and returns its id. Raises TicketLate and LedgerUnavailable."""
        ...

    def answered(self, delivery_id: int, http_status: int, ack_us: int) -> None:
        """Fills in what was answered, later and unwaited for (HOLES H17)."""
        ...

    def unanswered(self, delivery: Delivery, refusal: Refusal, key: str | None = None) -> None:
        """Records, when it can, a delivery that was answered without a transaction of its own."""
        ...

    def count_unauthenticated(self, reason: str) -> None:
        """Counts a request that failed authentication; nothing of it is kept."""
        ...

    @property
    def refuses_at_once(self) -> str | None:
        """A word if the store is so far behind that the door should answer 503 without queueing."""
        ...
