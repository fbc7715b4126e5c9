"""What goes over the control channel, whichever way it is: one request a line, one reply a line.

Nothing here opens a connection or decides who may ask.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

MAX_REQUEST = 64 * 1024
MAX_ANSWER = 4 * 1024 * 1024
"""Bytes of one line."""
REQUEST_TIMEOUT = 10.0
ANSWER_TIMEOUT = 60.0
"""Seconds."""


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


def unreachable(error: OSError) -> Refused:
    return Refused(f"the running app cannot be reached ({error.strerror or error})")


def too_late(request: Request, timeout: float) -> Refused:
    return Refused(
        f"no answer within {timeout:g} s; it may still be done: ask again with --request-id {request.id}"
    )


def receive_line(connection: socket.socket, request: Request) -> bytes:
    """The reply's line, its end included. Blocking. Raises Refused where the other end hangs up."""
    received = bytearray()
    while not received.endswith(b"\n"):
        chunk = connection.recv(65_536)
        if not chunk or len(received) > MAX_ANSWER:
            raise Refused(
                "the app ended the talk without an answer: ask again with the same request id"
                f" ({request.id}) to learn whether it was done"
            )
        received += chunk
    return bytes(received)
