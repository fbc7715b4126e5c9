"""The control channel over loopback TCP, as on Windows: without the token nothing is learnt or reached."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from app.control import NotRunning, Refused, ask, messages, over_tcp, tcp, unix
from app.control.private import NotPrivate, is_for_one, read_ours, write_for_us_alone
from app.control.tcp import FILE_NAME, Place, Talk
from tests.control.kit import in_thread, served


@pytest.fixture(autouse=True)
def over_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEFILL_CONTROL", "tcp")


def place_of(home: Path) -> Place:
    return msgspec.json.decode((home / FILE_NAME).read_bytes(), type=Place)


def point_to(home: Path, port: int, token: str) -> None:
    """As if the app of this home listened there."""
    path = home / FILE_NAME
    path.write_bytes(msgspec.json.encode(Place(port, token)))
    path.chmod(0o600)


async def spoken(port: int, *said: bytes) -> bytes:
    """Everything that the server answers to a stranger until it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for each in said:
        writer.write(each)
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def relay(
    to: int, change: Callable[[bytes, bytes], bytes]
) -> AsyncIterator[tuple[int, list[bytes], list[bytes]]]:
    """A program between client and app: its port, what the client said, what the app said, a line each.

    `change(direction, line)` makes of each line what is handed on.
    """
    from_client: list[bytes] = []
    from_app: list[bytes] = []
    ended: list[asyncio.Event] = []

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = asyncio.Event()
        ended.append(over)
        app_reader, app_writer = await asyncio.open_connection("127.0.0.1", to, limit=messages.MAX_ANSWER)
        try:
            while line := await reader.readline():
                from_client.append(line)
                app_writer.write(change(b"client", line))
                answer = await app_reader.readline()
                if not answer:
                    break
                from_app.append(answer)
                writer.write(change(b"app", answer))
        except ConnectionError:
            pass
        finally:
            for each in (writer, app_writer):
                each.close()
                with contextlib.suppress(ConnectionError):
                    await each.wait_closed()
            over.set()

    server = await asyncio.start_server(between, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], from_client, from_app
    finally:
        server.close()
        for each in ended:
            await each.wait()
        await server.wait_closed()


def as_it_is(_direction: bytes, line: bytes) -> bytes:
    return line


