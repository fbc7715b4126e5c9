"""The figures as Markdown, each aim with its word, and for a missed one what the time went into."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import apsw
import msgspec

from tests.benchmarks.costs import Cost
from tests.benchmarks.hot import KINDS, LOOPS, HotPath
from tests.benchmarks.pinning import can_pin
from tests.benchmarks.profiling import Spent
from tests.benchmarks.purge import Batches, Purge
from tests.benchmarks.start import Starts
from tests.benchmarks.window import RATE, Windowed

NAMES = {"bare": "bare POST", "commit": "bare POST + one row, WAL FULL", "door": "Onefill: door + ledger"}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    python: str
    sqlite: str
    aiohttp: str
    qt: str
    system: str
    cores: int
    pinned: bool
    sync_ms: float
    """Median of 100 appends of 4 KiB with fdatasync, on the disk of the ledgers."""


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes."""

    quick: bool
    machine: Machine
    hot: HotPath
    window: Windowed
    purge: Purge
    starts: Starts
    costs: list[Cost]


class Aim(msgspec.Struct, frozen=True):
    what: str
    measured: str
    aim: str
    met: bool


def machine(folder: Path) -> Machine:
    import PySide6

    return Machine(
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlite=apsw.sqlite_lib_version(),
        aiohttp=aiohttp.__version__,
        qt=PySide6.__version__,
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        pinned=can_pin(),
        sync_ms=_sync_ms(folder),
    )


def _sync_ms(folder: Path) -> float:
    sync = getattr(os, "fdatasync", os.fsync)
    times = []
    with (folder / "syncs").open("wb", buffering=0) as file:
        for _ in range(100):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            sync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def aims(found: Everything) -> list[Aim]:
    hot, window = found.hot, found.window
    rows = []
    for loop, most in (("asyncio", 1.5), ("qasync", 1.8)):
        slower = hot.ratio("p50", loop, ("door", "commit"), 1)
        part = hot.ratio("per_second", loop, ("door", "bare"), 64)
        rows.append(
            Aim(
                f"{loop}: ack p50, 1 connection, to bare POST + one WAL FULL commit",
                f"{slower:.2f} x",
                f"<= {most} x",
                slower <= most,
            )
        )
        rows.append(
            Aim(
                f"{loop}: durable acks a second, 64 connections, to bare POST",
                f"{part:.2f} x",
                ">= 0.65 x",
                part >= 0.65,
            )
        )
        syncs = hot.syncs_per_ack(loop)
        rows.append(
            Aim(f"{loop}: syncs an ack, 64 connections", f"1/{1 / syncs:.1f}", "<= 1/16", syncs <= 1 / 16)
        )
    p99 = window.median("window", "p99")
    rows.append(
        Aim(f"ack p99, window busy, {RATE:.0f} alerts a second", f"{p99:.0f} ms", "<= 100 ms", p99 <= 100)
    )
    batch = max(found.purge.bodies.p50, found.purge.keys.p50)
    rows.append(Aim("purge: one batch holds the ledger", f"{batch:.1f} ms", "<= 5 ms", batch <= 5))
    return rows


def markdown(found: Everything) -> str:
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Everything) -> Iterator[str]:
    m = found.machine
    pinned = "receiver and sender each on a core of their own" if m.pinned else "nothing pinned"
    yield (
        f"{m.python}, SQLite {m.sqlite}, aiohttp {m.aiohttp}, PySide6 {m.qt}, {m.system}, {m.cores} cores, "
        f"{pinned}, a 4 KiB append with sync takes {m.sync_ms:.2f} ms."
    )
    if m.sync_ms < 0.02:
        yield "**That is no disk: syncs cost nothing here, and every figure with one is too good.**"
    if found.quick:
        yield "**Quick run: one short round. It shows that the command works; its figures mean nothing.**"
    yield ""
    yield from _table(
        ("figure", "measured", "aim", ""),
        ((aim.what, aim.measured, aim.aim, "met" if aim.met else "**missed**") for aim in aims(found)),
    )
    yield from _hot(found.hot)
    yield from _rest(found)
    yield from _costs(found.costs)
    yield from _causes(found)


def _hot(hot: HotPath) -> Iterator[str]:
    rounds = len(hot.runs[0].samples)
    yield f"Side by side, rounds in turns: {rounds}; medians; processor time is that of one answer:"
    yield ""
    rows = []
    for loop in LOOPS:
        for kind in KINDS:
            one, many = hot.run(loop, kind, 1), hot.run(loop, kind, 64)
            cpu = many.cpu_us
            parts = f" (loop {cpu['loop']:.0f}, writer {cpu['writer']:.0f})" if "writer" in cpu else ""
            rows.append(
                (
                    loop,
                    NAMES[kind],
                    f"{one.median('p50'):.2f} / {one.median('p99'):.1f} ms",
                    f"{many.median('p50'):.1f} / {many.median('p99'):.0f} ms",
                    f"{many.median('per_second'):.0f}",
                    f"{cpu['all']:.0f} µs{parts}",
                )
            )
    head = ("loop", "receiver", "ack p50 / p99, 1 conn.", "ack p50 / p99, 64 conn.", "acks/s, 64", "CPU, 64")
    yield from _table(head, rows)
    s = hot.syncs
    yield (
        "Syncs an ack: the door's commits an ack, times syncs a commit. These were counted by a VFS below "
        f"SQLite during {s.acks} acks at 64 connections: {s.wal} of the log and {s.main} of the main file "
        f"(checkpoints) for {s.commits} commits."
    )
    yield ""


