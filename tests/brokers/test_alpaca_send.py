"""Alpaca's adapter sends an order once, and knows whether a byte of it left (HOLES H30, H31, H36)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.brokers.alpaca_http import Keys
from app.brokers.base import (
    DuplicateId,
    HeldBack,
    LookupFailed,
    Placed,
    Refused,
    Unknown,
    Unsent,
)
from app.clock import SECOND, ManualClock
from app.drill.faults import Fault, Reply
from tests.brokers.alpaca_kit import (
    ANSWERED,
    CID,
    ORDER,
    broker_at,
    connected_to,
    raw_server,
    submit,
    venue_at,
)
from tests.brokers.paper_kit import nothing_against
from tests.brokers.test_classify import order

# ---------------------------------------------------------------------------------- before the first byte


async def test_h31_what_the_last_check_holds_back_puts_no_byte_on_the_wire() -> None:
    def stale() -> None:
        raise HeldBack("STALE late=4.0s")

    async with raw_server() as server:
        broker = await connected_to(server)
        assert await submit(broker, last_check=stale) == Unsent("STALE late=4.0s")
        # It was connected: the check comes after all that can take long.
        assert server.received == [b""]


async def test_h31_the_check_comes_after_a_stall_in_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    not_after = clock.now() + 2 * SECOND
    real = aiohttp.TCPConnector.connect

    async def stalls(self: aiohttp.TCPConnector, *arguments: Any, **options: Any) -> Any:
        connection = await real(self, *arguments, **options)
        clock.advance(5 * SECOND)
        return connection

    def check() -> None:
        if clock.now() > not_after:
            raise HeldBack("STALE")

    async with raw_server() as server:
        broker = await connected_to(server, clock)
        monkeypatch.setattr(aiohttp.TCPConnector, "connect", stalls)
        assert await submit(broker, last_check=check) == Unsent("STALE")
        assert server.received == [b""]


async def test_h31_a_handshake_that_stalls_is_unsent() -> None:
    async with raw_server() as server:
        broker = await connected_to(server, timeout=1.0)
        broker._http.base_url = server.url.replace("http:", "https:")  # type: ignore[union-attr]
        reply = await submit(broker)
        assert isinstance(reply, Unsent), reply
        assert b"POST" not in b"".join(server.received)


async def test_a_refused_connection_is_unsent() -> None:
    async with raw_server() as server:
        broker = await connected_to(server)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        broker._http.base_url = f"http://127.0.0.1:{port}"  # type: ignore[union-attr]
        reply = await submit(broker)
    assert isinstance(reply, Unsent)
    assert "Connect" in reply.reason


async def test_a_name_that_does_not_resolve_is_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    async with raw_server() as server:
        broker = await connected_to(server)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        broker._http.base_url = "https://api.alpaca.invalid"  # type: ignore[union-attr]
        reply = await submit(broker)
    assert isinstance(reply, Unsent)
    assert "DNS" in reply.reason


async def test_a_server_that_speaks_no_tls_is_unsent() -> None:
    async with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as server:
        broker = await connected_to(server, timeout=1.0)
        server.reply = None
        broker._http.base_url = server.url.replace("http:", "https:")  # type: ignore[union-attr]
        sending = asyncio.ensure_future(submit(broker))  # noqa: TID251 - awaited two lines below
        await server.came.wait()
        assert isinstance(await sending, Unsent)


async def test_without_a_session_nothing_is_sent() -> None:
    reply = await broker_at("http://127.0.0.1:9", ManualClock()).submit(ORDER, nothing_against)
    assert isinstance(reply, Unsent)


STOPPED = """
import asyncio, os, signal, sys
from decimal import Decimal
import aiohttp
from app.brokers.alpaca import Addresses, AlpacaBroker
from app.brokers.alpaca_http import Keys
from app.brokers.base import HeldBack, OrderRequest
from app.clock import SystemClock
from app.domain.signal import Side

