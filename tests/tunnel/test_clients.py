"""One forwarded header counts for each kind of tunnel; every other one is a stranger's word."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from app.tunnel import client_address

REAL, FORGED = "52.89.214.238", "6.6.6.6"


def found(kind: str, *headers: tuple[str, str], peer: str | None = "127.0.0.1") -> str | None:
    return client_address(kind, CIMultiDict(headers), peer)


@pytest.mark.parametrize(
    ("kind", "headers", "address"),
    [
        ("cloudflared-quick", [("CF-Connecting-IP", REAL), ("X-Forwarded-For", FORGED)], REAL),
        ("cloudflared-named", [("cf-connecting-ip", REAL)], REAL),
        ("cloudflared-named", [("X-Forwarded-For", f"{FORGED}, {REAL}")], None),
        ("cloudflared-named", [("CF-Connecting-IP", FORGED), ("CF-Connecting-IP", REAL)], None),
        ("cloudflared-named", [("CF-Connecting-IP", f"{FORGED}, {REAL}")], None),
        ("ngrok", [("X-Forwarded-For", f"{FORGED}, {REAL}")], REAL),
        ("ngrok", [("CF-Connecting-IP", FORGED)], None),
        ("tailscale", [("X-Forwarded-For", REAL)], REAL),
        ("tailscale", [("X-Forwarded-For", f"{FORGED}, {REAL}")], None),
        ("ssh", [("X-Forwarded-For", FORGED), ("CF-Connecting-IP", FORGED), ("X-Real-IP", FORGED)], None),
        ("own", [("X-Forwarded-For", FORGED), ("CF-Connecting-IP", FORGED)], None),
        ("none", [("X-Forwarded-For", FORGED)], None),
        ("tailscale", [("X-Forwarded-For", f"::ffff:{REAL}")], REAL),
        ("tailscale", [("X-Forwarded-For", "2a00::1")], "2a00::1"),
        ("tailscale", [("X-Forwarded-For", "not an address")], None),
        ("tailscale", [], None),
    ],
)
def test_only_the_kinds_own_header_counts(
    kind: str, headers: list[tuple[str, str]], address: str | None
) -> None:
    assert found(kind, *headers) == address


@pytest.mark.parametrize("peer", ["192.168.1.7", None, "", "localhost"])
def test_a_header_counts_only_from_this_machine(peer: str | None) -> None:
    assert found("cloudflared-named", ("CF-Connecting-IP", REAL), peer=peer) is None
