"""What the writer's tests are made of: a ledger on a faulty disk, operations, ways to hold the writer up."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from app.clock import ManualClock
from app.ledger import batch
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from tests.ledger.faulty_vfs import FaultyVFS

T = TypeVar("T")
WAIT = 10.0
"""Seconds after which a test that waits for a thread gives up; never a measure of anything."""


def look(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows as another program sees them, through a connection of its own."""
    with contextlib.closing(apsw.Connection(str(folder / FILE_NAME))) as connection:
        return connection.execute(sql).fetchall()


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def claim(key: str, filler: str = "") -> Callable[[Transaction], str]:
    """A claim's transaction in small: first seen or told 503 before is `accepted`, else `duplicate`."""

    def operation(tx: Transaction) -> str:
        known = tx.one("SELECT id, unanswered FROM claims WHERE digest = ?", (digest(key),))
        if known is None:
            row: dict[str, Any] = {
                "digest": digest(key),
                "source_id": "src",
                "key": key,
                "key_source": "body",
            }
            row |= {"header_key": 0, "rule_version": 1, "raw_fingerprint": b"", "intent_fingerprint": b""}
            row |= {"signal": filler, "symbol": "AAPL", "action": "buy"}
            tx.insert("claims", {**row, "first_received_at": 1, "admitted_at": 1, "deliveries": 1})
            tx.event(1, "source:src", "claimed", key)
            return "accepted"
        if known[1]:
            tx.change("claims", "UPDATE claims SET unanswered = 0 WHERE id = ?", (known[0],))
            return "accepted"
        return "duplicate"

    return operation


def unclaim(key: str) -> Callable[[Transaction, str], None]:
    """What marks a claim whose sender was told 503."""

    def on_void(tx: Transaction, _verdict: str) -> None:
        tx.change("claims", "UPDATE claims SET unanswered = 1 WHERE digest = ?", (digest(key),))
        tx.event(1, "onefill", "unanswered", key)

    return on_void


def note(name: str) -> Callable[[Transaction], str]:
    """An operation that leaves one event behind."""

    def operation(tx: Transaction) -> str:
        tx.event(1, "test", name, "")
        return name

    return operation


class Gate:
    """An operation, or any other call on the writer's thread, that waits there until it is opened."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, _tx: Transaction | None = None) -> None:
        self._reached.set()
        assert self._open.wait(WAIT)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, WAIT)

    def open(self) -> None:
        self._open.set()


class WatchedClock(ManualClock):
    """Counts how often the writer's thread asks: each time that it did not get the lock."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = threading.Semaphore(0)

    def boot(self) -> int:
        if threading.current_thread().name.startswith("ledger-writer"):
            self._asked.release()
        return super().boot()

    async def lock_refused(self, times: int = 1) -> None:
        """Waits until the writer has failed to get the lock so many more times."""
        for _ in range(times):
            assert await asyncio.to_thread(self._asked.acquire, timeout=WAIT)


class Ledger:
    """A ledger's folder, disk and writing connection."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.disk = FaultyVFS()
        self.clock = WatchedClock()
        self.connection = open_ledger(home, self.clock.now(), self.disk.name)
        self.connection.execute("INSERT INTO sources (id, name) VALUES ('src', 'tradingview')")
        self.connection.execute("INSERT INTO accounts (name, broker) VALUES ('paper', 'paper')")
        self.disk.calls.clear()

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        return look(self.home, sql)

    def copy(self, name: str) -> Path:
        """The folder as a kill at this moment would leave it."""
        return Path(shutil.copytree(self.home, self.home.with_name(name)))

    def close(self) -> None:
        self.disk.before = None
        self.connection.close()
        self.disk.close()


class Bench:
    """A ledger with its writer. `points` maps a failpoint to what is called there, on the writer's thread."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = ledger
        self.home, self.disk, self.clock = ledger.home, ledger.disk, ledger.clock
        self.fatal: list[str] = []
        self.points: dict[str, Callable[[], None]] = {}
        monkeypatch.setattr(batch, "failpoint", self._pass)
        self.writer = Writer(ledger.connection, self.clock, self.fatal.append)
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts `work` as a task; whoever wants its error awaits it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        return task

    async def together(self, *works: Coroutine[Any, Any, Any]) -> list[Any]:
        """Queues all of them while the writer is held up, so that they are one batch; values or errors."""
        gate = Gate()
        held = self.start(self.writer.run(gate))
        await gate.reached()
        tasks = [self.start(work) for work in works]
        await asyncio.sleep(0)
        gate.open()
        await held
        return await asyncio.gather(*tasks, return_exceptions=True)

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        return self.ledger.look(sql)

    def events(self, what: str = "%") -> list[str]:
        return [
            row[0]
            for row in self.look(f"SELECT what FROM events WHERE actor = 'test' AND what LIKE '{what}'")
        ]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Another program holds the ledger's lock."""
        with contextlib.closing(apsw.Connection(str(self.home / FILE_NAME))) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    async def close(self) -> None:
        self.disk.before = None
        self.points.clear()
        await self.writer.close()
        await asyncio.gather(
            *(task for task in self._tasks if task.get_loop() is asyncio.get_running_loop()),
            return_exceptions=True,
        )

    def _pass(self, name: str) -> None:
        if name in self.points:
            self.points[name]()
