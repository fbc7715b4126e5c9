"""Start, load, kill at a random moment, look, again; at the end: start, send again, settle, stop, look.

`python -m tests.crash.kill_loop.loop HOME --kills 100 --seed 7` runs it on a new home by itself.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from app.secrets import Secrets
from tests.crash.check import violations
from tests.crash.kill_loop.senders import Senders
from tests.crash.launched import Launched
from tests.crash.program import Program, until

CONFIG = """
[[accounts]]
name = "paper"
broker = "paper"
cash = "1000000000"

[risk]
max_orders_per_minute = 0
position_divisor = 1
"""
SENDERS = 4
LONGEST_LOAD = 0.6
"""Seconds; a kill falls anywhere in it."""
KILLS_WHILE_STARTING = 0.15
ON_THE_WAY = "SELECT 1 FROM orders WHERE state IN ('PENDING', 'SUBMITTING', 'AMBIGUOUS', 'WORKING') LIMIT 1"


@dataclass
class Loop:
    """`found` is what the checker said, after each kill and at the end; `kills` how many there were."""

    home: Path
    seed: int
    variant: str = ""
    built: Path | None = None
    kills: int = 0
    found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.senders = Senders(self.seed, self.home.parent / f"{self.home.name}.acks.jsonl")
        self._rng = random.Random(self.seed)

    def run(self, kills: int) -> None:
        """Ends early when the checker has found something."""
        with Launched(self.home, variant=self.variant, built=self.built) as program:
            program.write_config(CONFIG)
            while self.kills < kills and not self.found:
                if self._rng.random() < KILLS_WHILE_STARTING:
                    program.launch()
                    self._kill(program, self._rng.uniform(0.0, 0.7))
                    self._look(in_flight=True)
                program.start()
                self._kill_under_load(program)
                self._look(in_flight=True)
            if not self.found:
                self._finish(program)

    def _kill_under_load(self, program: Program) -> None:
        stop = threading.Event()
        hook = self._hook()
        with ThreadPoolExecutor(SENDERS) as pool:
            seeds = [self._rng.getrandbits(32) for _ in range(SENDERS)]
            for seed in seeds:
                pool.submit(
                    self.senders.send_until_dead, program.port, hook, random.Random(seed), stop
                ).add_done_callback(lambda future: future.result())
            self._kill(program, self._rng.uniform(0.02, LONGEST_LOAD))
            stop.set()

    def _kill(self, program: Program, after: float) -> None:
        assert program.process is not None
        time.sleep(after)
        program.process.kill()
        program.process.wait(20)
        self.kills += 1

    def _finish(self, program: Program) -> None:
        program.start()
        self.senders.send_again(program.port, self._hook())
        until(lambda: not program.rows(ON_THE_WAY), "the orders to settle", patience=60)
        program.end()
        assert program.process is not None
        assert program.process.returncode == 0
        self._look(in_flight=False)

    def _look(self, *, in_flight: bool) -> None:
        if (self.home / "paper.sqlite3").exists():
            self.found += violations(self.home, self.senders.acks, in_flight)
        self.found += self.senders.surprises

    def _hook(self) -> str:
        token = Secrets(self.home, {}, keyring=None).find("source.tradingview.token").value
        return f"/hook/tradingview/{token}"


def main() -> int:
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variant", default="", help="a name of tests/crash/variants.py")
    arguments = parser.parse_args()
    arguments.home.absolute().parent.mkdir(parents=True, exist_ok=True)
    loop = Loop(arguments.home.absolute(), arguments.seed, arguments.variant)
    loop.run(arguments.kills)
    answered = {ack["key"] for ack in loop.senders.acks if ack["status"] == 200}
    unknown = sum(ack["status"] == 0 for ack in loop.senders.acks)
    print(f"{loop.kills} kills, {len(answered)} keys answered 200, {unknown} requests without an answer")
    print("\n".join(loop.found) or "S2 to S5 hold")
    return bool(loop.found)


if __name__ == "__main__":
    sys.exit(main())
