"""`python -m tests.benchmarks.million`: the window over a million signals while fifty a second come in.

The whole program on a real home. A person's doings are done one after the other: each view opened, rows
scrolled, filtered and sorted, a story and the plots read; beside it another process sends alerts. For each of
them: how long until it was there, and the longest time for which the loop let anybody wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import apsw
import msgspec

from app.logs import start_logging
from tests.benchmarks.load import Job, Result
from tests.benchmarks.pinning import pin
from tests.benchmarks.processes import Load, Talk, started
from tests.benchmarks.seeding import fill

RATE = 50.0
CONNECTIONS = 16
IDLE_ROUNDS = 3
LIMIT_MS = 100.0
PATIENCE = 60.0
SYMBOLS = ("AAPL", "MSFT", "BTCUSDT", "ES1!", "EURUSD", "TSLA", "NVDA", "SPY")


class Doing(msgspec.Struct, frozen=True):
    """Milliseconds: until it was there, and the longest wait that the loop caused meanwhile."""

    name: str
    took: float
    stall: float


class Found(msgspec.Struct, frozen=True, kw_only=True):
    claims: int
    doings: list[Doing]
    idle: list[Result]
    """Two seconds each, while nobody touches the window."""
    busy: list[Result]
    """Two seconds each, while everything is done to it."""

    @property
    def stall(self) -> float:
        return max(doing.stall for doing in self.doings)


def vary(home: Path) -> None:
    """As a year leaves it: symbols of all kinds, and here and there something that was not placed."""
    connection = apsw.Connection(str(home / "ledger.sqlite3"))
    names = "CASE id % {n} {cases} END".format(
        n=len(SYMBOLS), cases=" ".join(f"WHEN {place} THEN '{name}'" for place, name in enumerate(SYMBOLS))
    )
    refused = (
        "INSERT INTO deliveries (received_at, source_id, verdict, http_status, reason, claim_id, key) "
        "SELECT received_at + 900000, source_id, CASE id % 3 WHEN 0 THEN 'stale' ELSE 'duplicate' END, "
        "CASE id % 3 WHEN 0 THEN 422 ELSE 200 END, CASE id % 3 WHEN 0 THEN 'stale' END, claim_id, key "
        "FROM deliveries WHERE id % 50 = 0"
    )
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"UPDATE claims SET symbol = {names}, deliveries = 1 + (id % 50 = 0)")
    connection.execute(refused)
    connection.execute("COMMIT")
    connection.close()


def measure(folder: Path, claims: int) -> Found:
    home = folder / "home"
    fill(home, claims)
    vary(home)
    load, window = Load(), Talk("million", "--window", str(home))
    with started(load, window):
        where = msgspec.json.decode(window.hear())
        job = {"port": where["port"], "path": where["path"], "connections": CONNECTIONS, "rate": RATE}
        load.run(Job(run="warm", seconds=1.0, **job))
        idle = [load.run(Job(run=f"idle{n}", seconds=2.0, seed=n, **job)) for n in range(IDLE_ROUNDS)]
        results: list[Result] = []
        over = threading.Event()

        def send() -> None:
            number = 0
            while not over.is_set():
                number += 1
                results.append(load.run(Job(run=f"n{number}", seconds=2.0, seed=number, **job)))

        sender = threading.Thread(target=send)
        sender.start()
        try:
            doings = msgspec.json.decode(window.ask("go"), type=list[Doing])
        finally:
            over.set()
            sender.join()
    return Found(claims=claims, doings=doings, idle=idle, busy=results)


# ------------------------------------------------------------------------------------- the window's process


def run_window(home: Path) -> None:
    from app.gui.main import run as run_program  # names the Qt binding before it is imported

    pin("receiver")
    stop_logging = start_logging(home)
    try:
        code = run_program(home, 0, _beside)
    finally:
        stop_logging()
    if code:
        raise SystemExit(code)


@contextlib.asynccontextmanager
async def _beside(engine: object) -> AsyncIterator[None]:
    from app.tasks import Tasks

    tasks = Tasks()
    tasks.start("doings", _serve(engine))
    try:
        yield
    finally:
        await tasks.stop()


async def _serve(engine: object) -> None:
    from PySide6.QtWidgets import QApplication

    from app.gui.window import Window
    from tests.benchmarks.server import of_engine, say

    where = of_engine(engine)  # type: ignore[arg-type]
    while not (windows := [w for w in QApplication.topLevelWidgets() if isinstance(w, Window)]):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    person = Person(windows[0])
    say({"port": where.port, "path": where.path})
    await _line()
    print(msgspec.json.encode(await person.day()).decode(), flush=True)
    engine.request_stop("measured")  # type: ignore[attr-defined]


async def _line() -> None:
    """Until a line has come on stdin."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()

    def read() -> None:
        sys.stdin.readline()
        loop.call_soon_threadsafe(heard.set)

    threading.Thread(target=read, daemon=True).start()
    await heard.wait()


