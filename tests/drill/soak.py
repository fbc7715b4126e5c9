"""Random signals, repeats, faults of every kind and kills; then quiet, and the judge. By command, any length:

`python -m tests.drill.soak --minutes 5 --seed 7 [--class B] [--variant NAME] [--keep DIR]`

The judge reads the exchange's book and the ledger's views, nothing else. Exit code 1 where it found anything.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.clock import SECOND
from app.drill.book import Book
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import IdClass, Rules
from tests.drill.program import SPEED, Trial, trial

SYMBOLS = {f"SYM{letter}": str(20 + 7 * number) for number, letter in enumerate("ABCDEFGH")}
LOST = [Reply.RESET, Reply.CLOSED, Reply.TRUNCATED, Reply.HTML, Reply.EMPTY, Reply.REDIRECT, Reply.NAMELESS]
LOOKS = ["find", "orders", "fills", "positions", "account", "clock", "trade", "cancel"]
QUIET = 60.0
"""Wall seconds that all of it has to come to its end once nothing goes wrong any more."""


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def line(self) -> str:
        return ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items()))


class Soak:
    def __init__(self, t: Trial, seed: int) -> None:
        self.t = t
        self.random = random.Random(seed)
        self.tally = Tally()
        self.bodies: list[dict[str, Any]] = []
        self.faults: list[Fault] = []
        self.running = asyncio.Lock()
        """Held while the program is being killed and started: nobody posts to a port of before."""

    async def run(self, seconds: float) -> Tally:
        for symbol, price in SYMBOLS.items():
            await self.t.exchange.ask(Book.add_asset, symbol, price)
        await self.t.start()
        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for work in (
                self._send(until),
                self._send(until),
                self._harm(until),
                self._kill(until),
                self._fill(until),
            ):
                group.create_task(work)
        await self._calm_down()
        await self._count()
        return self.tally

    async def _send(self, until: float) -> None:
        while time.monotonic() < until:
            if self.bodies and self.random.random() < 0.3:
                body = self.random.choice(self.bodies[-20:])
            else:
                body = self._signal()
                self.bodies.append(body)
            async with self.running:
                answer = await self.t.post(**body)
            self.tally.counts[f"answers {answer.status or 'lost'}"] += 1
            await asyncio.sleep(self.random.uniform(0.02, 0.25))

    def _signal(self) -> dict[str, Any]:
        symbol = self.random.choice(list(SYMBOLS))
        body: dict[str, Any] = {"key": f"{len(self.bodies):06d}", "symbol": symbol, "price": SYMBOLS[symbol]}
        kind = self.random.choices(["buy", "limit", "exit", "cancel"], [5, 2, 4, 1])[0]
        if kind in ("exit", "cancel"):
            return {**body, "action": kind, "quantity": None}
        body["quantity"] = self.random.randint(1, 5)
        return body if kind == "buy" else {**body, "type": "limit", "limit_price": SYMBOLS[symbol]}

    async def _harm(self, until: float) -> None:
        plan, rules = self.t.exchange.plan, self.t.exchange.rules
        while time.monotonic() < until:
            await asyncio.sleep(self.random.uniform(0.1, 0.5))
            plan.faults[:] = [
                fault for fault in plan.faults if fault.times is None or fault.hits < fault.times
            ]
            match self.random.randrange(6):
                case 0 | 1 | 2 if len(plan.faults) < 6:
                    self._add(self._fault_of_an_order())
                case 3 | 4 if len(plan.faults) < 6:
                    self._add(self._fault_of_a_look())
                case 5:
                    lag = self.random.choice([0, 0, 2, 8]) * SECOND
                    rules.lag = dict.fromkeys(("find", "order", "orders", "fills", "positions"), lag)
                    rules.filling = self.random.choice(["in_reply", "after_reply", "by_hand"])

    def _add(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.t.exchange.plan.add(fault)

    def _fault_of_an_order(self) -> Fault:
        taken = self.random.choice([Taken.BEFORE_REPLY, Taken.NEVER])
        match self.random.randrange(5):
            case 0 | 1:
                return Fault("submit", self.random.choice(LOST), taken, status=200)
            case 2:
                return Fault("submit", Reply.STATUS, taken, status=self.random.choice([500, 502, 503, 504]))
            case 3:
                return Fault("submit", Reply.STATUS, Taken.NEVER, status=429, retry_after="2")
            case _:
                return Fault("submit", Reply.RESET, Taken.LATE, delay=self.random.uniform(0, 6 / SPEED))

    def _fault_of_a_look(self) -> Fault:
        endpoint, times = self.random.choice(LOOKS), self.random.randint(1, 6)
        if endpoint == "find" and self.random.random() < 0.3:
            return Fault(endpoint, Reply.STRANGER, times=times)
        reply = self.random.choice([Reply.RESET, Reply.HTML, Reply.STATUS])
        return Fault(endpoint, reply, Taken.NEVER, status=500, times=times)

    async def _fill(self, until: float) -> None:
        """What was left to a hand is filled by and by, in pieces or whole, or ended."""
        while time.monotonic() < until:
            await asyncio.sleep(self.random.uniform(0.1, 0.4))
            sql = "SELECT * FROM orders WHERE status IN ('new', 'partially_filled') ORDER BY random() LIMIT 1"
            for row in await self.t.exchange.rows(sql):
                left = int(row["qty"]) - int(row["filled_qty"])
                if self.random.random() < 0.8:
                    part = str(self.random.randint(1, left))
                    await self.t.exchange.ask(Book.fill, row["client_order_id"], part)
                else:
                    await self.t.exchange.ask(Book.end, row["client_order_id"], "canceled")

    async def _kill(self, until: float) -> None:
        while time.monotonic() < until:
            await asyncio.sleep(self.random.uniform(2.0, 5.0))
            await self.t.do(self.t.program.kill)
            self.tally.counts["kills"] += 1
            async with self.running:
                await self.t.do(self.t.program.launch)
                line = await self.t.do(self.t.program.line)
                self.t.program.port = int(line.split(":")[2].split()[0])

    async def _calm_down(self) -> None:
        """Nothing goes wrong any more; until the judge has nothing to say, or time is up."""
        self.tally.counts["faults"] = sum(fault.hits for fault in self.faults)
        self.t.exchange.plan.clear()
        self.t.exchange.rules.lag.clear()
        self.t.exchange.rules.filling = "in_reply"
        until = time.monotonic() + QUIET
        while True:
            for row in await self.t.exchange.rows(
                "SELECT * FROM orders WHERE status IN ('new', 'partially_filled')"
            ):
                if row["type"] == "market":
                    await self.t.exchange.ask(Book.fill, row["client_order_id"])
            self.tally.violations = await self.t.judged()
            if not self.tally.violations or time.monotonic() > until:
                return
            await asyncio.sleep(0.5)

    async def _count(self) -> None:
        counts = self.tally.counts
        counts["signals"] = len(await self.t.do(self.t.program.rows, "SELECT id FROM v_signals"))
        states = "SELECT state, count(*) AS n FROM v_orders GROUP BY state"
        for row in await self.t.do(self.t.program.rows, states):
            counts[f"orders {row['state']}"] = row["n"]
        counts["orders sent"] = self.t.exchange.plan.calls.get("submit", 0)
        counts["orders at the exchange"] = len(await self.t.at_exchange())


async def soak(folder: Path, seconds: float, seed: int, id_class: IdClass = "B", variant: str = "") -> Tally:
    async with trial(folder, id_class, variant=variant, rules=Rules(filling="in_reply")) as t:
        return await Soak(t, seed).run(seconds)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--class", dest="id_class", default="B", choices=["A", "B", "C", "D", "E"])
    parser.add_argument("--variant", default="")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onefill-soak-") as made:
        folder = given.keep or Path(made)
        folder.mkdir(exist_ok=True)
        tally = asyncio.run(soak(folder, given.minutes * 60, given.seed, given.id_class, given.variant))
    print(f"seed {given.seed}: {tally.line()}")
    for line in tally.violations:
        print(line)
    print(
        "nothing was doubled, lost or made up"
        if not tally.violations
        else f"{len(tally.violations)} violations"
    )
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
