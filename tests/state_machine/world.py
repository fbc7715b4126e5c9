"""A home over several runs of the program, on a machine whose threads and time are a test's (loop.py).

The parts are the real ones, put together as the engine does, with its own waits; only the door's sockets are
missing. A run may end by a stop, or as by `kill -9` after any piece of work of any thread.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast
from unittest.mock import patch

import apsw
from structlog.testing import capture_logs

from app.brokers import paper
from app.brokers.base import LastCheck, OrderRequest, Refused, SubmitReply, Throttled, Unsent
from app.brokers.paper import PaperExchange
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND
from app.engine import upkeep
from app.engine.credentials import Credentials
from app.engine.operator_commands import Person
from app.engine.recovery import recover, register
from app.engine.requests import Requests
from app.engine.retention_commands import Keeping
from app.engine.upkeep import Upkeep
from app.execution.trading import Trading
from app.ledger import reader, writer
from app.ledger.reader import Reader, open_read_only
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.writer import Writer
from app.settings import read_settings
from app.tasks import Tasks
from tests.execution.faults import Faults, FaultyBroker
from tests.execution.kit import Desk, _accounts
from tests.state_machine.loop import Loop, Machine, PowerCut

T = TypeVar("T")

PATIENCE = 900
"""Seconds of the machine in which everything has to come to rest."""
NEVER = (
    "task died",
    "a sweep failed",
    "a lane failed and goes on",
    "a lane gets nowhere with an order",
    "an order could not be judged",
    "an order could not be decided",
    "a reply could not be recorded",
    "an order was left on its way",
    "account session failed",
    "ledger batch failed",
    "ledger writer failed",
    "posted ledger write failed",
)
"""Lines of the log that say that Onefill itself went wrong."""


class Behind(FaultyBroker):
    """The faulty broker, which also says how often an order may have left, and can show one late.

    In its plan `lag:N` is `lost_after` of an order that no look shows for N seconds, behind a wire.
    """

    left: Counter[str]
    """By client order id, over all runs: the sends that are not proved to have done nothing."""

    async def submit(self, request: OrderRequest, last_check: LastCheck) -> SubmitReply:
        cid = request.client_order_id
        fault = self.plan[0] if self.plan else ""
        if isinstance(fault, str) and fault.startswith("lag:"):
            self.plan[0] = "lost_after"
            if self.slow_proof:
                self.hidden.add(cid)
                asyncio.get_running_loop().call_later(float(fault[4:]), self.hidden.discard, cid)
        self.left[cid] += 1
        reply = await super().submit(request, last_check)
        if isinstance(reply, Unsent | Throttled | Refused):
            self.left[cid] -= 1
        return reply

    def look_away(self, calls: tuple[str, ...], seconds: float) -> None:
        """These calls fail for so long."""
        self.failing |= set(calls)
        asyncio.get_running_loop().call_later(seconds, self.failing.difference_update, calls)


class World:
    """`run` is what a test does in a run of the program; between two of its calls nothing happens at all."""

    def __init__(self, home_made_once: Path, seed: int) -> None:
        # Syncs are what a history costs, and a kill, unlike a power cut, needs none of them.
        memory = Path("/dev/shm")
        where = str(memory) if memory.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="onefill-sm-", dir=where))
        self.lives = 0
        self.home = Path(shutil.copytree(home_made_once, self.folder / "home-0"))
        self.machine = Machine(Random(seed))
        self.clock = self.machine.clock()
        self.newest_wall = self.clock.now()
        self.left: Counter[str] = Counter()
        self.plan: list[str | SubmitReply] = []
        self.slow_proof = False
        self.config = ""
        self.log: list[Any] = []
        self.faults = Faults()
        self.loop: Loop | None = None
        self.desk: Desk
        self.requests: Requests

    # ------------------------------------------------------------------------------- runs of the program

    def start(self) -> None:
        """Opens the home as a start of the program does."""
        assert self.loop is None
        self.loop = Loop(self.machine)
        self.run(self._open())

    def start_and_cut(self, jobs: int) -> None:
        """The power goes while the program starts, or right after."""
        assert self.loop is None
        self.loop = Loop(self.machine)
        self.run_until_cut(self._open(), jobs)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does something in the running program, until it is done."""
        assert self.loop is not None
        loop = self.loop
        with _threads_are_queues(loop), capture_logs() as log:
            try:
                return loop.do(work)
            finally:
                self.newest_wall = max(self.newest_wall, self.clock.now())
                self.log += log

    def stop(self) -> None:
        """Stops the program in the engine's order."""
        if self.loop is not None:
            self.run(self._close())
            assert self.loop.errors == []
            self.loop.bury()
            self.loop = None
            assert self.desk.deaths == []

    def kill(self) -> None:
        """The program is gone between two pieces of work; what it had written is there."""
        assert self.loop is not None
        self._keep_plan()
        self.lives += 1
        old, self.home = self.home, self.folder / f"home-{self.lives}"
        # The index of the log is made anew by whoever opens it next.
        shutil.copytree(old, self.home, ignore=shutil.ignore_patterns("*-shm"))
        with capture_logs():
            self.loop.bury()
        self.loop = None
        _let_go_of(old)
        shutil.rmtree(old)

    def run_until_cut(self, work: Coroutine[Any, Any, T], jobs: int) -> T | None:
        """Does something and kills the program after so many pieces of work, whether that was done or not."""
        done: T | None = None
        self.machine.cut_at = self.machine.jobs + jobs
        try:
            done = self.run(work)
            while True:
                self.run(asyncio.sleep(1.0))
        except PowerCut:
            return done
        finally:
            self.machine.cut_at = None
            self.kill()

    def close(self) -> None:
        if self.loop is not None:
            with capture_logs():
                self.loop.bury()
        _let_go_of(self.folder)
        shutil.rmtree(self.folder)

    async def _open(self) -> None:
        settings = read_settings(self.config, self.home / "config.toml")
        deaths: list[str] = []
        connection = open_ledger(self.home, self.clock.now())
        ledger = Writer(connection, self.clock, deaths.append)
        views = Reader(self.home / FILE_NAME)
        exchange = PaperExchange(self.home / paper.FILE_NAME, self.clock)
        await exchange.open()
        tasks = Tasks(lambda name, error: deaths.append(f"{name}: {error!r}"))
        await ledger.run(lambda tx: register(tx, settings.all_sources, settings.accounts))
        recovered = await ledger.run(lambda tx: recover(tx, self.clock.now()))
        self.faults = Faults(self._prepare, Behind)
        trading = Trading(
            writer=ledger,
            reader=views,
            clock=self.clock,
            tasks=tasks,
            accounts=_accounts(settings, exchange, self.faults.wrap),
            interval=settings.reconciliation.interval,
            changed=lambda: None,
        )
        store = LedgerClaimStore(ledger, self.clock, lambda _account, symbol, _exchange: symbol)
        self.desk = Desk(
            self.home, settings, self.clock, ledger, views, exchange, store, trading, tasks, deaths
        )
        await trading.start(max(self.newest_wall, recovered.wall_mark))
        self.upkeep = Upkeep(self.home, settings, ledger, views, self.clock)
        keeping = Keeping(self.upkeep, cast(Credentials, None))
        person = Person(ledger, views, trading, self.clock, settings, store.context)
        self.requests = Requests(ledger, views, trading, self.clock, tasks, keeping, person)

    async def _close(self) -> None:
        self._keep_plan()
        await self.upkeep.close()
        await self.desk.trading.stop()
        await self.desk.tasks.stop()
        await self.desk.exchange.close()
        await self.desk.reader.close()
        await self.desk.writer.close()

    def _prepare(self, broker: FaultyBroker) -> None:
        assert isinstance(broker, Behind)
        broker.left = self.left
        broker.slow_proof = self.slow_proof
        if not self.faults.brokers:
            broker.plan.extend(self.plan)

    def _keep_plan(self) -> None:
        self.plan = list(self.broker.plan) if self.faults.brokers else self.plan

    # ----------------------------------------------------------------------------------- what a test does

    @property
    def broker(self) -> Behind:
        """The first account's."""
        return cast(Behind, self.faults.paper)

    async def press(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.requests.command(name, arguments, actor="person", request_id=uuid.uuid4().hex)

    def progress(self, jobs: int) -> None:
        """The program gets on by so many pieces of work."""
        self.machine.cut_at = self.machine.jobs + jobs
        try:
            self.run(asyncio.sleep(1.0))
        except PowerCut:
            pass
        finally:
            self.machine.cut_at = None

    async def until(self, is_so: Callable[[apsw.Connection], bool], what: str) -> None:
        """Lets time pass until something is so. Fails where that takes longer than anything may."""
        end = self.machine.time + PATIENCE
        while not await self.desk.reader.call(is_so):
            rows = await self.desk.orders() if self.machine.time > end else []
            words = [(row["id"], row["state"], row["reason"]) for row in rows]
            assert self.machine.time <= end, f"{what}: not in {PATIENCE} s; orders {words}"
            await asyncio.sleep(0.5)

    def pass_by(self, seconds: float) -> None:
        """Time passes, at a stroke: both clocks go on, and no timer has run."""
        self.clock.advance(round(seconds * SECOND))
        self.newest_wall = max(self.newest_wall, self.clock.now())

    @contextmanager
    def ledger(self) -> Iterator[apsw.Connection]:
        """The ledger as it stands, read past the program."""
        with closing(open_read_only(self.home / FILE_NAME)) as connection:
            yield connection

    def wrong(self) -> list[str]:
        """What the log says that Onefill got wrong so far."""
        return [repr(line) for line in self.log if line["event"] in NEVER]


@contextmanager
def _threads_are_queues(loop: Loop) -> Iterator[None]:
    with ExitStack() as stack:
        for module in (writer, reader, paper, upkeep):
            stack.enter_context(patch.object(module, "ThreadPoolExecutor", loop.thread))
        yield


def _let_go_of(folder: Path) -> None:
    for connection in apsw.connections():
        if connection.filename.startswith(f"{folder}/"):
            connection.close(True)