class Person:
    """Does one thing after the other, and waits until it is there."""

    def __init__(self, window: object) -> None:
        from app.gui.window import Window
        from tests.benchmarks.stall import Stalls

        assert isinstance(window, Window)
        self._window = window
        self._stalls = Stalls(asyncio.get_running_loop())
        self._doings: list[Doing] = []

    async def day(self) -> list[Doing]:
        window = self._window
        for name in window.views:
            await self._do(f"open {name}", self._opens(name))
        await self._do("scroll to the oldest", self._scrolls(1.0))
        await self._do("scroll to the middle", self._scrolls(0.5))
        await self._do("scroll 40 pages", self._pages)
        await self._do("read an old story", self._story)
        await self._do("filter by a word that few have", self._filters(text="seeded-1F3"))
        await self._do("filter by a symbol", self._filters(text="symbol:TSLA"))
        await self._do("filter by a chip", self._filters(chips=["denied"]))
        await self._do("filter by a time", self._filters(span="month"))
        for column in ("symbol", "key", "quantity", "outcome"):
            await self._do(f"sort by {column}", self._filters(sort=column))
        await self._do("scroll what was sorted", self._scrolls(0.7))
        await self._do("clear the filter", self._filters())
        self._stalls.stop()
        return self._doings

    async def _do(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(0.2)
        self._stalls.reset()
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(PATIENCE):
            await work()
        took = loop.time() - began
        await asyncio.sleep(0.3)  # what it left behind is its own too
        self._doings.append(Doing(name, round(took * 1e3, 1), round(self._stalls.longest, 1)))

    def _opens(self, name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            self._window.show_view(name)
            view = self._window.current
            await _until(lambda: view.is_shown_as_table or view.is_empty)
            await _until(self._is_here)

        return work

    def _scrolls(self, part: float) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            if self._window.current.definition.name != "signals":
                self._window.show_view("signals")
                await _until(self._is_here)
            bar = self._window.current.table.verticalScrollBar()
            bar.setValue(round(bar.maximum() * part))
            await _until(self._is_here)

        return work

    async def _pages(self) -> None:
        bar = self._window.current.table.verticalScrollBar()
        for _ in range(40):
            bar.setValue(bar.value() + bar.pageStep())
            await asyncio.sleep(0.02)
        await _until(self._is_here)

    async def _story(self) -> None:
        table = self._window.current.table
        table.choose(table.rowAt(20))
        wanted = table.current_line
        assert wanted is not None
        await _until(lambda: (page := self._window.detail.page) is not None and page.id == wanted.id)

    def _filters(self, **what: object) -> Callable[[], Awaitable[None]]:
        from app.gui.filters import Filter

        async def work() -> None:
            view = self._window.current
            looked = asyncio.Event()
            connection = view.feed.refreshed.connect(looked.set)
            view.set_filter(Filter(**what))  # type: ignore[arg-type]
            plain = not what
            await _until(lambda: looked.is_set() and (view.feed.numbers is None) is plain and self._is_here())
            view.feed.refreshed.disconnect(connection)

        return work

    def _is_here(self) -> bool:
        """The rows that can be seen are not placeholders."""
        view = self._window.current
        if not view.is_shown_as_table:
            return view.is_empty or view.nothing.isVisible()
        table = view.table
        first, last = max(0, table.rowAt(0)), table.rowAt(table.viewport().height() - 1)
        last = view.model.rowCount() - 1 if last < 0 else last
        return all(view.model.line(row) is not None for row in range(first, last + 1))


async def _until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110 - a state of many widgets, not one event
        await asyncio.sleep(0.005)


# ------------------------------------------------------------------------------------- the command


def markdown(found: Found) -> str:
    lines = [
        f"The window over {found.claims:,} signals, {RATE:.0f} alerts a second coming in:",
        "",
        "| doing | there after | longest wait of the loop |",
        "|---|---:|---:|",
        *(f"| {doing.name} | {doing.took:,.0f} ms | {doing.stall:.0f} ms |" for doing in found.doings),
        "",
        f"Longest wait: {found.stall:.0f} ms (aim: under {LIMIT_MS:.0f}).",
        f"Answers while nobody touches the window: {_answers(found.idle)}.",
        f"Answers while all this is done to it: {_answers(found.busy)} (aim: p99 under {LIMIT_MS:.0f}).",
    ]
    return "\n".join(lines)


def _answers(results: list[Result]) -> str:
    """Medians over two seconds each, and the worst."""
    p50, p99 = (statistics.median(getattr(result, name) for result in results) for name in ("p50", "p99"))
    longest = max(result.longest for result in results)
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest of all {longest:.0f} ms"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.million", description=__doc__)
    parser.add_argument("--claims", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the ledger is written: on a real disk, 2 GB")
    parser.add_argument("--window", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.window is not None:
        run_window(options.window)
        return 0
    with tempfile.TemporaryDirectory(prefix="onefill-million-", dir=options.folder) as folder:
        print(markdown(measure(Path(folder), options.claims)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