def _rest(found: Everything) -> Iterator[str]:
    w, s, p = found.window, found.starts, found.purge
    yield (
        f"The whole program, {RATE:.0f} alerts a second at random moments, {w.filled:.0%} of them filled on "
        f"paper, {w.window[-1].rows} rows in the view, {len(w.window)} runs:"
    )
    yield ""
    head = (
        "",
        "ack p50 / p99",
        "longest ack",
        "loop stall p99",
        "longest stall, median / worst",
        "orders over after",
        "cores busy",
    )
    names = (("window, Signals view shown (qasync)", "window"), ("no window (asyncio)", "without"))
    yield from _table((*head, "repaints/s"), (_busy(w, name, which) for name, which in names))
    long = f"{s.claims} claims ({s.megabytes:.0f} MB)"
    yield from _table(
        ("cold start", "empty ledger", long, "of it the integrity check"),
        (
            ("ledger in memory", *(_seconds(s.median(of)) for of in ("empty", "long", "check"))),
            ("ledger on disk only", "", *(_seconds(s.median(of)) for of in ("from_disk", "check_from_disk"))),
        ),
    )
    kinds = (("bodies", p.bodies), ("keys", p.keys), ("one row, beside it", p.one_row))
    yield from _table(
        ("purge", "batches", "p50", "p99", "longest", "writer's CPU"),
        (_batches(name, batches) for name, batches in kinds),
    )


def _busy(w: Windowed, name: str, which: str) -> tuple[str, ...]:
    return (
        name,
        f"{w.median(which, 'p50'):.1f} / {w.median(which, 'p99'):.0f} ms",
        f"{w.worst(which, 'longest'):.0f} ms",
        f"{w.median(which, 'stall_p99'):.1f} ms",
        f"{w.median(which, 'stall'):.0f} / {w.worst(which, 'stall'):.0f} ms",
        f"{w.median(which, 'settled'):.1f} s",
        f"{w.median(which, 'cpu'):.2f}",
        f"{w.median(which, 'painted'):.1f}",
    )


def _seconds(value: float | None) -> str:
    return "not measurable here" if value is None else f"{value:.2f} s"


def _batches(name: str, b: Batches) -> tuple[str, ...]:
    return (
        name,
        f"{b.count} of {b.rows / b.count:.0f}",
        f"{b.p50:.1f} ms",
        f"{b.p99:.1f} ms",
        f"{b.longest:.1f} ms",
        f"{b.cpu:.2f} ms",
    )


def _costs(costs: Sequence[Cost]) -> Iterator[str]:
    yield "What each step costs alone (processor time on its thread, medians):"
    yield ""
    yield from _table(("step", "thread", "µs"), ((c.step, c.where, f"{c.us:.1f}") for c in costs))


def _causes(found: Everything) -> Iterator[str]:
    missed = [aim for aim in aims(found) if not aim.met]
    if not missed:
        return
    yield "Missed, and the likely cause:"
    yield ""
    for aim in missed:
        yield f"- {aim.what}: {aim.measured}. {_cause(found, aim)}".rstrip()
    yield ""
    for loop in LOOPS:
        if any(aim.what.startswith(f"{loop}:") for aim in missed):
            yield f"What the door's processor time goes into, {loop}: {_dearest(found.hot.spent[loop])}."
            yield ""


def _cause(found: Everything, aim: Aim) -> str:
    hot, w = found.hot, found.window
    loop = next((loop for loop in LOOPS if aim.what.startswith(f"{loop}:")), None)
    if loop is not None and "syncs" in aim.what:
        return f"The writer takes what has come when it begins: {_acks(hot, loop):.0f} acks a commit of 64."
    if loop is not None:
        connections, beside = (64, "bare") if "64" in aim.what else (1, "commit")
        door, other = (hot.run(loop, kind, connections).cpu_us for kind in ("door", beside))
        return (
            f"A delivery takes {door['all']:.0f} µs of a core (loop {door['loop']:.0f}, writer "
            f"{door['writer']:.0f}), {NAMES[beside]} {other['all']:.0f} µs, and the interpreter does one "
            "thing at a time."
        )
    if "window" in aim.what:
        return (
            f"Without a window {w.median('without', 'p99'):.0f} ms; the longest stall of the loop was "
            f"{w.median('window', 'stall'):.0f} ms, and {w.median('window', 'cpu'):.2f} cores were busy."
        )
    return ""


def _acks(hot: HotPath, loop: str) -> float:
    """A commit."""
    return 1 / hot.run(loop, "door", 64).median("commits")


def _dearest(spent: Sequence[Spent], count: int = 12) -> str:
    return ", ".join(f"{s.module} {s.part:.0%}" + f" ({s.thread})" for s in spent[:count])


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""
