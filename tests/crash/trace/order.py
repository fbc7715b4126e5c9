"""Was it synced before it was told? Reads a trace for it; knows SQLite's log and HTTP, nothing of app.

Moments are places in the trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.crash.trace.calls import SystemCall

SYNCS = ("fsync", "fdatasync")
SENDS = ("sendto", "sendmsg", "write")
FRAME_HEADER = 24
NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; `left` is when its first byte went to the system."""

    status: int
    body: dict[str, Any]
    left: int


def answers(calls: list[SystemCall]) -> Iterator[Answer]:
    """Every complete answer, put together from what was sent on each socket."""
    streams: dict[str, tuple[bytearray, list[tuple[int, int]]]] = {}
    for call in calls:
        if call.name not in SENDS or "socket:" not in call.on or call.result <= 0:
            continue
        stream, begins = streams.setdefault(call.on, (bytearray(), []))
        begins.append((len(stream), call.began))
        stream += call.data[: call.result]
    for stream, begins in streams.values():
        place = 0
        while (head_end := stream.find(b"\r\n\r\n", place)) >= 0:
            head = bytes(stream[place:head_end]).decode("latin-1").split("\r\n")
            if not head[0].startswith("HTTP/1.1 "):
                break
            length = next(int(line[15:]) for line in head if line.lower().startswith("content-length:"))
            content = bytes(stream[head_end + 4 : head_end + 4 + length])
            left = max(began for at, began in begins if at <= place)
            yield Answer(int(head[0].split()[1]), json.loads(content), left)
            place = head_end + 4 + length


def synced(calls: list[SystemCall], log: str, needle: str) -> int:
    """When the first transaction that wrote `needle` to a log was on disk: the end of the first sync that
    began after its last frame was written. Far in the future if there was none."""
    writes = [call for call in calls if call.name == "pwrite64" and call.on.endswith(log)]
    first = next((place for place, call in enumerate(writes) if needle.encode() in call.data), None)
    if first is None:
        return NEVER
    # Header and page in turn; the header that ends a transaction says how large the database is, others 0.
    for header, page in zip(writes[first - 1 :: 2], writes[first::2], strict=False):
        assert len(header.data) == FRAME_HEADER, "not the log as it is known here"
        if header.data[4:8] != bytes(4):
            return _synced_after(calls, log, page.ended)
    return NEVER


def _synced_after(calls: list[SystemCall], log: str, moment: int) -> int:
    syncs = (call for call in calls if call.name in SYNCS and call.on.endswith(log))
    return next((call.ended for call in syncs if call.began > moment), NEVER)


def first_write(calls: list[SystemCall], log: str, needle: str) -> int:
    """When the first write of `needle` to a log began; far in the future if there was none."""
    writes = (call for call in calls if call.name == "pwrite64" and call.on.endswith(log))
    return next((call.began for call in writes if needle.encode() in call.data), NEVER)
