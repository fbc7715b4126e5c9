"""The control channel: the same user's commands reach the engine, and nobody and nothing else does (H43)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from app.control import NotRunning, Refused, ask, messages, unix
from app.control.unix import socket_path
from tests.control.kit import in_thread, served

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets; see test_control_tcp")


async def test_a_command_reaches_the_engine_with_its_id_and_who_asked(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        answer = await in_thread(ask, tmp_path, "halt", {"exits_only": True}, request_id="r1")
    assert answer == {"done": "halt"}
    ((name, arguments, actor, request_id),) = fake.asked
    assert (name, arguments, request_id) == ("halt", {"exits_only": True}, "r1")
    assert actor.startswith("command:")
    assert len(actor) > len("command:")


async def test_the_status_is_read_and_a_refusal_is_one_line(tmp_path: Path) -> None:
    async with served(tmp_path):
        assert (await in_thread(ask, tmp_path, "status", request_id="r"))["port"] == 8787
        with pytest.raises(Refused, match=r"^not now$"):
            await in_thread(ask, tmp_path, "refuse", request_id="r")


async def test_without_an_app_there_is_nobody(tmp_path: Path) -> None:
    with pytest.raises(NotRunning):
        await in_thread(ask, tmp_path, "status", request_id="r")
    async with served(tmp_path):
        pass
    assert not (tmp_path / "control.sock").exists()
    with pytest.raises(NotRunning):
        await in_thread(ask, tmp_path, "status", request_id="r")


async def test_the_socket_is_its_users_alone(tmp_path: Path) -> None:
    async with served(tmp_path):
        assert stat.S_IMODE((tmp_path / "control.sock").stat().st_mode) == 0o600


async def test_a_dead_apps_socket_is_replaced(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(tmp_path / "control.sock"))
    dead.close()
    with pytest.raises(NotRunning):
        await in_thread(ask, tmp_path, "status", request_id="r")
    async with served(tmp_path):
        assert (await in_thread(ask, tmp_path, "status", request_id="r"))["state"] == "running"


async def test_what_is_no_socket_is_left_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "control.sock").write_text("a person's file")
    with pytest.raises(Refused, match="in the way"):
        async with served(tmp_path):
            pass
    assert (tmp_path / "control.sock").read_text() == "a person's file"


async def test_a_home_with_a_long_path_gets_a_short_socket_in_a_folder_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    home = tmp_path / ("long" * 30)
    home.mkdir()
    path = await in_thread(socket_path, home)
    assert len(os.fsencode(path)) < 108
    assert path == await in_thread(socket_path, home)
    assert path != await in_thread(socket_path, tmp_path / ("lung" * 30))
    async with served(home):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert (await in_thread(ask, home, "status", request_id="r"))["home"] == str(home)
    assert not path.exists()


async def test_h43_a_short_socket_is_not_put_where_others_can_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "_runtime_folder", lambda: tmp_path / "open")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    home = tmp_path / ("long" * 30)
    home.mkdir()
    with pytest.raises(Refused, match="yours alone"):
        async with served(home):
            pass


async def test_h43_another_users_connection_is_closed_unheard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as fake:
        real = unix.peer_user
        server_side = threading.get_ident()
        monkeypatch.setattr(
            unix, "peer_user", lambda s: 12345 if threading.get_ident() == server_side else real(s)
        )
        with pytest.raises(Refused):
            await in_thread(ask, tmp_path, "halt", request_id="r")
        assert fake.asked == []


def test_h43_a_stranger_at_the_other_end_learns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(tmp_path / "control.sock"))
    listening.listen()
    monkeypatch.setattr(unix, "peer_user", lambda _: os.getuid() + 1)
    try:
        with pytest.raises(Refused, match="another user"):
            ask(tmp_path, "halt", request_id="r", timeout=30)
        connection, _ = listening.accept()
        connection.settimeout(30)
        assert connection.recv(1000) == b""
        connection.close()
    finally:
        listening.close()


def test_the_kernel_names_the_user_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    assert unix.peer_user(ours) == unix.peer_user(theirs) == os.getuid()
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'{"id": "r"}\n',
        b'{"id": "r", "command": "halt", "more": 1}\n',
        b'{"id": 7, "command": "halt"}\n',
    ],
)
async def test_a_line_that_is_no_request_is_answered_and_acts_on_nothing(tmp_path: Path, line: bytes) -> None:
    async with served(tmp_path) as fake:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
        writer.write(line)
        reply = msgspec.json.decode(await reader.readline())
        assert "not a request" in reply["error"]
        writer.close()
        await writer.wait_closed()
    assert fake.asked == []


async def test_a_line_without_an_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
        with contextlib.suppress(ConnectionError):
            for _ in range(8):
                writer.write(b"x" * messages.MAX_REQUEST)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert fake.asked == []


async def test_several_requests_on_one_connection_and_a_stop_while_one_waits(tmp_path: Path) -> None:
    async with served(tmp_path) as fake:
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "control.sock"))
        for number in range(3):
            writer.write(msgspec.json.encode({"id": f"r{number}", "command": "halt"}) + b"\n")
            assert msgspec.json.decode(await reader.readline()) == {
                "id": f"r{number}",
                "result": {"done": "halt"},
            }
        writer.write(msgspec.json.encode({"id": "r", "command": "wait"}) + b"\n")
        await fake.heard.wait()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
