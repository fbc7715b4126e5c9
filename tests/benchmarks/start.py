"""Cold start: from the start of the process to the line that says that the door is open.

With a long ledger and, in turns, with an empty one. The check of the ledger's soundness, which a start waits
for, is timed by itself on the same file.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from app.ledger import store
from tests.benchmarks.homes import make_home
from tests.benchmarks.plan import Plan
from tests.benchmarks.processes import PATIENCE, ROOT, environment
from tests.benchmarks.seeding import fill


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. `from_disk`: nothing of the file in memory, as after the machine's own start; None where it
    cannot be taken out of memory."""

    claims: int
    megabytes: float
    empty: list[float]
    long: list[float]
    check: list[float]
    from_disk: list[float]
    check_from_disk: list[float]

    def median(self, of: str) -> float | None:
        values = getattr(self, of)
        return statistics.median(values) if values else None


def measure(plan: Plan) -> Starts:
    empty, long = plan.folder / "start-empty", plan.folder / "start-long"
    make_home(empty)
    fill(long, plan.claims)
    # What the first start after a long time does once (recovery, its mark) is not what every start does.
    for home in (empty, long):
        _start(home)
    path = long / store.FILE_NAME
    found = Starts(
        claims=plan.claims,
        megabytes=path.stat().st_size / 1e6,
        empty=[],
        long=[],
        check=[],
        from_disk=[],
        check_from_disk=[],
    )
    for _ in range(plan.starts):
        found.empty.append(_start(empty))
        found.check.append(_check(path))
        found.long.append(_start(long))
        if _forget(path):
            found.check_from_disk.append(_check(path))
            _forget(path)
            found.from_disk.append(_start(long))
    return found


def _start(home: Path) -> float:
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "app", "serve", "--home", str(home), "--port", "0"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        took = time.perf_counter() - began
        if not line.startswith("onefill ready "):
            raise SystemExit(f"the program did not start: {line!r}")
        return took
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def _check(path: Path) -> float:
    """What `open_ledger` does to a ledger that is there, before it writes to it."""
    began = time.perf_counter()
    store._inspect(path, None, None)
    return time.perf_counter() - began


def _forget(path: Path) -> bool:
    """Takes the file out of the system's memory; False where the system offers no such call."""
    if not hasattr(os, "posix_fadvise"):
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    return True
