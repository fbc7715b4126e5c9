"""Brings one message to one receiver, on a thread of its own and within a time; what hangs is left behind.

The address is a secret: it is read when it is needed, and no log, error or reason repeats a part of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import structlog

from app.notify.item import CRITICAL, WARNING, Message
from app.secrets import Secrets, SecretsError, environment_name
from app.settings import Notice

log = structlog.get_logger(__name__)

TIMEOUT = 20.0
"""Seconds for one try as a whole; each connection and each read has 4 s of its own."""
MOST_HANGING = 3
"""Tries that may hang at once for one receiver; until one of them ends, no other is begun."""
BLANK = "***"

Show = Callable[[Message], bool]
"""Shows a message on this screen; False where that cannot be done now."""


class NobodyThere(Exception):
    """No window is there that could show it: not a failure, it is told when one is."""


class Courier:
    """`timeout` in seconds. Loop only."""

    def __init__(
        self, notice: Notice, make_secrets: Callable[[], Secrets], *, timeout: float = TIMEOUT
    ) -> None:
        self.notice = notice
        self.show: Show | None = None
        self.threads: list[threading.Thread] = []
        """Of tries that have not ended."""
        self._make_secrets = make_secrets
        self._timeout = timeout

    async def bring(self, message: Message, late: Callable[[], None] = lambda: None) -> str:
        """Empty when it was delivered, else why not. `late`: called if it arrives after its time.

        Raises NobodyThere.
        """
        if self.notice.to == "desktop":
            if self.show is None:
                raise NobodyThere
            return "" if self.show(message) else "this screen shows no messages"
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        if len(self.threads) >= MOST_HANGING:
            return "earlier tries still hang: the receiver takes them and does not answer"
        trying = self._begin(message)
        done, _ = await asyncio.wait({trying}, timeout=self._timeout)
        if done:
            return trying.result()
        trying.add_done_callback(lambda ended: None if ended.cancelled() or ended.result() else late())
        return f"no answer within {self._timeout:.0f} s"

    def _begin(self, message: Message) -> asyncio.Future[str]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str] = loop.create_future()

        def tell(reason: str) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        def work() -> None:
            try:
                reason = self._send(message)
            except Exception as error:  # noqa: BLE001 - a stranger's library: whatever it is, it is no news sent
                reason = f"it failed inside ({type(error).__name__})"
            # A loop that was closed meanwhile waits for nothing any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, reason)

        thread = threading.Thread(target=work, name=f"notice {self.notice.name}", daemon=True)
        self.threads.append(thread)
        thread.start()
        return outcome

    def _send(self, message: Message) -> str:
        name = self.notice.secret
        try:
            found = self._make_secrets().find(name)
        except SecretsError as error:
            return str(error)
        if found.value is None:
            problem = f" ({found.problem})" if found.problem else ""
            return f"it has no address{problem}: `onefill secret set {name}`, or set {environment_name(name)}"
        return send(found.value.strip(), message)


def send(url: str, message: Message) -> str:
    """Empty when the service took it, else why not, without a part of the address. Blocking."""
    import apprise

    _silence()
    asset = apprise.AppriseAsset(app_id="Onefill", app_desc="One signal, one order", app_url="")
    plugin: Any = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if plugin is None:
        return "its address is none that Apprise knows: see README, Notices, for how one is written"
    kinds = apprise.NotifyType
    kind = {CRITICAL: kinds.FAILURE, WARNING: kinds.WARNING}.get(message.rank, kinds.INFO)
    with _Said() as said:
        sent = plugin.notify(
            title=message.title, body=message.body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
        )
    return "" if sent else blanked(said.first or "the service did not take it", url)


def blanked(text: str, url: str) -> str:
    """A library's words without any part of the address."""
    parts = {part for part in re.split(r"[:/@?&=#,;+\s]+", url.partition("://")[2]) if len(part) >= 3}
    parts |= {unquote(part) for part in parts}
    for part in sorted({url, *parts}, key=len, reverse=True):
        text = re.sub(re.escape(part), BLANK, text, flags=re.IGNORECASE)
    return " ".join(text.split())[:200]


def _silence() -> None:
    """These libraries name addresses in what they log: nothing of that gets into our log."""
    for name in ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


class _Said(logging.Handler):
    """Takes the first warning that Apprise writes on this thread while it sends."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread and not self.first:
            self.first = record.getMessage()

    def __enter__(self) -> _Said:
        logging.getLogger("apprise").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeHandler(self)
