"""Cloudflare's tunnel: a quick one without an account, or a named one with the user's own host name.

The address comes from cloudflared's metrics server, never from its log, whose error lines hold addresses too.
Its debug log holds requests with their tokens and is never asked for (facts 3.1).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from app.clock import SECOND
from app.tunnel.agents import ask, dig, find_program, free_port
from app.tunnel.base import RATE_LIMITED, REFUSED, Ending, Launch, Look
from app.tunnel.lines import Lines
from app.tunnel.memory import TunnelMemory

WHERE = "get it at github.com/cloudflare/cloudflared/releases"
EMPTY = "cloudflared-empty.yml"
TOKEN_FILE = "cloudflared-token"  # noqa: S105 - its name

_HOST = re.compile(r"(?!api\.)[a-z0-9-]+(?:\.[a-z0-9-]+)+")
_LIMITED = re.compile(r"failed to unmarshal quick Tunnel|\b429\b|Too Many Requests|\b1015\b", re.IGNORECASE)
_TOO_OLD = re.compile(r"flag provided but not defined|Incorrect Usage", re.IGNORECASE)
_BAD_TOKEN = re.compile(
    r"token is not valid|Invalid tunnel secret|Unauthorized|tunnel not found", re.IGNORECASE
)
_BLOCKED = re.compile(r"failed to dial to edge|quic.*timeout|no recent network activity", re.IGNORECASE)


class Cloudflared:
    """`address` None: a quick tunnel. `token` is asked for at each start, so that a new one is taken."""

    first_wait = 2 * SECOND

    def __init__(
        self,
        memory: TunnelMemory,
        *,
        program: str | None,
        protocol: str,
        address: str | None = None,
        token: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._memory = memory
        self._program = program
        self._protocol = protocol
        self._address = address
        self._token = token
        self._metrics = ""
        self.keeps_address = address is not None
        self.name = "cloudflared-named" if self.keeps_address else "cloudflared-quick"
        # It reconnects by itself, within a minute or so; a new quick tunnel would lose the address.
        self.patience = (90 if self.keeps_address else 900) * SECOND

    async def prepare(self, port: int) -> Launch:
        program = await find_program("cloudflared", self._program, WHERE)
        # ~/.cloudflared/config.yml would be read otherwise, and its catch-all answers 404 to every alert.
        empty = await asyncio.to_thread(self._memory.put, EMPTY, "")
        metrics = f"127.0.0.1:{free_port()}"
        self._metrics = f"http://{metrics}"
        argv = [program, "tunnel", "--no-autoupdate", "--config", str(empty), "--metrics", metrics]
        argv += ["--loglevel", "info", "--protocol", self._protocol]
        if self._token is None:
            return Launch((*argv, "--url", f"http://127.0.0.1:{port}"), drop=("TUNNEL_",))
        token = await self._token()
        path = await asyncio.to_thread(self._memory.put, TOKEN_FILE, token)
        return Launch((*argv, "run", "--token-file", str(path)), drop=("TUNNEL_",), secrets=(token,))

    async def look(self, lines: Lines) -> Look:
        ready = await ask(f"{self._metrics}/ready")
        address = self._address or await self._quick_address()
        if ready is None:
            return Look(False, address, "cloudflared does not answer yet")
        if ready[0] != 200:
            blocked = lines.find(_BLOCKED) is not None and self._protocol == "auto"
            hint = '; if this network lets no UDP out, set protocol = "http2"' if blocked else ""
            return Look(False, address, f"no connection to Cloudflare (outbound port 7844){hint}")
        if address is None:
            return Look(False, None, "connected, but without an address yet")
        return Look(True, address)

    async def _quick_address(self) -> str | None:
        found = await ask(f"{self._metrics}/quicktunnel")
        host = dig(found[1], "hostname") if found is not None and found[0] == 200 else None
        return f"https://{host}" if isinstance(host, str) and _HOST.fullmatch(host) else None

    def ending(self, code: int, lines: Lines) -> Ending:
        if not self.keeps_address and lines.find(_LIMITED):
            reason = "Cloudflare gives no more quick tunnels for now (429): it counts starts"
            return Ending(reason, RATE_LIMITED)
        if lines.find(_TOO_OLD):
            return Ending("this cloudflared is too old (2025.4 or newer is needed): update it", REFUSED)
        if self.keeps_address and lines.find(_BAD_TOKEN):
            return Ending(
                "Cloudflare refuses the token: set it anew (onefill secret set tunnel.token)", REFUSED
            )
        return Ending(f"cloudflared ended ({ended(code)}){quoted(lines)}")

    async def clean(self) -> None:
        await asyncio.to_thread(self._memory.remove, TOKEN_FILE)


def ended(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"exit code {code}"


def quoted(lines: Lines) -> str:
    """The last line it printed, in short."""
    last = lines.last(1)
    return f": {last[0][:160]}" if last else ""
