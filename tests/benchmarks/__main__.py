"""`python -m tests.benchmarks`: measures everything and prints it as Markdown.

`--quick` takes half a minute and shows that the command works; the whole run takes some ten minutes and wants
a machine that does nothing else. Needs about 3 GB in `--folder`, which must be on a real disk.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.benchmarks import costs, hot, purge, report, start, window
from tests.benchmarks.plan import Plan, quick

T = TypeVar("T")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all samples there as well")
    parser.add_argument("--folder", type=Path, help="where the ledgers are written: on a real disk")
    parser.add_argument("--rounds", type=int, help="of the side by side comparison")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="onefill-benchmarks-", dir=options.folder) as folder:
        plan = quick(Path(folder)) if options.quick else Plan(Path(folder))
        if options.rounds:
            plan = replace(plan, rounds=options.rounds)
        found = measure(plan, is_quick=options.quick)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1))
    print(report.markdown(found))
    return 0


def measure(plan: Plan, *, is_quick: bool) -> report.Everything:
    return report.Everything(
        quick=is_quick,
        machine=report.machine(plan.folder),
        costs=_said("what each step costs", lambda: costs.measure(rounds=plan.cost_rounds)),
        hot=_said("door and ledger beside bare handlers", lambda: hot.measure(plan)),
        window=_said("the busy window", lambda: window.measure(plan)),
        purge=_said("the purge", lambda: purge.measure(plan)),
        starts=_said("cold starts", lambda: start.measure(plan)),
    )


def _said(what: str, work: Callable[[], T]) -> T:
    print(f"measuring {what} ...", end=" ", file=sys.stderr, flush=True)
    began = time.monotonic()
    found = work()
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
