"""`ssh -R`: a server of one's own, or a service that gives an address to whoever connects.

The host's key must be known and nothing is ever asked: `BatchMode`. A forward that was refused ends ssh, and
a silent network is noticed by ssh's own keep-alive (facts 3.4, 3.7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.clock import SECOND
from app.tunnel.agents import find_program
from app.tunnel.base import REFUSED, Ending, Launch, Look
from app.tunnel.cloudflared import ended, quoted
from app.tunnel.lines import Lines

ALIVE = 5
"""Seconds between two keep-alives, and ALIVE_COUNT without an answer end it: what hangs is lost (1.2)."""
ALIVE_COUNT = 3
LAST = 6
"""Lines that say why it ended."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that prints its address: what it forwards, and how its addresses end."""

    remote: str
    suffixes: tuple[str, ...]


SERVICES: Mapping[str, Service] = {
    "localhost.run": Service("80", ("lhr.life", "lhr.rocks", "localhost.run")),
    "serveo.net": Service("80", ("serveo.net", "serveousercontent.com")),
    "a.pinggy.io": Service("0", ("pinggy.link", "pinggy-free.link", "pinggy.online", "pinggy.net")),
}

_NOISE = re.compile(r"^debug\d: ")
_FORWARDED = re.compile(r"remote forward success for: listen|Allocated port \d+ for remote forward")
_ENDINGS: tuple[tuple[str, int, str], ...] = (
    (
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        REFUSED,
        "the server's key is not known, or is another one than before: connect once by hand and look",
    ),
    (r"Permission denied", REFUSED, "the server does not accept the key: see ssh_key and ssh-agent"),
    (
        r"remote port forwarding failed",
        0,
        "the server's port is taken, perhaps by the connection before, or not allowed",
    ),
    (r"Timeout, server .* not responding", 0, "the connection froze: nothing came back, so it was given up"),
    (r"Could not resolve hostname", 0, "the server's name is not known, or this computer is offline"),
    (r"Connection refused", 0, "the server refuses the connection"),
    (r"timed out|No route to host|Network is unreachable", 0, "the server is not reached"),
    (r"closed by|Connection reset|Broken pipe", 0, "the server closed the connection"),
)
"""In the order in which they are looked for, in the lines that ssh printed last."""


class Ssh:
    """`address` None: one of the services, which says it. `alive` in seconds. `options` come first, as
    `-o` settings."""

    name = "ssh"
    patience = 60 * SECOND
    first_wait = SECOND

    def __init__(
        self,
        *,
        program: str | None,
        target: str,
        port: int | None,
        remote: str | None,
        key: str | None,
        address: str | None,
        alive: int = ALIVE,
        options: tuple[str, ...] = (),
    ) -> None:
        self._program = program
        self._target = target
        self._port = port
        self._key = key
        self._address = address
        self._alive = alive
        self._options = options
        self._service = service_of(target)
        self._remote = remote or (self._service.remote if self._service else "")
        self.keeps_address = address is not None
        self._printed_address = _address_of(self._service) if self._service and address is None else None

    async def prepare(self, port: int) -> Launch:
        program = await find_program("ssh", self._program, "install the OpenSSH client")
        settings = (
            *self._options,
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ExitOnForwardFailure=yes",
            f"ServerAliveInterval={self._alive}",
            f"ServerAliveCountMax={ALIVE_COUNT}",
            "ConnectTimeout=15",
            # A shared master would outlive us, and hold the forward.
            "ControlMaster=no",
            "ControlPath=none",
            "ForwardAgent=no",
            # The one level that says that a forward was granted.
            "LogLevel=DEBUG1",
        )
        argv = [program, "-T", *(word for setting in settings for word in ("-o", setting))]
        if self._service is None:
            argv.append("-N")
        if self._port is not None:
            argv += ["-p", str(self._port)]
        if self._key is not None:
            argv += ["-i", self._key, "-o", "IdentitiesOnly=yes"]
        argv += ["-R", f"{self._remote}:127.0.0.1:{port}", "--", self._target]
        watch = (_FORWARDED, self._printed_address) if self._printed_address else (_FORWARDED,)
        return Launch(tuple(argv), watch=watch, noise=_NOISE)

    async def look(self, lines: Lines) -> Look:
        address = self._address or self._printed(lines)
        if lines.find(_FORWARDED) is None:
            return Look(False, address, "ssh has no forward yet")
        if address is None:
            return Look(False, None, "connected, but the service has not said its address yet")
        return Look(True, address)

    def _printed(self, lines: Lines) -> str | None:
        found = lines.find(self._printed_address) if self._printed_address else None
        return found[0].lower() if found else None

    def ending(self, code: int, lines: Lines) -> Ending:
        for pattern, wait, reason in _ENDINGS:
            if any(re.search(pattern, line) for line in lines.last(LAST)):
                return Ending(reason, wait)
        return Ending(f"ssh ended ({ended(code)}){quoted(lines)}")

    async def clean(self) -> None:
        """It leaves none."""


def _address_of(service: Service) -> re.Pattern[str]:
    """Of the service's own names, which no other address in its greeting has. `admin.` is a page to visit."""
    suffixes = "|".join(map(re.escape, service.suffixes))
    return re.compile(rf"https://(?!(?:admin|www)\.)(?:[a-z0-9-]+\.)+(?:{suffixes})(?![\w.-])", re.IGNORECASE)


def service_of(target: str) -> Service | None:
    """The known service that this target is at."""
    return SERVICES.get(target.rpartition("@")[2].lower())
