"""One operation on its way through the writer, and the answer to whoever waits for it.

Answers go to the loops that wait, many in one call; a loop that has closed meanwhile is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from app.ledger.errors import TicketLate
from app.ledger.ticket import Outcome, Ticket
from app.ledger.transaction import Transaction

log = structlog.get_logger(__name__)

OnVoid = Callable[[Transaction, Any], None]


@dataclass(slots=True, eq=False)
class Entry:
    """One operation that waits, runs or is answered. `since` is the boot clock when it was queued."""

    operation: Callable[[Transaction], Any]
    since: int
    ticket: Ticket | None = None
    on_void: OnVoid | None = None
    about: Hashable | None = None
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    on_unrun: Callable[[], None] | None = None
    value: Any = None
    error: Exception | None = None
    topics: set[str] = field(default_factory=set)
    settled: bool = False

    @property
    def is_late(self) -> bool:
        return self.ticket is not None and self.ticket.outcome is Outcome.LATE

    def acknowledge(self, late: Iterable[Entry]) -> bool:
        """Settles the ticket after COMMIT; `late` are those before it in the same commit that went late.

        What may rest on a late claim is late with it, for that claim is about to be marked as never
        answered: a `duplicate` of it would be a 200 without an order (HOLES H17).
        """
        if self.ticket is None:
            return True
        if any(self._may_rest_on(earlier) for earlier in late):
            self.ticket.expire()
            return False
        return self.ticket.acknowledge()

    def _may_rest_on(self, earlier: Entry) -> bool:
        return self.about is None or earlier.about is None or self.about == earlier.about


def answer(entries: Iterable[Entry]) -> None:
    """Gives every entry's value or error to its future, on that future's own loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Entry]] = {}
    for entry in entries:
        entry.settled = True
        if entry.loop is not None:
            by_loop.setdefault(entry.loop, []).append(entry)
        elif entry.error is not None:
            log.error("posted ledger write failed", error=repr(entry.error))
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, settled)
        except RuntimeError:
            log.warning("ledger writes ended after their loop had closed", count=len(settled))


def _resolve(entries: list[Entry]) -> None:
    for entry in entries:
        if entry.on_unrun is not None and isinstance(entry.error, TicketLate) and not entry.error.ran:
            entry.on_unrun()
        if entry.future is None or entry.future.done():
            continue
        if entry.error is None:
            entry.future.set_result(entry.value)
        else:
            entry.future.set_exception(entry.error)
