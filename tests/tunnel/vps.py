"""The far end of a real ssh tunnel: an SSH server in the test, and a wire to it that can freeze.

The near end is the system's own ssh client. Nothing leaves this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from app.tasks import Tasks

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="no ssh client is installed (openssh-client)"
)


class Vps:
    """`conns` are the connections so far. `greeting` is what a session prints, as free services do."""

    def __init__(self, folder: Path, greeting: str) -> None:
        self.folder = folder
        self.greeting = greeting
        self.conns: list[asyncssh.SSHServerConnection] = []
        self.port = 0
        self.key = folder / "client"
        self.known_hosts = folder / "known_hosts"
        self.public_port = free_port()
        self.open_to_all = False

    @property
    def public(self) -> str:
        return f"http://127.0.0.1:{self.public_port}"

    @property
    def options(self) -> tuple[str, ...]:
        """What makes ssh trust this server, and reach it under any name."""
        return (
            "UserKnownHostsFile=" + str(self.known_hosts),
            "GlobalKnownHostsFile=none",
            "HostName=127.0.0.1",
            f"Port={self.port}",
            "HostKeyAlias=the-server",
            "ControlMaster=no",
        )

    def cut(self) -> None:
        """The connection is gone at once, as by a reboot of the server."""
        self.conns[-1].abort()


def _server(vps: Vps) -> type[asyncssh.SSHServer]:
    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            vps.conns.append(conn)

        def begin_auth(self, username: str) -> bool:
            return not vps.open_to_all

        def public_key_auth_supported(self) -> bool:
            return True

        def server_requested(self, listen_host: str, listen_port: int) -> bool:
            return listen_host in ("127.0.0.1", "localhost", "")

    return Server


@contextlib.asynccontextmanager
async def vps(folder: Path, greeting: str = "") -> AsyncIterator[Vps]:
    folder.mkdir(parents=True, exist_ok=True)
    far = Vps(folder, greeting)
    host_key, client_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    client_key.write_private_key(str(far.key))
    far.key.chmod(0o600)
    allowed = asyncssh.import_authorized_keys(client_key.export_public_key().decode())
    trust(far, host_key)

    async def session(process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write(far.greeting)
        await process.wait_closed()

    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=_server(far),
        server_host_keys=[host_key],
        authorized_client_keys=allowed,
        process_factory=session,
    )
    far.port = server.sockets[0].getsockname()[1]
    try:
        yield far
    finally:
        server.close()
        for conn in far.conns:
            conn.abort()
        await server.wait_closed()
        for conn in far.conns:
            await conn.wait_closed()


def trust(far: Vps, host_key: asyncssh.SSHKey) -> None:
    """ssh knows the server by this key, and by no other."""
    far.known_hosts.write_text(f"the-server {host_key.export_public_key().decode()}")


class Wire:
    """A wire to the server: it carries everything, or, frozen, nothing, and nobody is told."""

    def __init__(self, port: int, tasks: Tasks) -> None:
        self._port = port
        self._tasks = tasks
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        self._tasks.start("there", self._pump(reader, far_writer))
        self._tasks.start("back", self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._thawed.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def wire_to(port: int) -> AsyncIterator[Wire]:
    tasks = Tasks()
    wire = Wire(port, tasks)

    def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
        tasks.start("join", wire.join(reader, writer))

    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        wire.close()
        await tasks.stop()
        await server.wait_closed()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
