"""How long one batch of the purge holds the ledger, for so long a delivery waits: aim 5 ms."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.clock import SECOND, SystemClock
from app.ledger import retention
from app.ledger.entry import Entry
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from tests.benchmarks.homes import open_prepared
from tests.benchmarks.plan import Plan
from tests.benchmarks.seeding import fill


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    """Transactions, from BEGIN to the end of COMMIT. Milliseconds; `cpu` is the writer thread's own time."""

    count: int
    rows: int
    p50: float
    p99: float
    longest: float
    cpu: float


class Purge(msgspec.Struct, frozen=True, kw_only=True):
    bodies: Batches
    keys: Batches
    one_row: Batches
    """Beside them: a transaction that writes one row."""


def measure(plan: Plan) -> Purge:
    home = plan.folder / "purge"
    fill(home, plan.purged, bodies=1.0)
    return asyncio.run(_measure(home, plan.purged))


async def _measure(home: Path, rows: int) -> Purge:
    clock = SystemClock()
    opened = await asyncio.to_thread(open_prepared, home)
    writer = Writer(opened.connection, clock, _fatal)
    reader = Reader(home / FILE_NAME)
    watch = _Watch(writer)
    try:
        found = {}
        before = clock.now() - 86_400 * SECOND
        for kind in ("bodies", "keys"):
            cutoffs = retention.Cutoffs(
                bodies=before if kind == "bodies" else None,
                keys=before if kind == "keys" else None,
                ghosts=before,
            )
            plan = await retention.measure(reader, cutoffs)
            watch.reset()
            purged = await retention.purge(
                writer, reader, plan, cutoffs, at=clock.now(), actor="benchmark", why="measured"
            )
            if getattr(purged, kind) != rows:
                raise SystemExit(f"{rows} {kind} were to be purged, and {purged} were")
            # The first one says what is about to go and purges nothing.
            found[kind] = watch.batches(rows, skip=1)
        watch.reset()
        for number in range(100):
            await writer.run(_one_row(number))
        found["one_row"] = watch.batches(100)
    finally:
        await reader.close()
        await writer.close()
        opened.lock.release()
    return Purge(bodies=found["bodies"], keys=found["keys"], one_row=found["one_row"])


def _fatal(why: str) -> None:
    raise SystemExit(why)


def _one_row(number: int) -> Callable[[Transaction], None]:
    return lambda tx: tx.set_meta("benchmark", str(number))


class _Watch:
    """Times what the writer's thread does with each batch of operations."""

    def __init__(self, writer: Writer) -> None:
        self._times: list[tuple[float, float]] = []
        run = writer._committer.run

        def timed(batch: list[Entry]) -> list[Entry]:
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return run(batch)
            finally:
                self._times.append(((time.perf_counter() - wall) * 1e3, (time.thread_time() - cpu) * 1e3))

        writer._committer.run = timed  # type: ignore[method-assign]

    def reset(self) -> None:
        self._times = []

    def batches(self, rows: int, skip: int = 0) -> Batches:
        times = self._times[skip:]
        wall = sorted(wall for wall, _ in times)
        return Batches(
            count=len(times),
            rows=rows,
            p50=statistics.median(wall),
            p99=wall[min(len(wall) - 1, int(len(wall) * 0.99))],
            longest=wall[-1],
            cpu=statistics.median(cpu for _, cpu in times),
        )
