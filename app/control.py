"""The control channel: one Unix socket in the home, for the commands of the same user and nobody else.

Never reachable over TCP, and both ends check who owns the other (HOLES H43). The server hands requests to the
engine and decides nothing; the client is what the commands use, and imports no engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from app.engine import Engine
    from app.tasks import Tasks

T = TypeVar("T")

SOCKET_NAME = "control.sock"
MAX_REQUEST = 64 * 1024
MAX_ANSWER = 4 * 1024 * 1024
MAX_PATH = 100
"""Bytes of a socket's path: the system's limit is 104 on macOS and 108 on Linux."""
REQUEST_TIMEOUT = 10.0
ANSWER_TIMEOUT = 60.0


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """One line to the server."""

    id: str
    command: str
    arguments: dict[str, Any] = {}


class Reply(msgspec.Struct, omit_defaults=True):
    """One line back: a result, or in one sentence why there is none."""

    id: str
    result: Any = None
    error: str | None = None


class NotRunning(Exception):
    """No app of ours answers on this home's control channel."""


class Refused(Exception):
    """The app, or one of the checks before it, said no. One line."""


def is_supported() -> bool:
    return sys.platform != "win32" and hasattr(socket, "AF_UNIX")


def socket_path(home: Path) -> Path:
    """`control.sock` in the home; where that path is too long for a socket, a short one derived from it."""
    path = home.absolute() / SOCKET_NAME
    if len(os.fsencode(path)) <= MAX_PATH:
        return path
    name = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:24]
    return _runtime_folder() / f"{name}.sock"


def _runtime_folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir() and len(os.fsencode(runtime)) <= MAX_PATH - 45:
        return Path(runtime) / "onefill"
    # The temporary folder of a test or a user may itself be too long; /tmp is on every Unix.
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > MAX_PATH - 55:
        base = "/tmp"  # noqa: S108 - the folder in it is made 0700 and its owner is checked
    return Path(base) / f"onefill-{os.getuid()}"


def _own_folder(folder: Path, home: Path) -> None:
    """Makes the folder of a socket outside the home; Refused unless it is ours and nobody else gets in."""
    if folder == home.absolute():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise Refused(f"{folder} must be a folder of yours alone (0700): remove it, or use a shorter --home")


def peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, as the kernel says. OSError where it cannot."""
    peer_credentials = getattr(socket, "SO_PEERCRED", None)
    if peer_credentials is None:
        return _getpeereid(connection)
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, peer_credentials, size))[1])


def _getpeereid(connection: socket.socket) -> int:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    user, group = ctypes.c_uint32(), ctypes.c_uint32()
    if library.getpeereid(connection.fileno(), ctypes.byref(user), ctypes.byref(group)) != 0:
        raise OSError(ctypes.get_errno(), "getpeereid failed")
    return user.value


# ------------------------------------------------------------------------------------------------ server


@contextlib.asynccontextmanager
async def serving(engine: Engine) -> AsyncIterator[None]:
    """Serves the control channel of a started engine for as long as it is entered."""
    if not is_supported():
        yield
        return
    from app.tasks import Tasks

    tasks = Tasks()
    server = _Server(engine, tasks)
    await server.open()
    try:
        yield
    finally:
        await server.close()


async def _beside_the_loop(work: Callable[[], T]) -> T:
    """Runs what looks at the disk on a thread of its own, which then ends."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="control")
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    finally:
        thread.shutdown(wait=False)


class _Server:
    def __init__(self, engine: Engine, tasks: Tasks) -> None:
        self._engine = engine
        self._tasks = tasks
        self._path = Path()
        self._inode = 0
        self._actor = "command"
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        listening = await _beside_the_loop(self._bind)
        try:
            self._server = await asyncio.start_unix_server(self._connected, sock=listening, limit=MAX_REQUEST)
        except BaseException:
            listening.close()
            raise

    def _bind(self) -> socket.socket:
        """Blocking. The home is locked by us, so what is bound there already is a dead app's."""
        home = self._engine.home
        self._actor = f"command:{_user_name()}"
        self._path = socket_path(home)
        _own_folder(self._path.parent, home)
        _remove_stale(self._path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(os.fspath(self._path))
            # Before anybody can connect, which is when it listens.
            self._path.chmod(0o600)
            self._inode = self._path.stat().st_ino
        except BaseException:
            listening.close()
            raise
        return listening

    async def close(self) -> None:
        """Takes no more requests, lets go of those that run, removes the socket's file."""
        if self._server is None:
            return
        self._server.close()
        await self._tasks.stop()
        await self._server.wait_closed()
        await _beside_the_loop(self._remove)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start("control connection", self._converse(reader, writer))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if peer_user(writer.get_extra_info("socket")) != os.getuid():
                return
            while line := await _line(reader):
                writer.write(msgspec.json.encode(await self._answer(line)) + b"\n")
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            # ValueError: a line over the limit. Whoever sends such a thing gets nothing.
            pass
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, line: bytes) -> Reply:
        from app.engine import CommandRefused

        try:
            request = msgspec.json.decode(line, type=Request)
        except msgspec.DecodeError as error:
            return Reply("", error=f"not a request: {error}")
        try:
            if request.command == "status":
                return Reply(request.id, msgspec.to_builtins(self._engine.status()))
            result = await self._engine.command(
                request.command, request.arguments, actor=self._actor, request_id=request.id
            )
        except CommandRefused as refused:
            return Reply(request.id, error=str(refused))
        return Reply(request.id, result)


async def _line(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(REQUEST_TIMEOUT):
        return await reader.readline()


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise Refused(f"{path} is in the way and is no socket of ours: move it away")
    path.unlink()


def _user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# ------------------------------------------------------------------------------------------------ client


def ask(
    home: Path,
    command: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    request_id: str,
    timeout: float = ANSWER_TIMEOUT,
) -> Any:
    """Asks the app that runs on this home and returns its result. Blocking.

    Raises NotRunning if none does, and Refused with the app's reason or where the other end is not ours.
    """
    if not is_supported():
        raise NotRunning("the control channel of Windows comes with the installer")
    path = socket_path(home)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            if path.lstat().st_uid != os.getuid():
                raise Refused(f"{path} belongs to another user: nothing was sent to it")
            connection.connect(os.fspath(path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
                raise NotRunning(f"no app is running on {home}") from None
            raise Refused(f"the running app cannot be reached ({error.strerror or error})") from None
        if peer_user(connection) != os.getuid():
            raise Refused("another user's program answers there: nothing was sent to it")
        reply = _exchange(connection, Request(request_id, command, dict(arguments or {})), timeout)
    if reply.error is not None:
        raise Refused(reply.error)
    return reply.result


def _exchange(connection: socket.socket, request: Request, timeout: float) -> Reply:
    try:
        connection.sendall(msgspec.json.encode(request) + b"\n")
        received = bytearray()
        while not received.endswith(b"\n"):
            chunk = connection.recv(65_536)
            if not chunk or len(received) > MAX_ANSWER:
                raise Refused(
                    "the app ended the talk without an answer: ask again with the same request id"
                    f" ({request.id}) to learn whether it was done"
                )
            received += chunk
    except TimeoutError:
        raise Refused(
            f"no answer within {timeout:g} s; it may still be done: ask again with --request-id {request.id}"
        ) from None
    except OSError as error:
        raise Refused(f"the running app cannot be reached ({error.strerror or error})") from None
    return msgspec.json.decode(bytes(received), type=Reply)