clock = SystemClock()

async def main():
    broker = AlpacaBroker(Addresses(sys.argv[1], sys.argv[1]), lambda: Keys("k", "s"), clock, live=False)
    await broker.connect()
    real = aiohttp.TCPConnector.connect

    async def stopped(self, *arguments, **options):
        connection = await real(self, *arguments, **options)
        os.kill(os.getpid(), signal.SIGSTOP)
        return connection

    aiohttp.TCPConnector.connect = stopped
    not_after = clock.now() + 200_000

    def check():
        if clock.now() > not_after:
            raise HeldBack("STALE")

    request = OrderRequest("a" * 32, "AAPL", Side.BUY, Decimal(1))
    print(await broker.submit(request, check))
    await broker.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGSTOP there")
async def test_h31_a_process_that_stands_still_between_connect_and_write_sends_nothing() -> None:
    async with raw_server(ANSWERED) as server:
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STOPPED, server.url, stdout=asyncio.subprocess.PIPE, cwd=Path.cwd()
        )
        assert program.stdout is not None
        while True:
            # Two connections of connect(), then that of the order, on which the program stands still.
            if len(server.received) >= 2 and _is_stopped(program.pid):
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
        os.kill(program.pid, signal.SIGCONT)
        said = (await program.stdout.read()).decode()
        await program.wait()
        assert said == "Unsent(reason='STALE')\n"
        assert b"POST" not in b"".join(server.received)


def _is_stopped(pid: int) -> bool:
    found = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    return found is not None


# --------------------------------------------------------------------------------------- after the first byte


async def test_an_answer_that_never_comes_is_unknown() -> None:
    async with raw_server() as server:
        broker = await connected_to(server, timeout=1.0)
        reply = await submit(broker)
        assert isinstance(reply, Unknown)
        assert server.hits == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"id": "1",',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"id": "1"',
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 599 Odd\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 307 Elsewhere\r\nLocation: /v2/orders\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_whatever_comes_back_broken_is_unknown_and_one_hit(answer: bytes) -> None:
    async with raw_server(answer) as server:
        broker = await connected_to(server, timeout=1.0)
        reply = await submit(broker)
        assert isinstance(reply, Unknown), reply
        assert server.hits == 1


async def test_h36_each_order_has_a_connection_of_its_own_which_is_not_kept() -> None:
    async with raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as server:
        broker = await connected_to(server)
        for number in range(3):
            await broker.submit(replace(ORDER, client_order_id=f"{number}" * 32), nothing_against)
        await broker.close()
        assert len(server.received) == server.hits == 3
        assert all(b"connection: close" in one.lower() for one in server.received)


async def test_h36_a_venue_that_drops_a_kept_connection_as_the_order_goes_makes_no_doubt() -> None:
    kept = ANSWERED.replace(b"Connection: close\r\n", b"")
    head, _, body = kept.partition(b"\r\n\r\n")
    async with raw_server() as server:
        server.reply = head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        server.keeps = True
        broker = broker_at(server.url, ManualClock())
        await broker.connect()
        # The looks meet the trap: aiohttp asks again by itself, on a new connection, and may: they are looks.
        assert (await broker.account()).identity == "PA1"
        before = len(server.received)
        refusal = b'{"code": 42210000, "message": "no"}'
        server.reply = b"HTTP/1.1 422 No\r\nContent-Length: %d\r\n\r\n%b" % (len(refusal), refusal)
        assert isinstance(await submit(broker), Refused)
        assert len(server.received) == before + 1
        assert server.received[-1].startswith(b"POST")


async def test_h36_a_redirect_after_the_accept_is_not_followed(tmp_path: Path) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("submit", Reply.REDIRECT))
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Unknown)
        assert venue.calls("submit") == 1
        assert await venue.count(CID) == 1


async def test_h36_no_proxy_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with venue_at(tmp_path) as venue:
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Placed)


