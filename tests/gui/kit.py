"""A stand-in for the engine: a real ledger with its writer and reader, everything else scripted."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from app.clock import SECOND, ManualClock
from app.engine.status import CommandRefused, Fact, HookAddress, SampleAnswer, Status
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.settings import Settings, default_text, read_settings
from tests.gui import rows

T = TypeVar("T")

TOKEN = "k3Jt0v9xQ2mLr7Zp"
GOOD_FACTS = [
    Fact("listener", "open", "ok", "listening on port 8787"),
    Fact("ledger", "ok", "ok", "every claim is on disk before its answer"),
    Fact("account:paper", "ready", "ok", "reconciled, sends orders"),
    Fact("clock", "ok", "ok", "steady"),
    Fact("trading", "active", "ok", "signals become orders"),
    Fact("loop", "ok", "ok", "answers in time"),
]
TRADING_FACTS = {
    "active": Fact("trading", "active", "ok", "signals become orders"),
    "exits_only": Fact(
        "trading", "exits only", "warning", "entries are denied, exits go out; resume to end it"
    ),
    "halted": Fact("trading", "halted", "warning", "every order is denied; resume to end it"),
}


def settings() -> Settings:
    """The first file's, its source named as the rows of the tests name it."""
    return read_settings(default_text().replace('id = ""', f'id = "{rows.SOURCE_ID}"'))


class StandIn:
    """Does what EngineView says. `commands` notes what was asked; `hold` keeps answers back until set."""

    def __init__(self, home: Path, now: int | None = None) -> None:
        self.home = home
        self.clock = ManualClock() if now is None else ManualClock(now)
        self.stop_requested = asyncio.Event()
        self.stop_reason = ""
        self.writer = Writer(open_ledger(home, self.clock.now()), self.clock, lambda why: None)
        self.reader = Reader(home / FILE_NAME)
        self.settings = settings()
        self.trading_state = "active"
        self.facts = list(GOOD_FACTS)
        self.counts: dict[str, int] = {}
        self.lag = (2.0, 41.0)
        self.addresses = [
            HookAddress("tradingview", f"http://127.0.0.1:8787/hook/tradingview/{TOKEN}"),
            HookAddress("test", f"http://127.0.0.1:8787/hook/test/{TOKEN[::-1]}"),
        ]
        self.commands: list[tuple[str, dict[str, Any], str, str]] = []
        self.tries: list[tuple[str, dict[str, Any], str, str]] = []
        self.samples = 0
        self.answers: dict[str, dict[str, Any]] = {}
        """To a person's decisions, by the command."""
        self.refuse: str | None = None
        self.refuse_to_do: str | None = None
        """What is only tried is answered."""
        self.hold = asyncio.Event()
        self.hold.set()
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self._end_commits: Callable[[], None] | None = None

    async def start(self) -> None:
        self._end_commits = self.writer.listen(self.announce)
        await self.write(rows.prepare)

    async def close(self) -> None:
        await self.reader.close()
        await self.writer.close()

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Runs it in the writer and returns when the listeners have heard of the commit."""
        value = await self.writer.run(operation)
        await asyncio.sleep(0)
        return value

    def announce(self, topics: frozenset[str]) -> None:
        for listener in list(self.listeners):
            listener(topics)

    # ------------------------------------------------------------------ what the window asks

    def request_stop(self, why: str) -> None:
        if not self.stop_requested.is_set():
            self.stop_reason = why
            self.stop_requested.set()

    def status(self) -> Status:
        facts = [TRADING_FACTS[self.trading_state] if each.name == "trading" else each for each in self.facts]
        return Status(
            state="running",
            home=str(self.home),
            port=8787,
            version="0.1.0",
            started_at=self.clock.now(),
            trading_state=self.trading_state,
            facts=facts,
            loop_lag_ms=self.lag[0],
            loop_lag_max_ms=self.lag[1],
            loop_lag_max_since_start_ms=self.lag[1],
            counts=dict(self.counts),
        )

    def listen(self, listener: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def hook_addresses(self) -> list[HookAddress]:
        return list(self.addresses)

    async def send_sample(self, body: bytes | None = None) -> SampleAnswer:
        await self.hold.wait()
        if self.refuse is not None:
            raise CommandRefused(self.refuse)
        self.samples += 1
        at = self.clock.now()
        self.clock.advance(SECOND)

        def place(tx: Transaction) -> int:
            claim = rows.add_signal(tx, at, symbol="SAMPLE", quantity="1", key=f"sample-{uuid.uuid4()}")
            rows.fill(tx, claim, at + 5_000)
            return claim

        claim = await self.write(place)
        return SampleAnswer(200, {"status": "accepted", "signal": f"S{claim}", "key_source": "body"})

    async def command(
        self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str
    ) -> dict[str, Any]:
        if name in self.answers:
            return await self._decide(name, dict(arguments), actor, request_id)
        self.commands.append((name, dict(arguments), actor, request_id))
        await self.hold.wait()
        if self.refuse is not None:
            raise CommandRefused(self.refuse)
        if name == "reconcile":
            return {"reports": [{"account": "paper", "result": "OK"}]}
        was = self.trading_state
        if name == "resume":
            self.trading_state = "active"
        else:
            self.trading_state = "exits_only" if arguments["exits_only"] else "halted"
        self.announce(frozenset({"status"}))
        return {
            "trading_state": self.trading_state,
            "was": was,
            "in_flight": ["O7"],
            "resting": [],
            "waiting": [],
        }

    async def _decide(
        self, name: str, arguments: dict[str, Any], actor: str, request_id: str
    ) -> dict[str, Any]:
        tried = arguments.pop("dry_run", False)
        (self.tries if tried else self.commands).append((name, arguments, actor, request_id))
        if not tried:
            await self.hold.wait()
        refused = self.refuse if tried else self.refuse_to_do or self.refuse
        if refused is not None:
            raise CommandRefused(refused)
        return {"dry_run": tried, **self.answers[name]}
