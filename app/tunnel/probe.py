"""Knocks at our own door from outside: by the public address, with a word that only our door can have heard.

The answer is that of any probe (CONTRACT 3): the word travels in a header and changes nothing. What came back
says whether somebody answers there; whether it was us, only our own door can say.
"""

from __future__ import annotations

import secrets
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from app.clock import SECOND, Clock

PATIENCE = 6.0
"""Seconds for one knock. Longer than a sender waits, so that 'slow' and 'dead' are told apart."""
SLOW = 2 * SECOND
"""TradingView gives up after 3 s, and its way here may be longer than ours."""
PATH = "/healthz"

_NO_TRUST = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError)

_STATUSES = {
    404: "nothing of ours is there: a tunnel that is offline, or a route that leads elsewhere",
    429: "the tunnel's service takes no more requests now",
    502: "the tunnel is there and does not reach this program",
    503: "the tunnel's service has no way to this program",
    504: "the tunnel's service waited in vain for this program",
    530: "the tunnel's service knows no running tunnel of this address (1033)",
}


@dataclass(frozen=True, slots=True)
class Knock:
    """`arrived`: heard by our own door and answered 200. `took` in microseconds; `at` UTC microseconds."""

    arrived: bool
    reason: str
    took: int
    at: int

    @property
    def slow(self) -> bool:
        return self.arrived and self.took > SLOW


class PublicProbe:
    """`header` is the one by which the door tells a word to `hear`."""

    def __init__(self, header: str, clock: Clock, patience: float = PATIENCE) -> None:
        self._header = header
        self._clock = clock
        self._patience = patience
        self._word: str | None = None
        self._heard = False

    def hear(self, word: str) -> None:
        """The door had a request with this word."""
        if self._word is not None and secrets.compare_digest(word.encode(), self._word.encode()):
            self._heard = True

    async def knock(self, address: str) -> Knock:
        """One request; one at a time. Never raises."""
        self._word, self._heard = secrets.token_urlsafe(16), False
        began = self._clock.boot()
        try:
            reason = await self._ask(address)
        finally:
            self._word = None
        return Knock(not reason, reason, self._clock.boot() - began, self._clock.now())

    async def _ask(self, address: str) -> str:
        """Empty where it arrived and came back."""
        assert self._word is not None
        host = urlsplit(address).hostname or address
        if ":" in host:
            return f"{host} is an IPv6 address: TradingView reaches IPv4 only"
        headers = {self._header: self._word, "User-Agent": "onefill-probe", "Cache-Control": "no-store"}
        timeout = aiohttp.ClientTimeout(total=self._patience)
        # IPv4 only: TradingView has no other way.
        connector = aiohttp.TCPConnector(family=socket.AF_INET, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session,
                session.get(f"{address}{PATH}", headers=headers, allow_redirects=False) as response,
            ):
                await response.content.read(4_096)
                status = response.status
        except TimeoutError:
            if self._heard:
                return "a request arrived here, but its answer did not come back in time"
            return f"no answer within {self._patience:g} s: a sender gives up after 3 s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return _why(error, host)
        if self._heard and status == 200:
            return ""
        if self._heard:
            return f"a request arrived here, but its answer came back as {status}"
        if 300 <= status < 400:
            return f"it redirects ({status}): TradingView follows none, so every alert would be lost"
        if status == 200:
            return "something else answers there: the request did not arrive here"
        return f"{status}: {_STATUSES.get(status, 'the request did not arrive here')}"


def _why(error: Exception, host: str) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the name {host} has no IPv4 address (yet), or this computer is offline"
    if isinstance(
        error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError | ssl.SSLError
    ):
        return f"the certificate of {host} is not accepted: TradingView would not accept it either"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{host} cannot be connected to ({error.os_error.strerror or 'no reason given'})"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "the connection was closed without an answer"
    return f"no answer ({type(error).__name__})"
