"""The engine's tunnel: made from the settings, told the door's port, and put into a fact.

What reaches it from the door are two things only: the word of a knock, and headers to name a sender by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp.web import BaseRequest

from app.clock import Clock
from app.engine.status import Fact, Level
from app.listener.probe import HEADER
from app.secrets import Secrets, SecretsError, environment_name
from app.settings import Tunnel
from app.tunnel import (
    CannotStart,
    Pace,
    PublicProbe,
    Supervisor,
    TunnelFacts,
    TunnelMemory,
    client_address,
    make_kind,
)
from app.tunnel.base import REFUSED
from app.tunnel.kinds import TOKEN

_LEVELS: dict[str, Level] = {"up": "ok", "down": "error", "address changed": "error"}


class Tunnels:
    """Nothing where the settings want none. `on_death` as in Tasks."""

    def __init__(
        self,
        settings: Tunnel,
        home: Path,
        clock: Clock,
        make_secrets: Callable[[], Secrets],
        changed: Callable[[], None],
        on_death: Callable[[str, BaseException], None],
        pace: Pace | None = None,
    ) -> None:
        self._settings = settings
        self._make_secrets = make_secrets
        self._probe = PublicProbe(HEADER, clock)
        memory = TunnelMemory(home)
        kind = make_kind(settings, memory, self._token)
        self._supervisor = (
            None
            if kind is None
            else Supervisor(kind, memory, self._probe, clock, changed, on_death=on_death, pace=pace)
        )

    def start(self, port: int) -> None:
        """Once the door is open on `port`."""
        if self._supervisor is not None:
            self._supervisor.start(port)

    async def stop(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop()

    def hear(self, word: str) -> None:
        """The door was knocked at with this word."""
        self._probe.hear(word)

    def client(self, request: BaseRequest) -> str | None:
        """Where a request came from, as this kind of tunnel says it."""
        return client_address(self._settings.kind, request.headers, request.remote)

    def note_copied(self) -> None:
        """A person took the public address, to put it into alerts."""
        if self._supervisor is not None:
            self._supervisor.note_copied()

    @property
    def facts(self) -> TunnelFacts | None:
        return None if self._supervisor is None else self._supervisor.facts

    @property
    def address(self) -> str | None:
        """Where senders reach us, without a slash at its end; None where that is not known (yet)."""
        facts = self.facts
        return facts.address or self._settings.fixed_url if facts is not None else None

    @property
    def taken(self) -> str | None:
        """The address that a person took last, where it is another one."""
        facts = self.facts
        return facts.copied if facts is not None and facts.word == "address changed" else None

    async def _token(self) -> str:
        try:
            found = await asyncio.to_thread(lambda: self._make_secrets().find(TOKEN))
        except SecretsError as error:
            raise CannotStart(str(error), REFUSED) from error
        if found.value is None:
            remedy = f"set it with `onefill secret set {TOKEN}`, or as {environment_name(TOKEN)}"
            raise CannotStart(f"{self._settings.kind} needs a token: {found.problem or remedy}", REFUSED)
        return found.value


def tunnel(facts: TunnelFacts | None) -> Fact:
    if facts is None:
        return Fact("tunnel", "none", "ok", "no tunnel of Onefill's own: see [tunnel] in the settings")
    level = _LEVELS.get(facts.word, "warning")
    if facts.word == "degraded" and facts.reached is False:
        level = "error"
    reason = f"{facts.kind}: {facts.reason}"
    if level == "ok" and (port := _odd_port(facts.address)) is not None:
        level, reason = "warning", f"{reason}; TradingView takes ports 80 and 443 only, and this is {port}"
    return Fact("tunnel", facts.word, level, reason)


def _odd_port(address: str | None) -> int | None:
    """A port that TradingView does not post to; an address on this machine is a test's or a proxy's."""
    parts = urlsplit(address or "")
    return None if parts.port in (None, 80, 443) or parts.scheme == "http" else parts.port
