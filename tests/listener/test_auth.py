"""Tokens and secrets: compared in constant time as bytes, with the same work for right and wrong."""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from app.listener import auth
from app.listener.auth import (
    Credential,
    Gate,
    HookPath,
    is_loopback,
    is_own_host,
    read_hook_path,
    secret_digest,
)
from tests.listener.kit import SECRET, TOKEN, own_source, source

THREE = (
    Credential(secret_digest(TOKEN)),
    Credential(secret_digest("b"), 50),
    Credential(secret_digest("c"), 10),
)


@pytest.fixture
def gate() -> Gate:
    return Gate({"tv": source(credentials=THREE), "own": own_source(), "off": source("off", enabled=False)})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (HookPath("tv", TOKEN), "tv"),
        (HookPath("tv", "b"), "tv"),
        (HookPath("tv", "c"), None),
        (HookPath("tv", ""), None),
        (HookPath("tv", None), None),
        (HookPath("tv", "\udcff\ud800é"), None),
        (HookPath("tv", "no token has this digest"), None),
        (HookPath("off", TOKEN), None),
        (HookPath("nobody", TOKEN), None),
        (HookPath("own", None), "own"),
        (HookPath("own", SECRET), None),
    ],
)
def test_who_is_admitted(
    gate: Gate, path: HookPath, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[Any, Any]] = []
    digested: list[str] = []
    compare, digest = hmac.compare_digest, auth.secret_digest

    def noting_compare(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return compare(one, other)

    def noting_digest(secret: str) -> bytes:
        digested.append(secret)
        return digest(secret)

    monkeypatch.setattr(hmac, "compare_digest", noting_compare)
    monkeypatch.setattr(auth, "secret_digest", noting_digest)
    admitted = gate.admit(path, now=20)
    assert (admitted.name if admitted else None) == name
    assert (len(compared), len(digested)) == (3, 1)
    assert all(type(one) is type(other) is bytes and len(one) == len(other) == 32 for one, other in compared)


def test_body_secrets(gate: Gate) -> None:
    own = own_source()
    assert gate.accepts(own, SECRET, 0)
    for wrong in ("", SECRET[:-1], SECRET + " ", SECRET.upper(), "\ud800", TOKEN):
        assert not gate.accepts(own, wrong, 0)


def test_a_credential_says_nothing_of_itself() -> None:
    credential = Credential(secret_digest(TOKEN), 5)
    assert repr(credential) == "Credential(expires_at=5)"
    assert repr(credential.digest) not in repr(source(credentials=(credential,)))


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/hook/tv/abc", HookPath("tv", "abc")),
        ("/hook/tv/abc/", HookPath("tv", "abc")),
        ("/hook/own", HookPath("own", None)),
        ("/hook/own/", HookPath("own", None)),
        ("/hook/tv/abc//", None),
        ("/hook//abc", None),
        ("/hook/", None),
        ("hook/tv/abc", None),
        ("*", None),
        ("http://a/hook/tv/abc", None),
        ("/hook/tv/abc/more", None),
        ("/hook/tv/abc\n", HookPath("tv", "abc\n")),
    ],
)
def test_hook_paths(path: str, read: HookPath | None) -> None:
    assert read_hook_path(path) == read


def test_loopback_is_an_address_never_a_name() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1"))
    assert not any(
        is_loopback(host) for host in ("localhost", "0.0.0.0", "::", "10.0.0.1", "", "127.0.0.1.a")
    )


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:80", True),
        ("localhost:80", True),
        ("[::1]", True),
        ("::1", False),
        ("a.example", True),
        ("A.EXAMPLE.:443", True),
        ("b.a.example", False),
        ("", False),
        ("[", False),
        (None, False),
    ],
)
def test_own_hosts(host: str | None, own: bool) -> None:
    assert is_own_host(host, ["A.example"]) is own
