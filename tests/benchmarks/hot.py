"""The hot path: the real door and ledger beside a bare handler, and beside one that commits one row.

The compared receivers are loaded in turns, and a ratio is taken within each round, so that what else the
machine does in the meantime hits both of its sides.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from tests.benchmarks.plan import Plan
from tests.benchmarks.processes import Load, Receiver, Stats, started
from tests.benchmarks.profiling import Spent

LOOPS = ("asyncio", "qasync")
KINDS = ("bare", "commit", "door")
CONNECTIONS = (1, 64)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One run against one receiver. Milliseconds; processor time in microseconds an answer."""

    p50: float
    p99: float
    per_second: float
    cpu_us: dict[str, float]
    commits: float
    """An answer."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All rounds of one receiver at one number of connections."""

    loop: str
    kind: str
    connections: int
    samples: list[Sample]

    def median(self, of: str) -> float:
        return float(statistics.median(getattr(sample, of) for sample in self.samples))

    @property
    def cpu_us(self) -> dict[str, float]:
        names = self.samples[0].cpu_us
        return {name: statistics.median(sample.cpu_us[name] for sample in self.samples) for name in names}


class Syncs(msgspec.Struct, frozen=True, kw_only=True):
    """At 64 connections on plain asyncio: each sync that SQLite asked the system for, counted by a VFS.

    The VFS is written in Python and slows the writer down, so only syncs a commit are taken from here.
    """

    acks: int
    wal: int
    main: int
    commits: int

    @property
    def per_commit(self) -> float:
        """More than one: checkpoints sync log and main file, a log begun anew its header."""
        return (self.wal + self.main) / self.commits


class HotPath(msgspec.Struct, frozen=True, kw_only=True):
    runs: list[Run]
    syncs: Syncs
    spent: dict[str, list[Spent]]
    """By loop: what the door spends its processor time in at 64 connections, the dearest first."""

    def run(self, loop: str, kind: str, connections: int) -> Run:
        return next(r for r in self.runs if (r.loop, r.kind, r.connections) == (loop, kind, connections))

    def syncs_per_ack(self, loop: str) -> float:
        return self.run(loop, "door", 64).median("commits") * self.syncs.per_commit

    def ratio(self, of: str, loop: str, kinds: tuple[str, str], connections: int) -> float:
        """The median, over the rounds, of one receiver's figure divided by the other's."""
        one, other = (self.run(loop, kind, connections).samples for kind in kinds)
        ratios = (getattr(a, of) / getattr(b, of) for a, b in zip(one, other, strict=True))
        return float(statistics.median(ratios))


def measure(plan: Plan) -> HotPath:
    load = Load()
    receivers = {
        (loop, kind): Receiver(kind, loop, plan.folder / f"{kind}-{loop}") for loop in LOOPS for kind in KINDS
    }
    counted = Receiver("counted", "asyncio", plan.folder / "counted")
    with started(load, counted, *receivers.values()):
        for receiver in (counted, *receivers.values()):
            _ = receiver.where
        runs = _in_turns(plan, load, receivers)
        syncs = _count_syncs(plan, load, counted)
        spent = {loop: _dearest(plan, load, receivers[loop, "door"]) for loop in LOOPS}
    return HotPath(runs=runs, syncs=syncs, spent=spent)


def _in_turns(plan: Plan, load: Load, receivers: dict[tuple[str, str], Receiver]) -> list[Run]:
    runs = {
        (loop, kind, connections): Run(loop=loop, kind=kind, connections=connections, samples=[])
        for loop, kind in receivers
        for connections in CONNECTIONS
    }
    for number in range(plan.rounds):
        for connections in CONNECTIONS:
            for loop, kind in _order(list(receivers), number):
                taken = sample(plan, load, receivers[loop, kind], connections)
                runs[loop, kind, connections].samples.append(taken)
    return list(runs.values())


def _order(names: Sequence[tuple[str, str]], number: int) -> Sequence[tuple[str, str]]:
    """Forwards and backwards in turn, so that nobody always comes after the same neighbour."""
    return names if number % 2 == 0 else names[::-1]


def sample(plan: Plan, load: Load, receiver: Receiver, connections: int) -> Sample:
    receiver.reset()
    result = load.run(receiver.job(connections=connections, seconds=plan.seconds, warm_up=plan.warm_up))
    stats: Stats = receiver.stats()
    return Sample(
        p50=result.p50,
        p99=result.p99,
        per_second=result.per_second,
        cpu_us={name: seconds * 1e6 / result.total for name, seconds in stats.cpu.items()},
        commits=stats.commits / result.total,
    )


def _count_syncs(plan: Plan, load: Load, receiver: Receiver) -> Syncs:
    seconds = max(1.0, plan.seconds)
    load.run(receiver.job(connections=64, seconds=plan.warm_up))
    receiver.reset()
    result = load.run(receiver.job(connections=64, seconds=seconds))
    stats = receiver.stats()
    return Syncs(
        acks=result.total,
        wal=stats.syncs.get("wal", 0),
        main=stats.syncs.get("main", 0),
        commits=stats.commits,
    )


def _dearest(plan: Plan, load: Load, receiver: Receiver) -> list[Spent]:
    return receiver.profiled(load, connections=64, seconds=max(0.5, plan.seconds))
