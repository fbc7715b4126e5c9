"""A knock from outside: only one that our own door heard and that came back counts; the rest is said."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from app.clock import SECOND, ManualClock
from app.tunnel import PublicProbe
from app.tunnel.probe import SLOW, Knock
from tests.tunnel.kit import HEADER, HeardDoor, heard_door


@pytest.fixture
async def door() -> AsyncIterator[HeardDoor]:
    async with heard_door(patience=0.3) as made:
        yield made


async def knock(door: HeardDoor) -> Knock:
    return await door.probe.knock(f"http://127.0.0.1:{door.port}")


async def test_heard_and_answered_is_arrived(door: HeardDoor) -> None:
    found = await knock(door)
    assert (found.arrived, found.reason, found.slow) == (True, "", False)


async def test_something_else_that_answers_is_not_us(door: HeardDoor) -> None:
    door.hears = False
    found = await knock(door)
    assert (found.arrived, found.reason) == (
        False,
        "something else answers there: the request did not arrive here",
    )


@pytest.mark.parametrize(
    ("status", "hears", "words"),
    [
        (302, False, "redirects (302): TradingView follows none"),
        (404, False, "a tunnel that is offline"),
        (502, False, "does not reach this program"),
        (530, False, "1033"),
        (418, False, "418: the request did not arrive here"),
        (502, True, "arrived here, but its answer came back as 502"),
    ],
)
async def test_what_came_back_instead_is_said(door: HeardDoor, status: int, hears: bool, words: str) -> None:
    door.status, door.hears = status, hears
    found = await knock(door)
    assert not found.arrived
    assert words in found.reason


@pytest.mark.parametrize(
    ("hears", "words"), [(True, "its answer did not come back"), (False, "no answer within")]
)
async def test_no_answer_in_time(door: HeardDoor, hears: bool, words: str) -> None:
    door.hold.clear()
    door.hears = hears
    found = await knock(door)
    assert not found.arrived
    assert words in found.reason


async def test_a_word_of_another_knock_is_not_ours(door: HeardDoor) -> None:
    door.hears = False
    door.hold.clear()
    knocking = asyncio.gather(knock(door))
    while door.knocks == 0:  # noqa: ASYNC110 - the server has no event of its own
        await asyncio.sleep(0)
    door.probe.hear("")
    door.probe.hear("a guess")
    door.hold.set()
    (found,) = await knocking
    assert not found.arrived
    # One that comes after its knock is over counts for nothing either.
    door.probe.hear("late")


async def test_nobody_there(door: HeardDoor) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = await door.probe.knock(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert "cannot be connected to" in found.reason


async def test_a_name_without_an_address(door: HeardDoor) -> None:
    found = await door.probe.knock("https://nothing.invalid")
    assert "nothing.invalid has no IPv4 address" in found.reason


async def test_an_address_of_ipv6_alone_is_none(door: HeardDoor) -> None:
    """TradingView has no IPv6."""
    found = await door.probe.knock(f"http://[::1]:{door.port}")
    assert not found.arrived
    assert "IPv4 only" in found.reason


async def test_a_certificate_that_nobody_knows(door: HeardDoor, certificate: ssl.SSLContext) -> None:
    app = web.Application()
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate)
    await site.start()
    try:
        found = await door.probe.knock(f"https://127.0.0.1:{site.port}")
    finally:
        await runner.cleanup()
    assert "certificate of 127.0.0.1 is not accepted" in found.reason


@pytest.fixture
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1)).sign(
        key, hashes.SHA256()
    )
    pem, pkcs8, plain = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    (folder / "both").write_bytes(key.private_bytes(pem, pkcs8, plain) + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both")
    return context


async def test_the_time_that_it_took_is_the_clocks() -> None:
    clock = ManualClock()
    async with heard_door(clock, patience=5) as door:
        door.hold.clear()
        knocking = asyncio.gather(knock(door))
        while door.knocks == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
        clock.advance(SLOW + SECOND)
        door.hold.set()
        (found,) = await knocking
        assert (found.arrived, found.took, found.slow, found.at) == (True, SLOW + SECOND, True, clock.now())


async def test_the_word_is_new_each_time_and_in_the_header_alone() -> None:
    words: list[str] = []
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        words.append(request.headers[HEADER])
        assert words[-1] not in str(request.url)
        return web.Response()

    app.router.add_get("/healthz", answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    probe = PublicProbe(HEADER, ManualClock())
    try:
        for _ in range(2):
            await probe.knock(f"http://127.0.0.1:{site.port}")
    finally:
        await runner.cleanup()
    assert len(set(words)) == 2