@contextlib.contextmanager
def stranger(answer: Callable[[bytes], bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """A server that is not ours: its port, and what it heard. Answers the first line, then listens on."""
    listening = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def run() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(5)
            received = b""
            while not received.endswith(b"\n"):
                received += connection.recv(65_536)
            heard.append(received)
            connection.sendall(answer(received))
            with contextlib.suppress(OSError):
                while more := connection.recv(65_536):
                    heard.append(more)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield listening.getsockname()[1], heard
    finally:
        thread.join()
        listening.close()


# ------------------------------------------------------------------------------------------------ it works


async def test_the_commands_work_over_it(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        assert await in_thread(ask, tmp_path, "halt", {"exits_only": True}, request_id="r1") == {
            "done": "halt"
        }
        assert (await in_thread(ask, tmp_path, "status", request_id="r2"))["port"] == 8787
        with pytest.raises(Refused, match=r"^not now$"):
            await in_thread(ask, tmp_path, "refuse", request_id="r3")
        assert not (tmp_path / "control.sock").exists()
    (name, arguments, actor, request_id), _ = fake.asked
    assert (name, arguments, request_id) == ("halt", {"exits_only": True}, "r1")
    assert actor.startswith("command:")


async def test_without_an_app_there_is_nobody_and_a_dead_apps_file_is_no_app(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        await in_thread(ask, tmp_path, "status", request_id="r")
    async with served(tmp_path):
        kept = (tmp_path / FILE_NAME).read_bytes()
    assert not (tmp_path / FILE_NAME).exists()
    (tmp_path / FILE_NAME).write_bytes(kept)
    (tmp_path / FILE_NAME).chmod(0o600)
    with pytest.raises(NotRunning):
        await in_thread(ask, tmp_path, "status", request_id="r")
    async with served(tmp_path):
        assert (await in_thread(ask, tmp_path, "status", request_id="r"))["state"] == "running"


async def test_a_request_that_fills_the_limit_passes_and_a_larger_one_is_not_heard(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        await in_thread(ask, tmp_path, "halt", {"x": "y" * (messages.MAX_REQUEST - 200)}, request_id="r")
        with pytest.raises(Refused):
            await in_thread(ask, tmp_path, "halt", {"x": "y" * messages.MAX_REQUEST}, request_id="r")
    assert len(fake.asked) == 1


async def test_a_stop_while_a_command_waits_ends_the_talk(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        waiting = asyncio.get_running_loop().run_in_executor(
            None, lambda: ask(tmp_path, "wait", request_id="r9")
        )
        await fake.heard.wait()
    with pytest.raises(Refused, match="r9"):
        await waiting


def test_it_is_taken_where_there_are_no_unix_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert over_tcp()
    monkeypatch.delenv("ONEFILL_CONTROL")
    assert over_tcp() == (sys.platform == "win32")
    monkeypatch.setattr(unix, "is_supported", lambda: False)
    assert over_tcp()


# ------------------------------------------------------------------------------------------------ H43


async def test_h43_each_start_has_another_token_for_this_user_alone(tmp_path: Path) -> None:
    tokens = set()
    for _ in range(2):
        async with served(tmp_path):
            if os.name == "posix":
                assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
            tokens.add(place_of(tmp_path).token)
    assert len(tokens) == 2
    assert {len(token) for token in tokens} == {64}


@pytest.mark.parametrize("proof", ["none", "guessed", "the client's own", "an earlier one"])
def test_h43_a_stranger_on_the_port_learns_nothing(tmp_path: Path, proof: str) -> None:
    token = "a1" * 32
    number = b"3c" * 32

    def answer(hello: bytes) -> bytes:
        client = hello.split()[2]
        earlier = Talk(token.encode(), b"00" * 32, number).proof()
        return {
            "none": b"HTTP/1.1 200 OK\r\n\r\n",
            "guessed": number + b" " + b"0" * 64 + b"\n",
            "the client's own": client + b" " + client + b"\n",
            "an earlier one": number + b" " + earlier + b"\n",
        }[proof]

    with stranger(answer) as (port, heard):
        point_to(tmp_path, port, token)
        with pytest.raises(NotRunning, match="learnt nothing"):
            ask(tmp_path, "secret set", {"name": "account.live.key_id", "value": "hush"}, request_id="r")
    # A random number and no more: no token, nothing made from it, no word of the command.
    assert len(heard) == 1
    assert re.fullmatch(rb"ONEFILL 1 [0-9a-f]{64}\n", heard[0])
    assert token.encode() not in heard[0]


def test_h43_a_stranger_who_says_nothing_holds_the_client_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "HELLO_TIMEOUT", 0.05)
    with stranger(lambda _hello: b"3") as (port, heard):
        point_to(tmp_path, port, "a1" * 32)
        with pytest.raises(Refused, match="nothing was sent"):
            ask(tmp_path, "halt", request_id="r")
    assert len(heard) == 1


async def test_h43_a_client_without_the_token_gets_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        port = place_of(tmp_path).port
        point_to(tmp_path, port, "b2" * 32)
        with pytest.raises(NotRunning):
            await in_thread(ask, tmp_path, "status", request_id="r")
        # One that skips the proof: it gets the server's number and a proof, which it cannot use, and no more.
        hello = b"ONEFILL 1 " + b"0" * 64 + b"\n"
        request = msgspec.json.encode({"id": "r", "command": "status"})
        for line in (request, b"0" * 64 + b" " + request, b"", b" "):
            assert re.fullmatch(rb"[0-9a-f]{64} [0-9a-f]{64}\n", await spoken(port, hello, line + b"\n"))
    assert fake.asked == []


async def test_h43_a_captured_exchange_cannot_be_played_again(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        place = place_of(tmp_path)
        async with relay(place.port, as_it_is) as (between, from_client, from_app):
            point_to(tmp_path, between, place.token)
            await in_thread(ask, tmp_path, "halt", request_id="r1")
        assert len(fake.asked) == 1
        assert len(from_client) == len(from_app) == 2
        # To the app: another number of its own, so the old request proves nothing.
        assert (await spoken(place.port, *from_client)).count(b"\n") == 1
        # And on one connection a request counts once.
        async with relay(place.port, as_it_is) as (between, said, _):
            point_to(tmp_path, between, place.token)
            await in_thread(ask, tmp_path, "halt", request_id="r2")
        assert place.token.encode() not in b"".join(from_client + from_app + said)
    assert [request_id for *_, request_id in fake.asked] == ["r1", "r2"]


async def test_h43_a_line_counts_in_its_place_only(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        place = place_of(tmp_path)
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(b"ONEFILL 1 " + b"0" * 64 + b"\n")
        number, proof = (await reader.readline()).split()
        talk = Talk(place.token.encode(), b"0" * 64, number)
        assert proof == talk.proof()
        line = talk.signed("request", 0, b'{"id": "r", "command": "halt"}')
        writer.write(line)
        reply = talk.opened("reply", 0, await reader.readline())
        assert reply is not None
        assert msgspec.json.decode(reply) == {"id": "r", "result": {"done": "halt"}}
        writer.write(line)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    assert len(fake.asked) == 1


@pytest.mark.parametrize("who", [b"client", b"app"])
async def test_h43_what_was_changed_on_the_way_is_not_believed(tmp_path: Path, who: bytes) -> None:
    def change(direction: bytes, line: bytes) -> bytes:
        return line.replace(b"halt", b"wait") if direction == who else line

    async with served(tmp_path) as fake:
        place = place_of(tmp_path)
        async with relay(place.port, change) as (between, _, _):
            point_to(tmp_path, between, place.token)
            with pytest.raises(Refused, match="r7"):
                await in_thread(ask, tmp_path, "halt", request_id="r7")
    assert [name for name, *_ in fake.asked] == ([] if who == b"client" else ["halt"])


BROWSER = b"POST /halt HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        BROWSER + b"Content-Length: 80\r\n\r\nONEFILL 1 " + b"0" * 64 + b"\n",
        BROWSER + b'Content-Type: text/plain\r\n\r\n{"id": "r", "command": "halt"}\n',
        b"ONEFILL 1 " + b"0" * 64 + b"\r\n",
        b"ONEFILL 1 " + b"0" * 63 + b"\n",
        b"ONEFILL 2 " + b"0" * 64 + b"\n",
        b'{"id": "r", "command": "halt"}\n',
        b"\n",
        b"x" * (2 * messages.MAX_REQUEST),
    ],
)
async def test_h43_what_a_browser_or_a_scanner_sends_is_not_answered(tmp_path: Path, said: bytes) -> None:
    async with served(tmp_path) as fake:
        assert await spoken(place_of(tmp_path).port, said) == b""
    assert fake.asked == []


async def test_h43_strangers_who_only_connect_do_not_grow_without_end(tmp_path: Path) -> None:
    async with served(tmp_path):
        port = place_of(tmp_path).port
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(tcp.MOST_CONNECTIONS)]
        assert await spoken(port) == b""
        for _reader, writer in idle:
            writer.close()
            await writer.wait_closed()
        # The app sees only by and by that they have gone.
        async with asyncio.timeout(30):
            while await spoken(port, b"ONEFILL 1 " + b"0" * 64 + b"\n", b"\n") == b"":
                pass
        assert (await in_thread(ask, tmp_path, "status", request_id="r"))["state"] == "running"


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_h43_a_file_that_others_can_reach_is_not_believed(tmp_path: Path, mode: int) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    try:
        point_to(tmp_path, listening.getsockname()[1], "a1" * 32)
        (tmp_path / FILE_NAME).chmod(mode)
        with pytest.raises(Refused, match="not this user's alone"):
            ask(tmp_path, "halt", request_id="r", timeout=1)
        with pytest.raises(BlockingIOError):
            listening.accept()
    finally:
        listening.close()


def test_h43_on_windows_the_access_list_must_name_this_user_and_nobody_else() -> None:
    us, other = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
    assert is_for_one(f"O:{us}D:P(A;;FA;;;{us})", us)
    assert is_for_one(f"O:{us}G:S-1-5-21-1-2-3-513D:PAI(A;;FA;;;{us})", us)
    for descriptor in (
        f"O:{other}D:P(A;;FA;;;{us})",
        f"O:{us}D:P(A;;FA;;;{other})",
        f"O:{us}D:(A;;FA;;;{us})",
        f"O:{us}D:AI(A;ID;FA;;;{us})",
        f"O:{us}D:P(A;;FA;;;{us})(A;;FR;;;WD)",
        f"O:{us}D:P(A;;FA;;;WD)",
        f"O:{us}D:NO_ACCESS_CONTROL",
        f"D:P(A;;FA;;;{us})",
        "",
    ):
        assert not is_for_one(descriptor, us), descriptor


def test_h43_what_is_written_for_us_is_believed_and_an_ordinary_file_is_not(tmp_path: Path) -> None:
    """On Windows this is the only test of the access list itself."""
    ours, ordinary = tmp_path / "ours", tmp_path / "ordinary"
    write_for_us_alone(ours, b"token")
    write_for_us_alone(ours, b"another")
    assert read_ours(ours) == b"another"
    assert [each.name for each in tmp_path.iterdir()] == ["ours"]
    ordinary.write_bytes(b"planted")
    if os.name == "posix":
        ordinary.chmod(0o644)
    with pytest.raises(NotPrivate):
        read_ours(ordinary)
    with pytest.raises(FileNotFoundError):
        read_ours(tmp_path / "nothing")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
def test_h43_a_link_to_a_file_of_ours_is_not_followed(tmp_path: Path) -> None:
    write_for_us_alone(tmp_path / "secret", b"token")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="link"):
        read_ours(tmp_path / "link")
