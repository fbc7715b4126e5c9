"""`python -m tests.benchmarks.ceiling`: what no work on the door could pass, beside a bare handler.

For whoever doubts that an aim is out of reach: receivers with parts left out (stubs.py), loaded in turns with
64 connections. Takes about a minute; a busy machine falsifies it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks import hot
from tests.benchmarks.plan import Plan
from tests.benchmarks.processes import Load, Receiver, started

NAMES = {
    "bare": "bare POST: read JSON, answer JSON",
    "grouped": "the same, one row a request committed in groups on a thread",
    "without-reading": "the door without ledger and without reading the alert: HTTP, token, answer",
    "without-ledger": "the door without ledger: all but the claim",
    "door": "the door",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.ceiling", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--loop", choices=hot.LOOPS, default="asyncio")
    parser.add_argument("--folder", type=Path, help="where the ledgers are written: on a real disk")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onefill-ceiling-", dir=options.folder) as folder:
        plan = Plan(Path(folder), rounds=options.rounds, seconds=options.seconds)
        samples = measure(plan, options.loop)
    for line in table(samples):
        print(line)


def measure(plan: Plan, loop: str) -> dict[str, list[hot.Sample]]:
    load = Load()
    receivers = {kind: Receiver(kind, loop, plan.folder / kind) for kind in NAMES}
    samples: dict[str, list[hot.Sample]] = {kind: [] for kind in NAMES}
    with started(load, *receivers.values()):
        for receiver in receivers.values():
            _ = receiver.where
        for number in range(plan.rounds):
            for kind in list(NAMES)[:: -1 if number % 2 else 1]:
                samples[kind].append(hot.sample(plan, load, receivers[kind], connections=64))
    return samples


def table(samples: dict[str, list[hot.Sample]]) -> list[str]:
    """Ratios of rates are taken within each round. That of processor time is what the rate would come to if
    nobody waited for disk, sender or the other thread; it suffers less from a busy machine."""
    lines = ["| receiver | acks/s | to bare | CPU an ack | bare's CPU to it |", "|---|---|---|---|---|"]
    for kind, found in samples.items():
        rate = statistics.median(sample.per_second for sample in found)
        pairs = zip(found, samples["bare"], strict=True)
        part = statistics.median(sample.per_second / bare.per_second for sample, bare in pairs)
        cpu = statistics.median(sample.cpu_us["all"] for sample in found)
        bare_cpu = statistics.median(sample.cpu_us["all"] for sample in samples["bare"])
        lines.append(f"| {NAMES[kind]} | {rate:.0f} | {part:.2f} x | {cpu:.0f} µs | {bare_cpu / cpu:.2f} x |")
    return lines


if __name__ == "__main__":
    main()
