"""Whether there is a newer version: asked once a day where the user wants it, believed only with a signature.

It tells, and installs nothing. What is fetched is a small JSON file, signed with Ed25519 (RFC 8032) by the
key that this build carries; the bytes are verified before they are read. Nothing is sent but the request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app import __version__
from app.clock import SECOND, Clock
from app.engine.status import Fact
from app.settings import Updates as UpdateSettings
from app.settings import resource

log = structlog.get_logger(__name__)

KEY_FILE = "update-key.txt"
"""The release key, base64 of 32 bytes. Whoever publishes Onefill makes the pair and keeps the other half."""
LARGEST = 64 * 1024
TIMEOUT = 15.0
EVERY = 24 * 3_600 * SECOND
BEAT = 60.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Manifest(msgspec.Struct, frozen=True):
    """What is signed. `version` as 1.2.3; `notes` is where a person reads what changed and downloads it."""

    version: str
    notes: str


class UpdateCheckFailed(Exception):
    """Nothing is known of a newer version; one line says why."""


class Updates:
    """`newer` is the version that there is, or None; `problem` why the last check failed, or empty."""

    def __init__(
        self,
        settings: UpdateSettings,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        key: Callable[[], bytes | None] | None = None,
    ) -> None:
        """`key` is read on a thread: the release key of this build by default."""
        self.newer: Manifest | None = None
        self.problem = ""
        self._settings = settings
        self._clock = clock
        self._changed = changed
        self._key = key or release_key

    async def look_for_ever(self) -> None:
        """Ends at once where the user does not want it."""
        if not self._settings.check:
            return
        due = self._clock.boot()
        while True:
            # The clock is asked after waking: a timer of the window's loop may come early.
            if self._clock.boot() >= due:
                due = self._clock.boot() + EVERY
                await self.look()
            await asyncio.sleep(BEAT)

    async def look(self) -> None:
        """One check, whatever comes of it."""
        try:
            assert self._settings.url is not None
            key = await asyncio.to_thread(self._key)
            found = await fetch(self._settings.url, key)
        except UpdateCheckFailed as error:
            self.problem = str(error)
            log.warning("no word of newer versions", reason=self.problem)
        else:
            self.problem = ""
            self.newer = found if parts(found.version) > parts(__version__) else None
        self._changed()

    def facts(self) -> list[Fact]:
        """A newer version, or why that is not known; empty where there is nothing to say."""
        if self.newer is not None:
            reason = f"Onefill {self.newer.version} is there (this is {__version__}): {self.newer.notes}"
            return [Fact("updates", "newer version", "ok", reason)]
        return [Fact("updates", "unknown", "warning", self.problem)] if self.problem else []


async def fetch(url: str, key: bytes | None) -> Manifest:
    """The verified manifest at an address. Raises UpdateCheckFailed."""
    if key is None:
        raise UpdateCheckFailed("this build carries no release key, so no list of versions can be believed")
    timeout = aiohttp.ClientTimeout(total=TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            signed = await _get(session, url)
            signature = await _get(session, f"{url}.sig")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UpdateCheckFailed(
            f"{urlsplit(url).hostname} did not answer ({str(error) or type(error).__name__})"
        ) from error
    return verified(signed, signature, key)


def verified(signed: bytes, signature: bytes, key: bytes) -> Manifest:
    """What was signed, if it was signed by that key. Raises UpdateCheckFailed."""
    try:
        stated = base64.b64decode(signature.strip(), validate=True)
        Ed25519PublicKey.from_public_bytes(key).verify(stated, signed)
    except (InvalidSignature, binascii.Error, ValueError) as error:
        reason = "the list of versions is not signed by Onefill's release key: not believed"
        raise UpdateCheckFailed(reason) from error
    try:
        manifest = msgspec.json.decode(signed, type=Manifest)
        parts(manifest.version)
    except (msgspec.DecodeError, ValueError) as error:
        raise UpdateCheckFailed(f"the list of versions cannot be read ({error})") from error
    if urlsplit(manifest.notes).scheme != "https":
        raise UpdateCheckFailed("the list of versions names no https address to read about it")
    return manifest


def parts(version: str) -> tuple[int, int, int]:
    """`1.2.3` as numbers. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", version, re.ASCII)
    if found is None:
        raise ValueError(f"{version!r} is no version such as 1.2.3")
    one, two, three = found.groups()
    return int(one), int(two), int(three)


def release_key() -> bytes | None:
    """The key that this build carries, or None. Blocking."""
    path = resource(KEY_FILE)
    if path is None:
        return None
    try:
        key = base64.b64decode(path.read_text(encoding="ascii").strip(), validate=True)
    except (OSError, ValueError):
        return None
    return key if len(key) == 32 else None


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url, max_redirects=3) as answer:
        for step in (*answer.history, answer):
            if step.url.scheme != "https" and step.url.host not in _LOOPBACK:
                reason = f"{urlsplit(url).hostname} leads to an address that is not https: not followed"
                raise UpdateCheckFailed(reason)
        if answer.status != 200:
            raise UpdateCheckFailed(f"{answer.url.host} answered {answer.status}")
        content = await answer.content.read(LARGEST + 1)
        while len(content) <= LARGEST and (more := await answer.content.read(LARGEST + 1)):
            content += more
    if len(content) > LARGEST:
        raise UpdateCheckFailed(f"{answer.url.host} sent more than a list of versions")
    return content
