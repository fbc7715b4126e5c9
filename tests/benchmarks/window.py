"""What a busy window does to an answer: the whole program with its Signals view shown, 50 alerts a second.

Beside it, in turns, the whole program without a window on plain asyncio, at the same rate. Each turn begins
when the orders of the one before are over.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from pathlib import Path

import msgspec

from app.ledger.orders import OPEN
from app.ledger.reader import open_read_only, read
from app.ledger.store import FILE_NAME
from tests.benchmarks.plan import Plan
from tests.benchmarks.processes import Load, Receiver, started
from tests.benchmarks.seeding import fill

RATE = 50.0
CONNECTIONS = 16
"""Enough that a late answer does not hold the next alert back."""
PATIENCE = 120.0


class Busy(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Milliseconds; `refreshed` and `painted` a second."""

    p50: float
    p99: float
    longest: float
    settled: float
    """Seconds from the last answer until the last order was over."""
    stall: float
    stall_p99: float
    cpu: float
    """Processor seconds a second."""
    refreshed: float
    painted: float
    rows: int


class Windowed(msgspec.Struct, frozen=True, kw_only=True):
    window: list[Busy]
    without: list[Busy]
    filled: float
    """Of the alerts that the window's program took, the part that became a filled paper order."""

    def median(self, which: str, of: str) -> float:
        return float(statistics.median(getattr(busy, of) for busy in getattr(self, which)))

    def worst(self, which: str, of: str) -> float:
        return float(max(getattr(busy, of) for busy in getattr(self, which)))


def measure(plan: Plan) -> Windowed:
    homes = {name: plan.folder / name for name in ("window", "without")}
    for home in homes.values():
        fill(home, plan.window_rows)
    load = Load()
    window = Receiver("window", "qasync", homes["window"])
    without = Receiver("whole", "asyncio", homes["without"])
    runs: dict[str, list[Busy]] = {"window": [], "without": []}
    with started(load, window, without):
        for number in range(plan.window_rounds):
            for name, receiver in (("window", window), ("without", without)):
                runs[name].append(_busy(plan, load, receiver, homes[name], number))
    found = Windowed(**runs, filled=_filled(homes["window"], plan.window_rows))
    _check_busy(found)
    return found


def _busy(plan: Plan, load: Load, receiver: Receiver, home: Path, number: int) -> Busy:
    what = {"connections": CONNECTIONS, "rate": RATE, "seed": number}
    load.run(receiver.job(seconds=1.0, **what))
    receiver.reset()
    result = load.run(receiver.job(seconds=plan.window_seconds, **what))
    stats = receiver.stats()
    settled = _settle(home)
    return Busy(
        p50=result.p50,
        p99=result.p99,
        longest=result.longest,
        settled=settled,
        stall=stats.stall_ms,
        stall_p99=stats.stall_p99_ms,
        cpu=stats.cpu["all"] / plan.window_seconds,
        refreshed=stats.refreshed / plan.window_seconds,
        painted=stats.painted / plan.window_seconds,
        rows=stats.rows,
    )


def _settle(home: Path) -> float:
    """Waits until no order is open and returns the seconds."""
    began = time.monotonic()
    with contextlib.closing(open_read_only(home / FILE_NAME)) as connection:
        while True:
            counted = read(connection, f"SELECT count(*) AS n FROM orders WHERE {OPEN}")
            waited = time.monotonic() - began
            if counted[0]["n"] == 0:
                return waited
            if waited > PATIENCE:
                raise SystemExit(f"{counted[0]['n']} orders were still open after {PATIENCE:.0f} s")
            time.sleep(0.05)


def _filled(home: Path, seeded: int) -> float:
    with contextlib.closing(open_read_only(home / FILE_NAME)) as connection:
        counted = read(
            connection,
            "SELECT (SELECT count(*) FROM claims WHERE id > ?1) AS claims, "
            "(SELECT count(DISTINCT order_id) FROM fills) AS filled",
            (seeded,),
        )[0]
    return float(counted["filled"] / counted["claims"])


def _check_busy(found: Windowed) -> None:
    """A window that does not paint, or lanes that place nothing, would make every figure good."""
    for busy in found.window:
        if busy.painted < 1 or busy.refreshed < 1 or busy.rows == 0:
            raise SystemExit(f"the window was not busy, so nothing was measured: {busy}")
    if found.filled < 0.5:
        raise SystemExit(f"only {found.filled:.0%} of the alerts became filled orders: the lanes were idle")
