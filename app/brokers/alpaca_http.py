"""Requests to Alpaca: an order goes out once, on a connection of its own; looks come back whole or fail.

Nothing is sent a second time here, no redirect is followed, no proxy comes from the environment, and no key
stands in a log, an error or a repr (HOLES H31, H36).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from urllib.parse import urlsplit

import aiohttp
import msgspec

from app.brokers.alpaca_wire import Trouble
from app.brokers.base import HeldBack, LastCheck, LookupFailed, RateLimited, SubmitReply, Throttled, Unsent
from app.brokers.classify import ReplyCodes, classify
from app.brokers.rate import RateBudget
from app.clock import Clock

# TLS asks for it by name, and the first asking reads files: not on the loop.
codecs.lookup("idna")

BLANK = "***"
SHORTEST = 6
"""Characters of a key that is looked for in answers: a shorter one would blank ordinary words."""
MAX_CONNECT = 5.0
"""Seconds that a connection may take, DNS and TLS included."""
SHARE_OF_TIMEOUT = 0.9
"""Of the time of a call, a request takes so much: who called is to hear why, not only that it is late."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What signs a request. Never shown."""

    key_id: str = field(repr=False)
    secret_key: str = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {"APCA-API-KEY-ID": self.key_id, "APCA-API-SECRET-KEY": self.secret_key}

    def blank(self, text: str) -> str:
        for value in (self.secret_key, self.key_id):
            text = text.replace(value, BLANK) if value else text
        return text

    def blank_body(self, body: bytes) -> bytes:
        """Whatever a venue, or who sits before it, says may repeat our keys, whatever its status: an id, a
        symbol, a page. Its words end up in log and ledger, so nothing is read from a body before this."""
        for value in (self.secret_key, self.key_id):
            if len(value) < SHORTEST:
                continue
            quoted = json.dumps(value)[1:-1]
            for form in {value, quoted, quoted.replace("/", "\\/")}:
                body = body.replace(form.encode(), BLANK.encode())
        return body


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True)
class _Attempt:
    """One order on its way. `left` is set right before its first byte may be written."""

    last_check: LastCheck
    left: bool = False


class AlpacaHttp:
    """One account's sessions: `orders`, whose connections serve one request each, and `looks`.

    `timeout` is what one call has, in seconds. Opened and closed on the loop that uses it.
    """

    def __init__(
        self, base_url: str, data_url: str, keys: Keys, clock: Clock, budget: RateBudget, timeout: float
    ) -> None:
        self.base_url = base_url
        self._data_url = data_url
        self._keys = keys
        self._clock = clock
        self._budget = budget
        self.requests = 0
        """Looks so far."""
        total = timeout * SHARE_OF_TIMEOUT
        limits = aiohttp.ClientTimeout(total=total, connect=min(MAX_CONNECT, total / 2))
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_before_first_byte)
        self._orders = _session(limits, aiohttp.TCPConnector(force_close=True, limit=0), [trace])
        self._looks = _session(limits, aiohttp.TCPConnector(limit=8), [])

    def __repr__(self) -> str:
        return f"AlpacaHttp({self.base_url!r})"

    async def close(self) -> None:
        await self._orders.close()
        await self._looks.close()

    # ---------------------------------------------------------------- the order

    async def place(
        self, body: bytes, client_order_id: str, codes: ReplyCodes, last_check: LastCheck
    ) -> SubmitReply:
        """Sends one order, once. `last_check` is called when the connection stands, before the first byte."""
        pause = self._budget.paused()
        if pause > 0:
            return Throttled("not sent: the venue has asked to be left alone", pause)
        self._budget.note()
        attempt = _Attempt(last_check)
        status: int | None = None
        retry_after: int | None = None
        answer, error = b"", ""
        try:
            async with self._orders.post(
                f"{self.base_url}/v2/orders",
                data=body,
                headers={**self._keys.headers, "Content-Type": "application/json"},
                allow_redirects=False,
                trace_request_ctx=attempt,
            ) as response:
                status = response.status
                retry_after = self._budget.heard(status, response.headers, self._clock.now())
                answer = self._keys.blank_body(await response.read())
        except HeldBack as held:
            # Raised by the callback before the headers were written: nothing has left (pinned by a test).
            return Unsent(held.reason)
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            error = self._words(failure)
        return classify(
            codes,
            client_order_id,
            left=attempt.left,
            status=status,
            body=answer,
            retry_after=retry_after,
            error=error,
        )

    # ---------------------------------------------------------------- looks

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, data: bool = False) -> Answer:
        """One look; `data` asks the market data. Raises LookupFailed, RateLimited.

        Refusals below 500 that say something come back as they are: some of them mean 'there is none'.
        """
        await self._budget.look()
        return await self._request("GET", (self._data_url if data else self.base_url) + path, query)

    async def delete(self, path: str) -> Answer:
        """Asks for a cancel. It does not wait for the budget of looks. Raises LookupFailed, RateLimited."""
        pause = self._budget.paused()
        if pause > 0:
            raise RateLimited("the venue has asked to be left alone", pause)
        self._budget.note()
        return await self._request("DELETE", self.base_url + path, None)

    async def _request(self, method: str, url: str, query: Mapping[str, str] | None) -> Answer:
        self.requests += 1
        what = urlsplit(url).path
        try:
            async with self._looks.request(
                method,
                url,
                params=query,
                headers=self._keys.headers,
                allow_redirects=False,
            ) as response:
                pause = self._budget.heard(response.status, response.headers, self._clock.now())
                body = self._keys.blank_body(await response.read())
        except (aiohttp.ClientError, OSError, TimeoutError) as failure:
            raise LookupFailed(f"{what}: {self._words(failure)}") from None
        answer = Answer(response.status, body)
        if response.status in (418, 429):
            raise RateLimited(f"{what}: HTTP {response.status}, too many requests", pause)
        if not answer.is_success and not 400 <= response.status < 500:
            raise LookupFailed(f"{what}: HTTP {response.status}")
        return answer

    def _words(self, failure: BaseException) -> str:
        text = str(failure) if not isinstance(failure, TimeoutError) else f"no answer in time {failure}"
        return self._keys.blank(" ".join(f"{type(failure).__name__}: {text}".split()))[:200]


def _session(
    limits: aiohttp.ClientTimeout, connector: aiohttp.TCPConnector, traces: list[aiohttp.TraceConfig]
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=limits,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=traces,
        headers={"User-Agent": "Onefill", "Accept": "application/json"},
    )


async def _before_first_byte(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceRequestHeadersSentParams
) -> None:
    """aiohttp calls it when the connection stands, before it writes anything; what it raises stops that."""
    attempt: _Attempt = context.trace_request_ctx
    attempt.last_check()
    attempt.left = True


def trouble_of(answer: Answer) -> Trouble | None:
    """What the venue says instead of an answer; None for what it did not say itself (a gateway's page)."""
    try:
        return msgspec.json.decode(answer.body, type=Trouble)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


MakeKeys = Callable[[], Keys]
"""Reads the keys as they are kept now. Blocking; raises LookupFailed where there are none."""
