"""A newer version is told, and only where its list is signed by the release key."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.clock import ManualClock
from app.engine import updates
from app.engine.updates import UpdateCheckFailed, Updates, fetch, parts, verified
from app.settings import ConfigError, read_settings
from app.settings import Updates as UpdateSettings

PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = PRIVATE.public_key().public_bytes_raw()
NEWER = b'{"version": "99.0.0", "notes": "https://example.com/onefill"}'
SAME = b'{"version": "0.0.1", "notes": "https://example.com/onefill"}'


def signature(content: bytes, private: Ed25519PrivateKey = PRIVATE) -> bytes:
    return base64.b64encode(private.sign(content))


@asynccontextmanager
async def served(content: bytes, signed: bytes, status: int = 200) -> AsyncIterator[str]:
    """The two files on this machine; the address of the first."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, body=signed if request.path.endswith(".sig") else content)

    app = web.Application()
    app.router.add_get("/{name}", answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/latest.json"
    finally:
        await runner.cleanup()


def checking(url: str, key: Callable[[], bytes | None] = lambda: KEY) -> Updates:
    return Updates(UpdateSettings(check=True, url=url), ManualClock(), key=key)


async def test_a_newer_signed_version_is_a_fact_and_an_older_one_is_none() -> None:
    async with served(NEWER, signature(NEWER)) as url:
        found = checking(url)
        await found.look()
        (fact,) = found.facts()
        assert (fact.level, fact.word) == ("ok", "newer version")
        assert "99.0.0" in fact.reason
        assert "https://example.com/onefill" in fact.reason
    async with served(SAME, signature(SAME)) as url:
        found = checking(url)
        await found.look()
        assert found.facts() == []


async def test_another_key_a_changed_byte_and_no_signature_are_not_believed() -> None:
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    for signed in (signature(NEWER, other), signature(NEWER + b" "), b"", b"not base64!", b"QUJD"):
        async with served(NEWER, signed) as url:
            found = checking(url)
            await found.look()
            (fact,) = found.facts()
            assert (fact.level, "not signed" in fact.reason) == ("warning", True)
            assert found.newer is None


async def test_a_build_without_a_key_believes_nothing_and_asks_nobody() -> None:
    found = checking("http://127.0.0.1:9/latest.json", lambda: None)
    await found.look()
    assert "no release key" in found.problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"version": "1.2", "notes": "https://a.example"}', "1.2.3"),
        (b'{"version": "1.2.3"}', "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"version": "99.0.0", "notes": "javascript:alert(1)"}', "no https address"),
        (b'{"version": "99.0.0", "notes": "http://a.example"}', "no https address"),
    ],
)
def test_what_is_signed_and_makes_no_sense_is_not_believed_either(content: bytes, said: str) -> None:
    with pytest.raises(UpdateCheckFailed, match=said):
        verified(content, signature(content), KEY)


async def test_errors_of_the_server_are_said_and_a_flood_is_cut() -> None:
    async with served(NEWER, signature(NEWER), status=500) as url:
        with pytest.raises(UpdateCheckFailed, match="answered 500"):
            await fetch(url, KEY)
    flood = b"x" * (updates.LARGEST + 1)
    async with served(flood, b"") as url:
        with pytest.raises(UpdateCheckFailed, match="more than a list"):
            await fetch(url, KEY)
    with pytest.raises(UpdateCheckFailed, match="did not answer"):
        await fetch("http://127.0.0.1:9/latest.json", KEY)


async def test_a_redirect_away_from_https_is_not_followed_to_an_answer() -> None:
    async def away(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.2:1/x")

    app = web.Application()
    app.router.add_get("/latest.json", away)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        with pytest.raises(UpdateCheckFailed):
            await fetch(f"http://127.0.0.1:{runner.addresses[0][1]}/latest.json", KEY)
    finally:
        await runner.cleanup()


async def test_it_is_off_unless_asked_for() -> None:
    asked = Updates(UpdateSettings(check=False, url=None), ManualClock(), key=lambda: KEY)
    await asked.look_for_ever()
    assert asked.facts() == []


def test_the_setting_is_off_and_needs_an_address() -> None:
    assert read_settings("").updates == UpdateSettings(check=False, url=None)
    with pytest.raises(ConfigError, match="needs to know where"):
        read_settings("[updates]\ncheck = true\n")


def test_versions_are_compared_by_number() -> None:
    assert parts("0.10.0") > parts("0.9.9")
    for wrong in ("1.2", "v1.2.3", "1.2.3-rc1", "1.2.3 ", "١.2.3", ""):
        with pytest.raises(ValueError, match="no version"):
            parts(wrong)
