"""The receiver: one process with one of the doors that are compared, on its own core.

Started as `python -m tests.benchmarks.server KIND LOOP HOME`. Says on stdout where it listens, then answers
one JSON line for each word on stdin (see `Console`); ends when stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw
import msgspec
from aiohttp import web

from app.claims.base import ClaimStore
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SystemClock
from app.engine import Engine
from app.engine.parts import door_sources, instrument_of
from app.ledger.writer import Health, Writer
from app.listener.server import Door
from app.logs import start_logging
from app.tasks import Tasks
from tests.benchmarks.counting import CountingVFS
from tests.benchmarks.homes import SOURCE, open_prepared, secrets
from tests.benchmarks.pinning import pin
from tests.benchmarks.profiling import Profiler, parts
from tests.benchmarks.stall import Stalls

HOST = "127.0.0.1"


class Receiver(Protocol):
    """What is measured. `writer` where it has a ledger, `syncs` where they are counted."""

    @property
    def port(self) -> int: ...

    @property
    def path(self) -> str: ...

    @property
    def writer(self) -> Writer | None: ...

    @property
    def syncs(self) -> dict[str, int]: ...

    def reset(self) -> None: ...

    def facts(self) -> dict[str, float]: ...


class Bare:
    """An aiohttp handler as its documentation shows it: reads JSON, answers JSON."""

    writer: Writer | None = None

    def __init__(self, commit: Callable[[bytes], None] | None) -> None:
        self.port = 0
        self.path = "/hook/tradingview/token"
        self.syncs: dict[str, int] = {}
        self._commit = commit

    async def handle(self, request: web.Request) -> web.StreamResponse:
        alert = await request.json()
        if self._commit is not None:
            self._commit(alert["order_id"].encode())
        return web.json_response({"status": "accepted"})

    def reset(self) -> None:
        pass

    def facts(self) -> dict[str, float]:
        return {}


@contextlib.asynccontextmanager
async def bare(home: Path, *, commits: bool) -> AsyncIterator[Bare]:
    async with serving(Bare(_one_row(home) if commits else None)) as receiver:
        yield receiver


B = TypeVar("B", bound=Bare)


@contextlib.asynccontextmanager
async def serving(receiver: B) -> AsyncIterator[B]:
    application = web.Application()
    application.router.add_post("/hook/{source}/{token}", receiver.handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    receiver.port = site.port
    try:
        yield receiver
    finally:
        await runner.cleanup()


def _one_row(home: Path) -> Callable[[bytes], None]:
    """Commits one small row, on the loop: nothing is cheaper and as durable."""
    connection = apsw.Connection(str(home / "one-row.sqlite3"))
    for setting in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    connection.execute("CREATE TABLE IF NOT EXISTS claims (id INTEGER PRIMARY KEY, key BLOB NOT NULL)")

    def commit(key: bytes) -> None:
        connection.execute("INSERT INTO claims (key) VALUES (?)", (key,)).fetchall()

    return commit


class Onefill:
    """The real door over the real ledger; with `extra` facts where there is more than that."""

    def __init__(self, port: int, path: str, writer: Writer, vfs: CountingVFS | None = None) -> None:
        self.port = port
        self.path = path
        self.writer: Writer | None = writer
        self._vfs = vfs
        self._before = writer.health

    @property
    def syncs(self) -> dict[str, int]:
        return dict(self._vfs.syncs) if self._vfs else {}

    def reset(self) -> None:
        assert self.writer is not None
        self._before = self.writer.health
        if self._vfs is not None:
            self._vfs.syncs.clear()

    def facts(self) -> dict[str, float]:
        assert self.writer is not None
        now: Health = self.writer.health
        return {
            "commits": now.commits - self._before.commits,
            "operations": now.operations - self._before.operations,
        }


@contextlib.asynccontextmanager
async def door(
    home: Path, *, counted: bool = False, store: ClaimStore | None = None
) -> AsyncIterator[Onefill]:
    """Door, claims and ledger as the engine builds them, log included; no lanes behind it."""
    vfs = CountingVFS() if counted else None
    clock, tasks = SystemClock(), Tasks()
    opened = await asyncio.to_thread(open_prepared, home)
    writer = Writer(opened.connection, clock, lambda why: os._exit(3))
    opening = Door(
        host=HOST,
        port=0,
        sources=door_sources(opened.settings, opened.credentials, {}),
        store=store or LedgerClaimStore(writer, clock, instrument_of),
        clock=clock,
        tasks=tasks,
        health=lambda: "ok",
    )
    port = await opening.start()
    try:
        yield Onefill(port, f"/hook/{SOURCE}/{opened.credentials[SOURCE]}", writer, vfs)
    finally:
        await opening.stop()
        await tasks.stop()
        await writer.close()
        opened.lock.release()


def of_engine(engine: Engine) -> Onefill:
    address = next(found for found in engine.hook_addresses() if found.source == SOURCE)
    _, _, path = address.local.removeprefix("http://").partition("/")
    port = engine.status().port
    assert port is not None
    assert engine._writer is not None
    return Onefill(port, "/" + path, engine._writer)


@contextlib.asynccontextmanager
async def whole(home: Path) -> AsyncIterator[Onefill]:
    """The whole engine: lanes that place each order on paper, reconciliation, the watch."""
    engine = Engine(home, port=0, secrets=lambda: secrets(home))
    await engine.start()
    try:
        yield of_engine(engine)
    finally:
        await engine.stop()


# --------------------------------------------------------------------------------------------- its commands


class Console:
    """Answers words from stdin: `reset`, `stats`, `profile`, `spent`. `serve` returns when stdin ends."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._stalls = Stalls(self._loop)
        self._ended = asyncio.Event()
        self._profilers: list[Profiler] = []
        self._cpu: dict[str, float] = {}

    async def serve(self) -> None:
        say({"port": self._receiver.port, "path": self._receiver.path})
        threading.Thread(target=self._read, name="console", daemon=True).start()
        await self._ended.wait()
        self._stalls.stop()

    def _read(self) -> None:
        for line in sys.stdin:
            self._loop.call_soon_threadsafe(self._obey, line.split())
        self._loop.call_soon_threadsafe(self._ended.set)

    def _obey(self, words: list[str]) -> None:
        match words:
            case ["reset"]:
                self._receiver.reset()
                self._stalls.reset()
                self._cpu = self._cpu_now()
                say({})
            case ["stats"]:
                say(self._stats())
            case ["profile"]:
                self._start_profile()
                say({})
            case ["spent"]:
                say(self._spent())
            case _:
                raise SystemExit(f"no such command: {words}")

    def _stats(self) -> dict[str, Any]:
        return {
            "cpu": {name: seconds - self._cpu[name] for name, seconds in self._cpu_now().items()},
            "stall_ms": self._stalls.longest,
            "stall_p99_ms": self._stalls.percentile(0.99),
            "syncs": self._receiver.syncs,
            **self._receiver.facts(),
        }

    def _cpu_now(self) -> dict[str, float]:
        """Processor seconds of the process, and of its two threads that matter."""
        times = os.times()
        found = {"all": times.user + times.system, "loop": time.thread_time()}
        writer = self._receiver.writer
        if writer is not None:
            found["writer"] = writer._executor.submit(time.thread_time).result()
        return found

    def _start_profile(self) -> None:
        self._profilers = [Profiler("loop")]
        writer = self._receiver.writer
        if writer is not None:
            self._profilers.append(Profiler("writer"))
            writer._executor.submit(self._profilers[1].start).result()
        self._profilers[0].start()

    def _spent(self) -> object:
        self._profilers[0].stop()
        writer = self._receiver.writer
        if writer is not None:
            writer._executor.submit(self._profilers[1].stop).result()
        return msgspec.to_builtins(parts(self._profilers))


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


KINDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Receiver]]] = {
    "bare": lambda home: bare(home, commits=False),
    "commit": lambda home: bare(home, commits=True),
    "door": door,
    "counted": lambda home: door(home, counted=True),
    "whole": whole,
}


async def run(kind: str, home: Path) -> None:
    from tests.benchmarks.stubs import KINDS as STUBS

    async with (KINDS | STUBS)[kind](home) as receiver:
        await Console(receiver).serve()


def main() -> None:
    kind, loop, folder = sys.argv[1:]
    home = Path(folder)
    pin("receiver")
    stop_logging = start_logging(home)
    try:
        if kind == "window":
            from tests.benchmarks.windowed import run_window

            run_window(home)
        elif loop == "qasync":
            from tests.benchmarks.windowed import run_on_qt

            run_on_qt(run(kind, home))
        else:
            asyncio.run(run(kind, home))
    finally:
        stop_logging()


if __name__ == "__main__":
    main()
