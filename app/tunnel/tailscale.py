"""Tailscale Funnel in the foreground: it is there while our child runs, and gone with it.

Nothing of the user's own serve and funnel routes is ever reset or changed (facts 3.3).
"""

from __future__ import annotations

import os
import re
from typing import Any

from app.clock import SECOND
from app.tunnel.agents import dig, find_program, run_for_json
from app.tunnel.base import REFUSED, Ending, Launch, Look
from app.tunnel.cloudflared import ended, quoted
from app.tunnel.lines import Lines

WHERE = "get it at tailscale.com/download and sign in"
PORT = 443
"""Funnel has 8443 and 10000 too; TradingView reaches neither."""

_NOT_ALLOWED = re.compile(r"Funnel is not enabled|Funnel not available|not allowed.*funnel", re.IGNORECASE)
_TAKEN = re.compile(r"already exists|already in use|port \d+ is.*(?:used|taken)", re.IGNORECASE)
_VISIT = re.compile(r"https://login\.tailscale\.com/\S+")


class Tailscale:
    name = "tailscale"
    keeps_address = True
    patience = 120 * SECOND
    first_wait = SECOND

    def __init__(self, *, program: str | None) -> None:
        self._program = program
        self._found = ""

    async def prepare(self, port: int) -> Launch:
        self._found = await find_program("tailscale", self._program, WHERE)
        return Launch((self._found, "funnel", f"--https={PORT}", f"http://127.0.0.1:{port}"))

    async def look(self, lines: Lines) -> Look:
        status = await run_for_json((self._found, "status", "--json"), os.environ)
        if status is None:
            return Look(False, None, "tailscale does not answer: does its service run?")
        if (state := dig(status, "BackendState")) != "Running":
            return Look(False, None, f"tailscale is not connected ({state}): sign in or switch it on")
        host = str(dig(status, "Self", "DNSName") or "").rstrip(".")
        if not host:
            return Look(False, None, "this machine has no name in the tailnet: switch on MagicDNS and HTTPS")
        address = f"https://{host}"
        if lines.find(_NOT_ALLOWED):
            visit = lines.find(_VISIT)
            return Look(False, address, f"Funnel is not allowed yet{f': visit {visit[0]}' if visit else ''}")
        funnel = await run_for_json((self._found, "funnel", "status", "--json"), os.environ)
        if not _is_open(funnel, f"{host}:{PORT}"):
            return Look(False, address, "Funnel is not open yet")
        if dig(status, "Self", "Online") is False:
            return Look(False, address, "tailscale has no connection")
        return Look(True, address)

    def ending(self, code: int, lines: Lines) -> Ending:
        if lines.find(_TAKEN):
            reason = f"port {PORT} of tailscale is taken by another route of yours: `tailscale funnel status`"
            return Ending(f"{reason} shows it; Onefill never removes one", REFUSED)
        if lines.find(_NOT_ALLOWED):
            visit = lines.find(_VISIT)
            return Ending(f"Funnel is not allowed yet{f': visit {visit[0]}' if visit else ''}", REFUSED)
        return Ending(f"tailscale ended ({ended(code)}){quoted(lines)}")

    async def clean(self) -> None:
        """It leaves none."""


def _is_open(funnel: Any, place: str) -> bool:
    """A foreground route stands under its own session."""
    sessions = dig(funnel, "Foreground")
    routes = [funnel, *(sessions.values() if isinstance(sessions, dict) else ())]
    return any(dig(route, "AllowFunnel", place) is True for route in routes)
