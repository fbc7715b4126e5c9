"""What the engine says about itself. Plain data: made from memory, shown by the window and the commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Fact(msgspec.Struct, frozen=True):
    """One thing that is well or not: a word for the strip, and a sentence for a person."""

    name: str
    """`listener`, `tunnel`, `ledger`, `account:paper`, `clock`, `trading`, `loop`; `program` if a part of it
    died."""
    word: str
    level: Level = "ok"
    reason: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The engine at one moment. Times are UTC microseconds, `_ms` milliseconds."""

    state: Literal["starting", "running", "stopping"]
    home: str
    port: int | None
    version: str
    started_at: int
    trading_state: str
    facts: list[Fact]
    loop_lag_ms: float
    loop_lag_max_ms: float
    """The largest of the last minute."""
    loop_lag_max_since_start_ms: float
    counts: dict[str, int]
    public: str | None = None
    """Where senders reach us from outside, without a slash at its end and without any token."""

    @property
    def level(self) -> Level:
        """The worst of the facts."""
        levels = {fact.level for fact in self.facts}
        return "error" if "error" in levels else "warning" if "warning" in levels else "ok"


@dataclass(frozen=True, slots=True)
class HookAddress:
    """Where a sender posts to. The addresses hold the token: show them, never log them."""

    source: str
    local: str
    public: str | None = None
    taken: str | None = None
    """Where the alerts still post to, without path and token: the public address that a person took last,
    where it is another one than now."""

    def __repr__(self) -> str:
        return f"HookAddress(source={self.source!r})"


@dataclass(frozen=True, slots=True)
class SampleAnswer:
    """What the door answered to a sample alert; `status` 0 means that nothing answered."""

    status: int
    body: dict[str, Any]


class StartRefused(Exception):
    """The engine does not start. One line: what is wrong and what to do."""


class CommandRefused(Exception):
    """A command that was not done. One line: why not."""
