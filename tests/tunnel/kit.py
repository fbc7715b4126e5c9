"""Stand-ins for tunnel programs, a door that hears knocks, and a supervisor that can be waited for.

A stand-in is a Python script that a test writes: it prints and serves what the real program does, in the mood
that it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor  # noqa: F401 - as the engine does: a first import reads files
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from app.clock import SECOND, Clock, SystemClock
from app.tunnel import Kind, Pace, PublicProbe, Supervisor, TunnelFacts, TunnelMemory

HEADER = "X-Onefill-Probe"
PATIENCE = 30.0
MS = SECOND // 1000
QUICK = Pace(
    tick=0.01,
    look=30 * MS,
    public=60 * MS,
    first_tries=(0, 20 * MS, 20 * MS),
    most_wait=50 * MS,
    most_limited_wait=3_600 * SECOND,
    steady=50 * MS,
)
"""Everything at once. What a test wants to stand still it makes long."""

_HEAD = """\
#!{python} -S
import http.server, json, os, signal, socket, sys, threading, time
ARGS = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))

def value(flag):
    return ARGS[ARGS.index(flag) + 1]

def mood():
    try:
        with open(os.path.join(HERE, "mood")) as file:
            return file.read().split()
    except OSError:
        return []

def note(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text + chr(10))

def say(*lines):
    for line in lines:
        print(line, file=sys.stderr, flush=True)

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self):
        # Not HTTPServer's: it looks its own name up.
        socket.socket.bind(self.socket, self.server_address)
        self.server_name, self.server_port = self.server_address

def serve(address, answers):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers(self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        def log_message(self, *args):
            pass
    host, _, port = address.rpartition(":")
    threading.Thread(target=Server((host, int(port)), Handler).serve_forever, daemon=True).start()

def wait():
    while True:
        time.sleep(0.02)
        if "die" in mood():
            say("level=error it is over")
            os._exit(3)
        if "flood" in mood():
            sys.stderr.write("flood " * 2000 + chr(10))

note("starts", json.dumps({{"pid": os.getpid(), "args": ARGS, "env": dict(os.environ)}}))
if "deaf" in mood():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""


def stand_in(folder: Path, name: str, body: str, *mood: str) -> Path:
    """An executable script with the helpers above; `set_mood` changes its mood while it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(_HEAD.format(python=sys.executable) + textwrap.dedent(body))
    path.chmod(0o755)
    set_mood(folder, *mood)
    return path


def set_mood(folder: Path, *mood: str) -> None:
    # At once: a stand-in may be reading it.
    (folder / "mood.new").write_text(" ".join(mood))
    os.replace(folder / "mood.new", folder / "mood")


def starts(folder: Path) -> list[str]:
    """A line of JSON for each start of a stand-in: pid, args, env."""
    noted = folder / "starts"
    return noted.read_text().splitlines() if noted.exists() else []


class HeardDoor:
    """The door as a tunnel sees it: hears knocks, answers /healthz. `behave` changes that."""

    def __init__(self, probe: PublicProbe) -> None:
        self.probe = probe
        self.port = 0
        self.knocks = 0
        self.status = 200
        self.hears = True
        self.hold = asyncio.Event()
        self.hold.set()

    async def answer(self, request: web.Request) -> web.Response:
        self.knocks += 1
        word = request.headers.get(HEADER)
        if self.hears and word is not None:
            self.probe.hear(word)
        await self.hold.wait()
        return web.json_response({"status": "ok"}, status=self.status, headers={"Location": "/x"})


@contextlib.asynccontextmanager
async def heard_door(clock: Clock | None = None, patience: float = 2.0) -> AsyncIterator[HeardDoor]:
    door = HeardDoor(PublicProbe(HEADER, clock or SystemClock(), patience))
    app = web.Application()
    app.router.add_get("/healthz", door.answer)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    door.port = site.port
    try:
        yield door
    finally:
        door.hold.set()
        await runner.cleanup()


class Watched:
    """A supervisor that runs, and what it said so far."""

    def __init__(self, kind: Kind, home: Path, probe: PublicProbe, clock: Clock, pace: Pace) -> None:
        self._changed = asyncio.Event()
        self.deaths: list[str] = []
        self.memory = TunnelMemory(home)
        self.supervisor = Supervisor(
            kind,
            self.memory,
            probe,
            clock,
            self._note,
            on_death=lambda name, error: self.deaths.append(f"{name}: {error!r}"),
            pace=pace,
            jitter=lambda: 0.0,
        )
        self.words: list[str] = []

    def _note(self) -> None:
        word = self.supervisor.facts.word
        if not self.words or self.words[-1] != word:
            self.words.append(word)
        self._changed.set()

    @property
    def facts(self) -> TunnelFacts:
        return self.supervisor.facts

    async def until(self, holds: Callable[[TunnelFacts], bool]) -> TunnelFacts:
        """Looks at every change, and now and then."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(self.facts):
                    assert not self.deaths, self.deaths
                    self._changed.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"it did not come to that: {self.facts}, {self.words}") from None
        return self.facts

    async def until_word(self, word: str) -> TunnelFacts:
        return await self.until(lambda facts: facts.word == word)


@contextlib.asynccontextmanager
async def watched(
    kind: Kind, home: Path, door: HeardDoor, clock: Clock | None = None, pace: Pace = QUICK, port: int = 0
) -> AsyncIterator[Watched]:
    found = Watched(kind, home, door.probe, clock or SystemClock(), pace)
    found.supervisor.start(port or door.port)
    try:
        yield found
    finally:
        await found.supervisor.stop()
    assert found.deaths == []


async def until(holds: Callable[[], object]) -> None:
    """Waits for what another process does: there is nothing to be told by."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def paced(**changes: object) -> Pace:
    return replace(QUICK, **changes)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    """A zombie is over."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
