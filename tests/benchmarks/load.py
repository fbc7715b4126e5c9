"""The sender: a process of its own on the other core, raw sockets, as little work a request as Python allows.

Reads one job a line on stdin (see `Job`), writes one result a line on stdout (see `Result`).
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from collections import Counter, deque

import msgspec

from tests.benchmarks.alerts import Alerts
from tests.benchmarks.pinning import pin

PATIENCE = 30.0
"""Seconds after the end of a job within which the last answers must be there."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`rate` 0: every connection sends as soon as it is answered. Else so many alerts a second at random
    moments, come what may; their time counts from the moment they were due."""

    port: int
    path: str
    connections: int
    seconds: float
    run: str
    warm_up: float = 0.0
    rate: float = 0.0
    seed: int = 1


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """`answers` counts by status and verdict. Times in milliseconds; those of the warm-up are left out."""

    answers: dict[str, int]
    total: int
    """All answers, the warm-up's too."""
    per_second: float
    p50: float
    p99: float
    p999: float
    longest: float


class _Sender(asyncio.Protocol):
    """One connection. `due` is when the request that is out was to be sent, 0 while none is out."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._due = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, due: int) -> None:
        assert self._transport is not None
        self._due = due
        body = self._run.alerts.next()
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._run.head, len(body), body))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        low = head.lower()
        at = low.index(b"content-length:") + 15
        if len(body) < int(low[at : at + 8].split(b"\r\n", 1)[0]):
            return
        self._received = b""
        self._run.answered(self, self._due, head[9:12], body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.lost(exc)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Run:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.alerts = Alerts(job.run)
        self.head = (
            f"POST {job.path} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\nUser-Agent: Go-http-client/1.1\r\n"
            "Accept: */*\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: "
        ).encode()
        self._answers: Counter[tuple[bytes, bytes]] = Counter()
        self._times: list[int] = []
        self._measured_from = 0
        self._until = 0
        self._out = 0
        self._free: deque[_Sender] = deque()
        self._queue: deque[int] = deque()
        self._over = asyncio.Event()
        self._closing = False

    async def go(self) -> Result:
        loop = asyncio.get_running_loop()
        senders = []
        for _ in range(self.job.connections):
            _, sender = await loop.create_connection(lambda: _Sender(self), "127.0.0.1", self.job.port)
            senders.append(sender)
        began = time.perf_counter_ns()
        self._measured_from = began + int(self.job.warm_up * 1e9)
        self._until = self._measured_from + int(self.job.seconds * 1e9)
        try:
            async with asyncio.timeout(self.job.warm_up + self.job.seconds + PATIENCE):
                if self.job.rate:
                    await self._send_on_time(senders, began)
                else:
                    for sender in senders:
                        self._send(sender, time.perf_counter_ns())
                await self._over.wait()
        finally:
            self._closing = True
            for sender in senders:
                sender.close()
        return self._result()

    async def _send_on_time(self, senders: list[_Sender], began: int) -> None:
        self._free.extend(senders)
        chance = random.Random(self.job.seed)
        due = began
        while (due := due + int(chance.expovariate(self.job.rate) * 1e9)) < self._until:
            left = (due - time.perf_counter_ns()) / 1e9
            if left > 0:
                await asyncio.sleep(left)
            if self._free:
                self._send(self._free.popleft(), due)
            else:
                self._queue.append(due)
        await asyncio.sleep(max(0.0, (self._until - time.perf_counter_ns()) / 1e9) + 0.001)
        self._end_if_done()

    def _send(self, sender: _Sender, due: int) -> None:
        self._out += 1
        sender.send(due)

    def answered(self, sender: _Sender, due: int, status: bytes, body: bytes) -> None:
        now = time.perf_counter_ns()
        self._out -= 1
        if now >= self._measured_from and (self.job.rate == 0 or due >= self._measured_from):
            self._times.append(now - due)
        self._answers[status, body[:24].split(b'"')[3] if body[:1] == b"{" else b""] += 1
        if self._queue:
            self._send(sender, self._queue.popleft())
        elif self.job.rate:
            self._free.append(sender)
            self._end_if_done()
        elif now < self._until:
            self._send(sender, now)
        elif self._out == 0:
            self._over.set()

    def _end_if_done(self) -> None:
        if self._out == 0 and time.perf_counter_ns() >= self._until:
            self._over.set()

    def lost(self, error: Exception | None) -> None:
        if not self._closing:
            raise SystemExit(f"a connection was lost under load: {error}")

    def _result(self) -> Result:
        times = sorted(self._times)
        if not times:
            raise SystemExit("nothing was answered")

        def at(part: float) -> float:
            return times[min(len(times) - 1, int(len(times) * part))] / 1e6

        return Result(
            answers={f"{status.decode()} {word.decode()}": n for (status, word), n in self._answers.items()},
            total=self._answers.total(),
            per_second=len(times) / self.job.seconds,
            p50=at(0.5),
            p99=at(0.99),
            p999=at(0.999),
            longest=times[-1] / 1e6,
        )


def main() -> None:
    pin("sender")
    gc.disable()
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        result = asyncio.run(_Run(job).go())
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