@pytest.mark.parametrize("reply", [Reply.RESET, Reply.CLOSED, Reply.TRUNCATED, Reply.HTML, Reply.EMPTY])
async def test_an_accepted_order_whose_answer_breaks_is_unknown_then_found(
    tmp_path: Path, reply: Reply
) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("submit", reply))
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Unknown)
        found = await venue.broker.find(CID)
        assert found is not None
        assert await venue.count(CID) == 1
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), DuplicateId)
        assert await venue.count(CID) == 1


@pytest.mark.parametrize("reply", [Reply.STRANGER, Reply.NAMELESS])
async def test_an_answer_with_another_order_in_it_is_unknown(tmp_path: Path, reply: Reply) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("submit", reply))
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Unknown)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
async def test_a_gateways_error_after_the_accept_is_unknown_and_one_hit(tmp_path: Path, status: int) -> None:
    async with venue_at(tmp_path) as venue:
        venue.exchange.plan.add(Fault("submit", Reply.STATUS, status=status))
        assert isinstance(await venue.broker.submit(ORDER, nothing_against), Unknown)
        assert venue.calls("submit") == 1


# --------------------------------------------------------------------------------------------------- secrets

LONG_KEYS = Keys("PKVERYSECRETKEYID", "avery/longAnd+secret\\key")
ECHO = f"{LONG_KEYS.key_id} {LONG_KEYS.secret_key}"


def answer_of(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "400 No", "429 Slow", "503 No"])
@pytest.mark.parametrize(
    "body",
    [
        ECHO.encode(),
        b"\xff" + ECHO.encode(),
        json.dumps({"code": 7, "message": ECHO}).encode(),
        json.dumps({"code": 7, "message": ECHO}).replace("/", "\\/").encode(),
        json.dumps(order(client_order_id=ECHO)).encode(),
        json.dumps(order(side=LONG_KEYS.secret_key)).encode(),
        json.dumps({"account_number": "PA1", "cash": "1", "equity": "1", "status": ECHO}).encode(),
        json.dumps({"account_number": ECHO, "cash": "1", "equity": "1"}).encode(),
    ],
)
async def test_no_answer_of_any_status_brings_a_key_back(status: str, body: bytes) -> None:
    async with raw_server(answer_of(status, body)) as server:
        broker = await connected_to(server, keys=LONG_KEYS)
        said = [repr(await broker.submit(ORDER, nothing_against))]
        # After a 429 looks wait for their turn.
        looks = () if status.startswith("429") else (broker.account, lambda: broker.find(CID))
        for look in looks:
            try:
                said.append(repr(await look()))
            except LookupFailed as failed:
                said.append(str(failed))
        await broker.close()
    for text in said:
        assert LONG_KEYS.key_id not in text
        assert LONG_KEYS.secret_key not in text.replace("\\\\", "\\")
        assert "longAnd" not in text


async def test_no_key_is_in_a_repr_an_error_or_a_reply() -> None:
    keys = Keys("PKVERYSECRETKEYID", "averylongandsecretsecretkey")
    assert "SECRET" not in repr(keys).upper().replace("SECRET_KEY", "")
    echo = json.dumps({"code": 40310000, "message": f"{keys.key_id} {keys.secret_key} may not"}).encode()
    answer = b"HTTP/1.1 403 No\r\nContent-Length: %d\r\n\r\n%b" % (len(echo), echo)
    async with raw_server(answer) as server:
        broker = await connected_to(server, keys=keys)
        reply = await broker.submit(ORDER, nothing_against)
        with pytest.raises(LookupFailed) as failed:
            await broker.account()
        await broker.close()
        assert isinstance(reply, Refused)
        for text in (repr(reply), str(failed.value), repr(broker)):
            assert keys.key_id not in text
            assert keys.secret_key not in text
        assert "*** *** may not" in reply.detail
