"""How the simulated exchange works, faults apart: what it does with ids, when it shows what, how it fills.

Plain data that may be changed while it runs. Durations are microseconds of the exchange's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

IdClass = Literal["A", "B", "C", "D", "E"]
Filling = Literal["in_reply", "after_reply", "by_hand"]


@dataclass
class Rules:
    id_class: IdClass = "B"
    """What becomes of a client order id that is known: A the original is returned, B refused for good,
    C refused while the first is open, D the same bytes are refused, E it is a label."""
    expiry_field: str | None = None
    """The field of an order request that says until when it may arrive (RFC 3339, or microseconds)."""
    filling: Filling = "after_reply"
    """When an order that can fill does: before the answer, right after it, or only when it is told to."""
    is_open: bool = True
    """The session of stocks; coins are always traded."""
    lag: dict[str, int] = field(default_factory=dict)
    """By endpoint: how old an order (fill, change of a position) is before that endpoint shows it."""
    retention: dict[str, int] = field(default_factory=dict)
    """By status: how long after its end an order can still be looked up."""
    skew: int = 0
    """How far the exchange's clock is ahead."""
    counts_ids: bool = False
    """Order ids are 1, 2, 3... and begin again at each start (a gateway that forgets); else UUIDs."""
    page_tokens_left: int | None = None
    """So many further pages are given before a cursor expires; None: it never does."""
    orders_per_page: int = 500
    quote_age: int = 0
    """How old the latest trade is."""
    buying_power: int = 1
    """How many times its cash an account may buy for."""

    def change(self, row: Mapping[str, Any]) -> None:
        """Sets what `row` names. Raises ValueError for what it does not know."""
        if strange := sorted(row.keys() - {one.name for one in fields(self)}):
            raise ValueError(f"the exchange has no setting {', '.join(strange)}")
        for name, value in row.items():
            setattr(self, name, value)
