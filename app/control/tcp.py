"""The control channel where there is no Unix socket (Windows): loopback TCP, and both ends prove themselves.

A new token each start, in a file for this user alone. It never travels: each line carries a MAC over it.
The client sends nothing but a random number until the server has proved that it knows the token, so a
stranger who took the port of a dead app learns nothing, and a client without the token is not answered.

    client  ONEFILL 1 <client number>
    server  <server number> <MAC "server">
    client  <MAC "request 0"> <request>
    server  <MAC "reply 0"> <reply>          and so on: 1, 2, ...

Every MAC is HMAC-SHA256 with the token over label, both numbers and the content, so that no line can be
played again on another connection, in another place or in the other direction. Nothing is encrypted: who can
listen on the loopback can read the memory of both ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import secrets
import socket
import sys
import time
from dataclasses import dataclass
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
from app.control.private import NotPrivate, read_ours, write_for_us_alone

FILE_NAME = "control.json"
HOST = "127.0.0.1"
MOST_CONNECTIONS = 16
"""At once; a stranger can hold no more than these, each for the time of one line."""
HELLO_TIMEOUT = 5.0
"""Seconds for the server's proof."""
_NUMBER = 32
"""Bytes of the token and of both random numbers."""
_DIGITS = 64
_HELLO = re.compile(rb"ONEFILL 1 ([0-9a-f]{64})\n")
_PROOF = re.compile(rb"([0-9a-f]{64}) ([0-9a-f]{64})\n")


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """What the file holds: where the server listens, and what both ends know."""

    port: int
    token: str


@dataclass(frozen=True, slots=True)
class Talk:
    """One connection's secret and numbers, all as hexadecimal digits."""

    token: bytes
    client: bytes
    server: bytes

    def proof(self) -> bytes:
        return self._mac(b"server", b"")

    def signed(self, direction: str, number: int, content: bytes) -> bytes:
        """A line, its end included."""
        return self._mac(f"{direction} {number}".encode(), content) + b" " + content + b"\n"

    def opened(self, direction: str, number: int, line: bytes) -> bytes | None:
        """The content of a line that the other end signed for this place; None for any other line."""
        content = line[_DIGITS + 1 : -1]
        return content if hmac.compare_digest(self.signed(direction, number, content), line) else None

    def _mac(self, label: bytes, content: bytes) -> bytes:
        # Label and numbers hold no line's end, so no two different contents give the same text.
        text = b"\n".join((label, self.client, self.server, content))
        return hmac.new(self.token, text, "sha256").hexdigest().encode()


# ------------------------------------------------------------------------------------------------ server


class Server(Answering):
    _token = b""
    _path = Path()
    _written = b""

    async def listen(self) -> asyncio.Server:
        listening = await beside_the_loop(self._bind)
        try:
            return await asyncio.start_server(self.connected, sock=listening, limit=MAX_REQUEST + _DIGITS + 2)
        except BaseException:
            listening.close()
            raise

    def _bind(self) -> socket.socket:
        """Blocking. Any free port, told in the file before anybody can connect; what was in it is a dead
        app's, since the home is locked by us."""
        self.actor = f"command:{user_name()}"
        self._token = secrets.token_hex(_NUMBER).encode()
        self._path = self.engine.home / FILE_NAME
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if sys.platform == "win32":
                # Else another user's program could bind the same port beside us.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            listening.bind((HOST, 0))
            self._written = msgspec.json.encode(Place(listening.getsockname()[1], self._token.decode()))
            write_for_us_alone(self._path, self._written)
        except NotPrivate as error:
            listening.close()
            raise Refused(str(error)) from None
        except BaseException:
            listening.close()
            raise
        return listening

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._path.read_bytes() == self._written:
                self._path.unlink()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.connections > MOST_CONNECTIONS:
            return
        # A browser's request, or anything else that is not the first line of ours, is not answered at all.
        hello = _HELLO.fullmatch(await read_line(reader))
        if hello is None:
            return
        talk = Talk(self._token, hello[1], secrets.token_hex(_NUMBER).encode())
        writer.write(talk.server + b" " + talk.proof() + b"\n")
        await writer.drain()
        number = 0
        while line := await read_line(reader):
            content = talk.opened("request", number, line)
            if content is None:
                return
            writer.write(talk.signed("reply", number, await self.answer(content)))
            await writer.drain()
            number += 1


# ------------------------------------------------------------------------------------------------ client


def exchange(home: Path, request: Request, timeout: float) -> Reply:
    """One request and its reply. Blocking. Raises NotRunning, Refused."""
    nobody = NotRunning(f"no app is running on {home}")
    try:
        place = msgspec.json.decode(read_ours(home / FILE_NAME), type=Place)
    except (FileNotFoundError, NotADirectoryError):
        raise nobody from None
    except NotPrivate as error:
        raise Refused(f"{error}; nothing was sent") from None
    except (OSError, msgspec.DecodeError) as error:
        raise Refused(f"{home / FILE_NAME} cannot be read ({error}): restart Onefill") from None
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(min(timeout, HELLO_TIMEOUT))
        try:
            connection.connect((HOST, place.port))
            talk = _greeted(connection, place.token.encode())
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            raise nobody from None
        except TimeoutError:
            raise Refused("what has the port of the app does not answer: nothing was sent to it") from None
        except OSError as error:
            raise unreachable(error) from None
        if talk is None:
            # A dead app's port that somebody else has. Whoever acts on the ledger now takes its lock first.
            raise NotRunning(f"no app is running on {home}: another program has its port, and learnt nothing")
        connection.settimeout(timeout)
        try:
            connection.sendall(talk.signed("request", 0, msgspec.json.encode(request)))
            content = talk.opened("reply", 0, receive_line(connection, request))
        except TimeoutError:
            raise too_late(request, timeout) from None
        except OSError as error:
            raise unreachable(error) from None
    if content is None:
        raise Refused(f"the answer is not the app's: ask again with --request-id {request.id}")
    return msgspec.json.decode(content, type=Reply)


def _greeted(connection: socket.socket, token: bytes) -> Talk | None:
    """Sends a random number, and nothing else, until the other end has proved that it knows the token.

    None where it has not. Raises OSError, TimeoutError.
    """
    client = secrets.token_hex(_NUMBER).encode()
    connection.sendall(b"ONEFILL 1 " + client + b"\n")
    received = bytearray()
    longest = 2 * _DIGITS + 2
    until = time.monotonic() + HELLO_TIMEOUT
    while len(received) < longest and not received.endswith(b"\n"):
        if time.monotonic() > until:
            raise TimeoutError
        chunk = connection.recv(longest - len(received))
        if not chunk:
            return None
        received += chunk
    found = _PROOF.fullmatch(received)
    if found is None:
        return None
    talk = Talk(token, client, bytes(found[1]))
    return talk if hmac.compare_digest(talk.proof(), bytes(found[2])) else None
