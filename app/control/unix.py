"""The control channel as one Unix socket in the home: the kernel says who is at the other end.

Never reachable over TCP, and both ends check who owns the other (HOLES H43).
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
from pathlib import Path

import msgspec

from app.control.answering import Answering, beside_the_loop, read_line, user_name
from app.control.messages import (
    MAX_REQUEST,
    NotRunning,
    Refused,
    Reply,
    Request,
    receive_line,
    too_late,
    unreachable,
)

SOCKET_NAME = "control.sock"
MAX_PATH = 100
"""Bytes of a socket's path: the system's limit is 104 on macOS and 108 on Linux."""


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


class Server(Answering):
    _path = Path()
    _inode = 0

    async def listen(self) -> asyncio.Server:
        listening = await beside_the_loop(self._bind)
        try:
            return await asyncio.start_unix_server(self.connected, sock=listening, limit=MAX_REQUEST)
        except BaseException:
            listening.close()
            raise

    def _bind(self) -> socket.socket:
        """Blocking. The home is locked by us, so what is bound there already is a dead app's."""
        home = self.engine.home
        self.actor = f"command:{user_name()}"
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

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_user(writer.get_extra_info("socket")) != os.getuid():
            return
        while line := await read_line(reader):
            writer.write(await self.answer(line) + b"\n")
            await writer.drain()


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid():
        raise Refused(f"{path} is in the way and is no socket of ours: move it away")
    path.unlink()


# ------------------------------------------------------------------------------------------------ client


def exchange(home: Path, request: Request, timeout: float) -> Reply:
    """One request and its reply. Blocking. Raises NotRunning, Refused."""
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
            raise unreachable(error) from None
        if peer_user(connection) != os.getuid():
            raise Refused("another user's program answers there: nothing was sent to it")
        try:
            connection.sendall(msgspec.json.encode(request) + b"\n")
            line = receive_line(connection, request)
        except TimeoutError:
            raise too_late(request, timeout) from None
        except OSError as error:
            raise unreachable(error) from None
    return msgspec.json.decode(line, type=Reply)
