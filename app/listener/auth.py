"""Who may speak: hook paths, tokens and body secrets.

Fails closed. A secret is only ever compared as a digest and in constant time, and it is in no repr, no error
and no answer. An unknown source and a wrong token cost the same work and cannot be told apart.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Literal, Protocol

import msgspec

from app.claims.base import Admission
from app.domain.alert import AlertRules
from app.domain.key import KeyPolicy

HEALTH_PATH = "/healthz"

_HOOK = re.compile(r"/hook/(?P<source>[^/]+)(?:/(?P<token>[^/]+))?/?")
_DUMMY = hashlib.sha256(b"no token has this digest").digest()


class HookPath(msgspec.Struct, frozen=True):
    """What a hook's path names. `token` is None where the path has no third part."""

    source: str
    token: str | None


class Credential(msgspec.Struct, frozen=True):
    """An accepted token or secret, as its digest. `expires_at`: UTC microseconds, None for no end."""

    digest: bytes
    expires_at: int | None = None

    def __repr__(self) -> str:
        return f"Credential(expires_at={self.expires_at})"


class SourceAccess(msgspec.Struct, frozen=True, kw_only=True):
    """One source as the door knows it.

    `credentials` are path tokens or body secrets, as `auth` says; more than one while a rotated one is still
    valid. A disabled source answers as if there were none of that name.
    """

    name: str
    id: str
    auth: Literal["path", "body"]
    credentials: tuple[Credential, ...]
    rules: AlertRules
    key_policy: KeyPolicy
    admission: Admission
    duplicate_status: Literal[200, 409] = 200
    enabled: bool = True


class Headers(Protocol):
    """What is used of a request's headers; names are compared without case."""

    def get(self, name: str, /) -> str | None: ...


def secret_digest(secret: str) -> bytes:
    """SHA-256 of a token or secret: what is kept and compared instead of it. Takes any text."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def read_hook_path(path: str) -> HookPath | None:
    """Reads the raw path of a request, exactly as it was sent; None where it is no hook.

    Nothing is decoded or resolved: `%`, `..`, `//` and a whole URL name no source that there can be.
    """
    match = _HOOK.fullmatch(path)
    return None if match is None else HookPath(match["source"], match["token"])


def comes_from_a_browser(headers: Headers) -> bool:
    """A browser is never a sender: a page the user visits may not post to a port of the user's machine."""
    return headers.get("Origin") is not None or headers.get("Sec-Fetch-Site") is not None


def is_own_host(host: str | None, public_hosts: Sequence[str]) -> bool:
    """Whether a Host header names this machine's loopback or one of the public hosts; the port is ignored."""
    if host is None:
        return False
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
    name = name.rstrip(".")
    return name == "localhost" or is_loopback(name) or name in {known.lower() for known in public_hosts}


def is_loopback(host: str) -> bool:
    """Whether `host` is a loopback address; a name never is, for it can be made to point anywhere."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """The sources and what each accepts.

    Raises ValueError for an enabled source without a credential: nothing may be open by omission.
    """

    def __init__(self, sources: Mapping[str, SourceAccess]) -> None:
        for name, source in sources.items():
            if source.enabled and not source.credentials:
                kind = "token" if source.auth == "path" else "secret"
                raise ValueError(f"source {name} has no {kind}: it would accept anything or nothing")
        self._sources = {name: source for name, source in sources.items() if source.enabled}
        # Every look-up compares as often as the one with the most credentials does.
        self._width = max((len(source.credentials) for source in self._sources.values()), default=1)

    def admit(self, path: HookPath, now: int) -> SourceAccess | None:
        """The source of this path if its token is right; a source with body auth is let through without one,
        to be asked by `accepts`. `now` is UTC microseconds."""
        source = self._sources.get(path.source)
        by_path = source if source is not None and source.auth == "path" else None
        right = self._accepts(by_path, path.token or "", now)
        if source is not None and source.auth == "body" and path.token is None:
            return source
        return by_path if right and path.token is not None else None

    def accepts(self, source: SourceAccess, secret: str, now: int) -> bool:
        """Whether `secret` is one of the source's."""
        return self._accepts(source, secret, now)

    def _accepts(self, source: SourceAccess | None, secret: str, now: int) -> bool:
        offered = secret_digest(secret)
        known = source.credentials if source is not None else ()
        right = False
        for position in range(self._width):
            credential = known[position] if position < len(known) else None
            equal = hmac.compare_digest(offered, _DUMMY if credential is None else credential.digest)
            valid = credential is not None and (credential.expires_at is None or now < credential.expires_at)
            right = right or (equal and valid)
        return right
