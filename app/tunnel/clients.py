"""Whose word counts about where a request came from: one header a kind of tunnel, and only from loopback.

Pure. Through a tunnel every request comes from this machine, and any header can be written by anybody: only
the one that this tunnel's edge itself sets says anything, and none of them proves who sent an alert.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Rule = Literal["single", "rightmost"]

HEADERS: Mapping[str, tuple[str, Rule]] = {
    # Set by the edge, one value; X-Forwarded-For is only appended to there.
    "cloudflared-quick": ("CF-Connecting-IP", "single"),
    "cloudflared-named": ("CF-Connecting-IP", "single"),
    # tailscaled replaces it (addProxyForwardedHeaders).
    "tailscale": ("X-Forwarded-For", "single"),
    # Whether the edge replaces or appends is nowhere written: its own word is the last one.
    "ngrok": ("X-Forwarded-For", "rightmost"),
}
"""ssh and an address of one's own hand on what the client wrote: nothing counts there."""


class Headers(Protocol):
    def getall(self, key: str, default: Sequence[str], /) -> Sequence[str]: ...


def client_address(kind: str, headers: Headers, peer: str | None) -> str | None:
    """The sender's address as the tunnel's edge saw it; None where nobody trustworthy says so."""
    known = HEADERS.get(kind)
    if known is None or peer is None or not _is_loopback(peer):
        return None
    name, rule = known
    found = headers.getall(name, ())
    if len(found) != 1:
        return None
    parts = [part.strip() for part in found[0].split(",")]
    if rule == "single" and len(parts) != 1:
        return None
    return _normal(parts[-1])


def _normal(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False
