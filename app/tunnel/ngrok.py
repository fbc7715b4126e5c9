"""ngrok's agent: one stable address a free account; its local API says which.

The inspector stays off: it would keep every body, and can send one again. The authtoken goes by a file of
ours (facts 3.2).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from app.clock import SECOND
from app.tunnel.agents import ask, dig, find_program, free_port
from app.tunnel.base import RATE_LIMITED, REFUSED, Ending, Launch, Look
from app.tunnel.cloudflared import ended, quoted
from app.tunnel.lines import Lines
from app.tunnel.memory import TunnelMemory

WHERE = "get it at ngrok.com/download"
CONFIG = "ngrok.yml"

_ERROR = re.compile(r"ERR_NGROK_(\d+)")
_SESSION = re.compile(
    r"(?P<up>client session established|tunnel session started)"
    r"|(?P<down>failed to reconnect session|session closed, starting reconnect loop|heartbeat timeout)"
)
_TOO_OLD = re.compile(
    r"unknown flag|(?:unknown|invalid|unsupported) (?:config(?:uration)? )?version", re.IGNORECASE
)
_ANEW = ": set it anew (onefill secret set tunnel.token)"
_ERRORS = {
    "105": (f"ngrok refuses the authtoken{_ANEW}", REFUSED),
    "107": (f"ngrok refuses the authtoken{_ANEW}", REFUSED),
    "4018": (f"ngrok asks for a verified account and its authtoken{_ANEW}", REFUSED),
    "108": ("this ngrok account runs as many agents as it may elsewhere: end one there", REFUSED),
    "334": ("this ngrok address is online already, by another agent: end that one", REFUSED),
    "734": ("the requests of this ngrok plan are used up for this month", RATE_LIMITED),
}


class Ngrok:
    """`address`: a domain of the account, or None for the one that ngrok gives."""

    name = "ngrok"
    # The dev domain stays the same.
    keeps_address = True
    patience = 90 * SECOND
    first_wait = SECOND

    def __init__(
        self,
        memory: TunnelMemory,
        *,
        program: str | None,
        address: str | None,
        token: Callable[[], Awaitable[str]],
    ) -> None:
        self._memory = memory
        self._program = program
        self._address = address
        self._token = token
        self._api = ""
        self._port = 0

    async def prepare(self, port: int) -> Launch:
        program = await find_program("ngrok", self._program, WHERE)
        token = await self._token()
        api = f"127.0.0.1:{free_port()}"
        self._api, self._port = f"http://{api}/api", port
        # JSON is YAML; so no character of a token can mean anything.
        config = {"version": 3, "agent": {"authtoken": token, "web_addr": api}}
        path = await asyncio.to_thread(self._memory.put, CONFIG, json.dumps(config))
        argv = [program, "http", f"http://127.0.0.1:{port}", "--config", str(path), "--inspect=false"]
        argv += ["--log", "stdout", "--log-format", "logfmt", "--log-level", "info"]
        if self._address is not None:
            argv += ["--url", self._address]
        return Launch(tuple(argv), drop=("NGROK_",), secrets=(token,), watch=(_SESSION,))

    async def look(self, lines: Lines) -> Look:
        addresses = await self._addresses()
        if addresses is None:
            return Look(False, None, "ngrok does not answer yet")
        address = next(iter(addresses), None)
        if address is None:
            return Look(False, None, "ngrok has no address yet")
        session = lines.find(_SESSION)
        if session is not None and session.lastgroup == "down":
            return Look(False, address, "ngrok has lost its session and tries again")
        return Look(True, address)

    async def _addresses(self) -> list[str] | None:
        """What leads to our port; None where the API does not answer. Newer agents say `endpoints`."""
        for part, url_name, way in (
            ("endpoints", "url", ("upstream", "url")),
            ("tunnels", "public_url", ("config", "addr")),
        ):
            found = await ask(f"{self._api}/{part}")
            entries = dig(found[1], part) if found is not None and found[0] == 200 else None
            if isinstance(entries, list):
                return [
                    str(dig(entry, url_name)).rstrip("/")
                    for entry in entries
                    if str(dig(entry, url_name)).startswith("https://")
                    and _port(dig(entry, *way)) in (None, self._port)
                ]
        return None

    def ending(self, code: int, lines: Lines) -> Ending:
        error = lines.find(_ERROR)
        if error is not None and error[1] in _ERRORS:
            reason, wait = _ERRORS[error[1]]
            return Ending(f"{reason} (ERR_NGROK_{error[1]})", wait)
        if lines.find(_TOO_OLD):
            return Ending("this ngrok is too old (3.16 or newer is needed): `ngrok update`", REFUSED)
        return Ending(f"ngrok ended ({ended(code)}){quoted(lines)}")

    async def clean(self) -> None:
        await asyncio.to_thread(self._memory.remove, CONFIG)


def _port(upstream: Any) -> int | None:
    """The port in `http://127.0.0.1:8787`, `localhost:8787` or `8787`; None where it is not said."""
    text = str(upstream or "")
    if text.isdigit():
        return int(text)
    try:
        return urlsplit(text if "//" in text else f"//{text}").port
    except ValueError:
        return None
