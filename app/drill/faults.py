"""What the simulated exchange does wrong, as data: which call, what becomes of it, what is answered.

Knows no socket and no book. A plan may be changed at any moment while the exchange runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


class Taken(StrEnum):
    """Whether the exchange acts on the request, and when."""

    BEFORE_REPLY = "before_reply"
    NEVER = "never"
    LATE = "late"
    """Accepted late: what the caller sees comes first, and then the fault's hold and delay. A caller that
    sees nothing wrong (`normal`) waits as long as it likes."""


class Reply(StrEnum):
    """What the caller sees."""

    NORMAL = "normal"
    RESET = "reset"
    """The connection is reset (RST)."""
    CLOSED = "closed"
    """The connection is closed without an answer, as an idle one is."""
    TRUNCATED = "truncated"
    """Half of the answer, then the end of the connection."""
    STATUS = "status"
    """The HTTP status of the fault, with a gateway's body, or `code` and `message`."""
    HTML = "html"
    """200 with a page."""
    EMPTY = "empty"
    """200 without a body."""
    REDIRECT = "redirect"
    """307 to the same address."""
    DUPLICATE = "duplicate"
    """The refusal of a client order id that is known."""
    STRANGER = "stranger"
    """An order that nobody asked for."""
    NAMELESS = "nameless"
    """The answer without any id."""
    FLAT = "flat"
    """An empty list with status 200: a section that lies."""
    DOUBLED = "doubled"
    """Each entry of a list twice, newest first."""


@dataclass
class Fault:
    """One row of the plan. `endpoint` is a name of endpoints.py; `*` is every one.

    `skip` calls pass first, then `times` are hit (None: until it is taken out). `delay` seconds pass before
    the exchange answers. `symbol` narrows it to calls that name it.
    """

    endpoint: str
    reply: Reply = Reply.NORMAL
    taken: Taken = Taken.BEFORE_REPLY
    status: int = 503
    code: int = 0
    message: str = ""
    retry_after: str = ""
    delay: float = 0.0
    skip: int = 0
    times: int | None = 1
    symbol: str = ""
    hold: Hold | None = None
    """The call stands still, acted on or not yet (`late`), until it is let go."""
    hits: int = 0

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Fault:
        """A fault from JSON. Raises ValueError for what it does not know."""
        known = {one.name for one in fields(cls)} - {"hold", "hits"}
        if strange := sorted(row.keys() - known):
            raise ValueError(f"a fault has no {', '.join(strange)}")
        fault = cls(**row)
        fault.reply, fault.taken = Reply(fault.reply), Taken(fault.taken)
        return fault


@dataclass
class Hold:
    """Holds a call until `release`; `arrived` is set once the first one stands there."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()

    async def stand(self) -> None:
        self.arrived.set()
        await self.released.wait()


class FaultPlan:
    """The faults that are to come, in order; the first one that fits a call is used."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.calls: dict[str, int] = {}
        """How often each endpoint was called since the start."""

    def add(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def hold(self, endpoint: str, **options: Any) -> Hold:
        """The next call of `endpoint` stands still until the hold is released."""
        hold = Hold()
        self.add(Fault(endpoint, hold=hold, **options))
        return hold

    def clear(self) -> None:
        """No more faults; what stands goes on."""
        for fault in self.faults:
            if fault.hold is not None:
                fault.hold.release()
        self.faults.clear()

    def next_for(self, endpoint: str, names: str) -> Fault | None:
        """The fault of this call, which is counted. `names` is what the request says of symbols."""
        self.calls[endpoint] = self.calls.get(endpoint, 0) + 1
        for fault in self.faults:
            if fault.endpoint not in ("*", endpoint) or fault.symbol not in names:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.times is not None and fault.hits >= fault.times:
                continue
            fault.hits += 1
            return fault
        return None
