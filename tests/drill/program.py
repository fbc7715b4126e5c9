"""`python -m app serve` on a home whose account is at the simulated exchange: killed, started, asked.

The exchange runs in the test's own process, so that it survives every kill; both read one hurried clock.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from app.drill.clock import HurriedClock
from app.drill.judge import violations
from app.drill.rules import IdClass, Rules
from app.drill.server import SimulatedExchange
from tests.crash.program import ROOT, Answer, Program
from tests.drill.exchange_kit import furnish

T = TypeVar("T")
SPEED = 20
"""A minute is three seconds: no step between two looks at the clock is taken for a jump."""

CONFIG = """
[[sources]]
name = "tradingview"
accounts = ["venue"]

[[accounts]]
name = "venue"
broker = "alpaca"
base_url = "{url}"

[risk]
max_orders_per_minute = 0
position_divisor = 1

[execution]
request_timeout = "1s"
max_order_age = "300s"

[reconciliation]
interval = "30s"
absent_min_age = "15s"
arrival_bound = "10s"
resolve_deadline = "900s"
"""
ENDED = ("DONE", "DENIED", "NOT_PLACED", "NEEDS_OPERATOR")


class Drilled(Program):
    """`variant` is a name of tests/crash/variants.py."""

    def __init__(self, home: Path, exchange: SimulatedExchange, variant: str = "") -> None:
        super().__init__(home)
        self.exchange = exchange
        self.variant = variant

    def launch(self, *, failpoint: str = "", arm: str = "") -> None:
        assert not arm, "armed.py starts the product as it is"
        assert self.process is None or self.process.poll() is not None
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ONEFILL_FAILPOINT": failpoint,
            "ONEFILL_DRILL_CLOCK": str(self.exchange.clock),
            "ONEFILL_DRILL_CLASS": self.exchange.rules.id_class,
            "ONEFILL_DRILL_VARIANT": self.variant,
            "ONEFILL_SECRET_ACCOUNT_VENUE_KEY_ID": "key-1",
            "ONEFILL_SECRET_ACCOUNT_VENUE_SECRET_KEY": "secret-1",
        }
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.drill.launch",
                    "serve",
                    "--home",
                    str(self.home),
                    "--port",
                    "0",
                ],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def kill(self) -> None:
        """As `kill -9` does; nothing to do where it has ended."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(20)

    def is_dead_or_done(self) -> bool:
        """Whether the program has ended, or an order has without its end."""
        assert self.process is not None
        if self.process.poll() is not None:
            return True
        ended = "SELECT 1 FROM orders WHERE state IN ('DONE', 'NOT_PLACED', 'NEEDS_OPERATOR')"
        return (self.home / "ledger.sqlite3").exists() and bool(self.rows(ended))


class Trial:
    """The program and its exchange, for an async test: what blocks runs on a thread."""

    def __init__(self, program: Drilled) -> None:
        self.program = program
        self.exchange = program.exchange

    async def do(self, work: Callable[..., T], *arguments: Any, **options: Any) -> T:
        return await asyncio.to_thread(work, *arguments, **options)

    async def start(self, failpoint: str = "") -> None:
        await self.do(self.program.start, failpoint=failpoint)

    async def post(self, key: str, **fields: Any) -> Answer:
        body = {
            "symbol": "AAPL",
            "action": "buy",
            "quantity": 1,
            "price": 100,
            "key": f"key-{key}-0123456789",
        }
        return await self.do(self.program.post, {**body, **fields})

    async def until(self, look: Callable[[], T | None], what: str) -> T:
        """As `program.until`, without standing in the exchange's way."""
        async with asyncio.timeout(60):
            while True:
                found = await self.do(look)
                if found is not None and found is not False:
                    return found
                await asyncio.sleep(0.05)

    async def ended(self, count: int = 1) -> list[dict[str, Any]]:
        """The orders once there are so many and all are over."""

        def look() -> list[dict[str, Any]] | None:
            rows = self.program.rows("SELECT * FROM v_orders ORDER BY number")
            return rows if len(rows) >= count and all(row["state"] in ENDED for row in rows) else None

        return await self.until(look, f"{count} orders to end")

    async def at_exchange(self) -> list[dict[str, Any]]:
        return await self.exchange.rows("SELECT * FROM orders ORDER BY seq")

    async def judged(self) -> list[str]:
        await self.exchange.settle()
        return await self.do(violations, self.exchange.file, self.program.home)


@asynccontextmanager
async def trial(
    folder: Path, id_class: IdClass = "B", *, variant: str = "", rules: Rules | None = None
) -> AsyncIterator[Trial]:
    """A home, not started yet, and its exchange, which runs."""
    rules = rules or Rules(filling="in_reply")
    rules.id_class = id_class
    exchange = SimulatedExchange(folder / "exchange.sqlite3", HurriedClock.from_now(SPEED), rules)
    await exchange.start()
    await furnish(exchange, cash="100000000")
    program = Drilled(folder / "home", exchange, variant)
    await asyncio.to_thread(program.write_config, CONFIG.format(url=exchange.url))
    try:
        yield Trial(program)
    finally:
        await asyncio.to_thread(program.__exit__)
        await exchange.stop()
