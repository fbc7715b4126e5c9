"""What a kind of tunnel states and answers; the supervisor knows nothing else of it. Plain data.

A kind says how its program is started, whether that is ready, and what its end meant. It starts and ends
nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from app.clock import SECOND
from app.tunnel.lines import Lines

RATE_LIMITED = 300 * SECOND
"""Microseconds: the least wait after a service said 'too many'; Cloudflare counts starts."""
REFUSED = 300 * SECOND
"""After a refusal that only a person can lift, as a wrong token: asked again in case somebody did."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to run, as an argument list: no shell. Secrets go by `environment` or by a file, never argv.

    `drop`: variables of our own environment that begin so are kept from it. `secrets` are blanked in what it
    prints; `watch` and `noise` as in Lines.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    drop: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    watch: tuple[re.Pattern[str], ...] = ()
    noise: re.Pattern[str] | None = None

    def lines(self) -> Lines:
        return Lines(self.secrets, self.watch, self.noise)


@dataclass(frozen=True, slots=True)
class Look:
    """What the program says of itself now. `address` has no slash at its end."""

    ready: bool
    address: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why it ended, for a person, and the least wait in microseconds before it may be started again."""

    reason: str
    wait: int = 0


class CannotStart(Exception):
    """It cannot be started now. One line: what is wrong and what to do; `wait` as in Ending."""

    def __init__(self, reason: str, wait: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class Kind(Protocol):
    """One way into the internet."""

    @property
    def name(self) -> str:
        """As config.toml has it."""
        ...

    @property
    def keeps_address(self) -> bool:
        """Whether a new start has the same address: only then may one be made on a mere suspicion."""
        ...

    @property
    def patience(self) -> int:
        """Microseconds that it may be unready before it is started anew."""
        ...

    @property
    def first_wait(self) -> int:
        """Microseconds before the first new start; each further one waits twice as long."""
        ...

    async def prepare(self, port: int) -> Launch | None:
        """How to lead to `port` on this machine; None where nothing is to be run. Raises CannotStart."""
        ...

    async def look(self, lines: Lines) -> Look:
        """Never raises, and answers within seconds."""
        ...

    def ending(self, code: int, lines: Lines) -> Ending:
        """`code` is the program's exit code; `lines` what it printed last."""
        ...

    async def clean(self) -> None:
        """Removes the secrets that `prepare` wrote; called once the program has read them, and at the end."""
        ...
