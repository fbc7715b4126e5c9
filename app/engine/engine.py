"""The composition root: builds every part, owns start and stop order, exposes commands and changes.

The same code under the window's loop and under a plain one. Nothing here blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import structlog

from app import __version__
from app.claims.ledger_store import LedgerClaimStore
from app.clock import SECOND, Clock, SystemClock
from app.domain.risk import TradingState
from app.engine import facts, sample
from app.engine.credentials import Credentials, read_retired
from app.engine.jumps import ClockJumps
from app.engine.manners import Manners
from app.engine.opening import Opened, open_home
from app.engine.operator_commands import Person
from app.engine.parts import Brokers, door_sources, instruments
from app.engine.requests import Requests
from app.engine.retention_commands import Keeping
from app.engine.status import CommandRefused, Fact, HookAddress, SampleAnswer, StartRefused, Status
from app.engine.stopping import close_ledger, within
from app.engine.tunnels import Tunnels, tunnel
from app.engine.upkeep import Upkeep
from app.engine.watch import Watch
from app.execution.trading import Trading
from app.ledger.reader import Reader
from app.ledger.store import FILE_NAME as LEDGER_FILE
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.listener.server import Door, DoorCannotOpen
from app.secrets import Secrets
from app.settings import TEST_SOURCE, Settings
from app.tasks import Tasks

log = structlog.get_logger(__name__)
Listener = Callable[[frozenset[str]], None]

STOP_BOUND = 5.0
"""Seconds that a stop may take as a whole; what is still out then is asked for at the next start."""


class Engine:
    """One home's engine. `port` overrides the configured one; 0 takes any free port.

    One that does not send has neither door nor lanes: it asks the brokers, for a person's command.

    `start` and `stop` once each. `stop_requested` is set by `request_stop` alone, which is the only way
    anybody quits; the front that owns the engine then calls `stop`.
    """

    def __init__(
        self,
        home: Path,
        clock: Clock | None = None,
        *,
        port: int | None = None,
        secrets: Callable[[], Secrets] | None = None,
        sends: bool = True,
    ) -> None:
        self._sends = sends
        self.home = home
        self.clock = clock or SystemClock()
        self.stop_requested = asyncio.Event()
        self.stop_reason = ""
        self.fatal: str | None = None
        """Why the engine stopped itself, where it did."""
        self._wanted_port = port
        # Made on the thread that opens the home: it looks at the disk.
        self._make_secrets = secrets or (lambda: Secrets(home, os.environ))
        self._state: Literal["starting", "running", "stopping"] = "starting"
        self._started_at = self.clock.now()
        self._listeners: list[Listener] = []
        self._status_due = False
        self._dead: dict[str, str] = {}
        self._tasks = Tasks(self._note_death)
        self._door_tasks = Tasks()
        self._stop_tasks = Tasks()
        self._opened: Opened | None = None
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._brokers: Brokers | None = None
        self._trading: Trading | None = None
        self._door: Door | None = None
        self._tunnels: Tunnels | None = None
        self._watch: Watch | None = None
        self._port: int | None = None
        self._requests: Requests | None = None
        self._upkeep: Upkeep | None = None
        self.manners: Manners | None = None
        self._stopped: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------------------------- start and stop

    async def start(self) -> None:
        """Lock, settings, ledger, recovery, then the door; accounts become ready by themselves.

        Raises StartRefused; then nothing is left open.
        """
        loop = asyncio.get_running_loop()
        opening = ThreadPoolExecutor(1, thread_name_prefix="opening")
        try:
            opened = await loop.run_in_executor(opening, open_home, self.home, self.clock, self._make_secrets)
        finally:
            opening.shutdown(wait=False)
        self._opened = opened
        try:
            await self._start_parts(opened)
        except BaseException as error:
            await self.stop()
            if isinstance(error, DoorCannotOpen):
                raise StartRefused(str(error)) from error
            raise
        self._state = "running"
        self.note_change()

    async def stop(self) -> None:
        """The door says 503, what is on its way comes back, tunnel, brokers, door, ledger and lock close.

        Bounded; may be called again, and waits then for the first call.
        """
        if self._stopped is None:
            self._stopped = self._stop_tasks.start("stop", self._stop())
        await asyncio.shield(self._stopped)

    def request_stop(self, why: str) -> None:
        """The only way anybody quits. Loop only; the first reason stays."""
        if not self.stop_requested.is_set():
            self.stop_reason = why
            log.info("stop requested", why=why)
            self.stop_requested.set()

    async def _start_parts(self, opened: Opened) -> None:
        settings, loop = opened.settings, asyncio.get_running_loop()

        def fatal(why: str) -> None:
            loop.call_soon_threadsafe(self._give_up, why)

        self._writer = Writer(opened.connection, self.clock, fatal)
        self._reader = Reader(self.home / LEDGER_FILE)
        store = LedgerClaimStore(self._writer, self.clock, instruments(settings))
        self._brokers = Brokers(self.home, settings, self.clock, self._make_secrets)
        await self._brokers.open()
        for account, why in self._brokers.refused.items():
            log.error("an account stays closed", account=account, why=why)
        jumps = ClockJumps(self.clock)
        self._trading = Trading(
            writer=self._writer,
            reader=self._reader,
            clock=self.clock,
            tasks=self._tasks,
            accounts=self._brokers.setups,
            interval=min(settings.reconciliation.interval, settings.reconciliation.positions_interval),
            changed=self.note_change,
            sends=self._sends,
            steady=jumps.steady,
        )
        self._upkeep = Upkeep(
            self.home,
            settings,
            self._writer,
            self._reader,
            self.clock,
            changed=self.note_change,
            clock_is_sound=lambda: self._watch is not None and not (self._watch.behind or self._watch.jump),
        )
        credentials = Credentials(
            self._upkeep, settings.all_sources, self._make_secrets, self._take_credentials
        )
        keeping = Keeping(self._upkeep, credentials)
        person = Person(self._writer, self._reader, self._trading, self.clock, settings, store.context)
        self._requests = Requests(
            self._writer, self._reader, self._trading, self.clock, self._door_tasks, keeping, person
        )
        mark, anew = opened.recovered.wall_mark, self._trading.begin_anew
        self._watch = Watch(self._writer, self._reader, self.clock, mark, self.note_change, anew, jumps)
        self._watch.guard(opened.lock.lost, self._give_up)
        self._writer.listen(self._on_commit)
        if not self._sends:
            await self._trading.start(opened.recovered.wall_mark)
            await self._trading.settle(settings.execution.request_timeout / SECOND)
            return
        self._watch.start(self._tasks)
        self._tunnels = Tunnels(
            settings.tunnel, self.home, self.clock, self._make_secrets, self.note_change, self._note_death
        )
        self._door = Door(
            host=settings.listener.host,
            port=settings.listener.port if self._wanted_port is None else self._wanted_port,
            sources=door_sources(settings, opened.credentials, opened.retired),
            store=store,
            clock=self.clock,
            tasks=self._door_tasks,
            health=self._health_word,
            probed=self._tunnels.hear,
            client=self._tunnels.client,
        )
        self._port = await self._door.start()
        self._tunnels.start(self._port)
        for statement in opened.statements:
            log.warning(statement.removeprefix("WARNING: "))
        await self._trading.start(opened.recovered.wall_mark)
        self._upkeep.start(self._tasks)
        self.manners = Manners(self, self._writer, self._make_secrets)
        await self.manners.start(self._tasks)

    async def _take_credentials(self) -> None:
        """The door takes tokens and secrets as they are kept now. Raises SecretsError."""
        opened, upkeep, door = self._opened, self._upkeep, self._door
        assert opened is not None and upkeep is not None and door is not None  # noqa: PT018
        await upkeep.on_thread(lambda: opened.read_again(self._make_secrets))
        now = self.clock.now()
        retired = await self.reader.call(lambda db: read_retired(Transaction(db, set()), now))
        door.set_sources(door_sources(opened.settings, opened.credentials, retired))
        self.note_change()

    async def _stop(self) -> None:
        self._state = "stopping"
        self.note_change()
        deadline = asyncio.get_running_loop().time() + STOP_BOUND
        door, trading, brokers = self._door, self._trading, self._brokers
        if door is not None:
            door.close_intake()
        if trading is not None:
            await within(deadline, 3.0, "trading", trading.stop())
        if self.manners is not None:
            await within(deadline, 2.0, "notices", self.manners.stop())
        if self._tunnels is not None:
            await within(deadline, 2.0, "tunnel", self._tunnels.stop())
        if brokers is not None:
            await within(deadline, 1.0, "brokers", brokers.close())
        if door is not None:
            await within(deadline, 2.5, "door", door.stop())
        await within(deadline, 1.0, "tasks", self._tasks.stop())
        if self._watch is not None:
            self._watch.mark_at_stop()
        await within(deadline, 1.0, "deliveries", self._door_tasks.stop())
        if self._upkeep is not None:
            await within(deadline, 1.0, "upkeep", self._upkeep.close())
        opened = self._opened
        connection = opened.connection if opened is not None else None
        closed = await close_ledger(deadline, self._reader, self._writer, connection)
        self._listeners.clear()
        if opened is not None and closed:
            opened.lock.release()

    # ---------------------------------------------------------------------------- what others may see

    @property
    def settings(self) -> Settings:
        if self._opened is None:
            raise RuntimeError("the engine is not started")
        return self._opened.settings

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            raise RuntimeError("the engine is not started")
        return self._reader

    def status(self) -> Status:
        """From memory; never blocks."""
        trading_state, watch = self._trading_state(), self._watch
        return Status(
            state=self._state,
            home=str(self.home),
            port=self._port,
            version=__version__,
            started_at=self._started_at,
            trading_state=trading_state.value,
            facts=self._facts(trading_state),
            loop_lag_ms=round(watch.lag.now_ms, 1) if watch else 0.0,
            loop_lag_max_ms=round(watch.lag.max_ms, 1) if watch else 0.0,
            loop_lag_max_since_start_ms=round(watch.lag.max_since_start_ms, 1) if watch else 0.0,
            counts=watch.numbers() if watch else {},
            public=self._tunnels.address if self._tunnels else None,
        )

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener(names)` on the loop: the tables that a commit changed, or `status` when a fact may
        have. Returns what ends it."""
        self._listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def hook_addresses(self) -> list[HookAddress]:
        """Where senders post to, tokens inside: never log them. Empty before the door is open."""
        opened, port = self._opened, self._port
        if opened is None or port is None:
            return []
        return sample.hook_addresses(opened.settings, port, opened.credentials, self._tunnels)

    def note_copied(self) -> None:
        """A person took the public address: from now on another one is shouted about."""
        if self._tunnels is not None:
            self._tunnels.note_copied()

    async def send_sample(self, body: bytes | None = None) -> SampleAnswer:
        """Posts a sample alert to the built-in source `test`, which reaches only paper, by the real hook."""
        address = next((a for a in self.hook_addresses() if a.source == TEST_SOURCE), None)
        if address is None:
            raise CommandRefused("no account without money that a test could reach: add a paper account")
        return await sample.post(address.local, body or sample.sample_body(self.clock.now()))

    # ------------------------------------------------------------------------------------------- commands

    async def command(
        self, name: str, arguments: Mapping[str, Any], *, actor: str, request_id: str
    ) -> dict[str, Any]:
        """Does what a person asked for; the same request id again gives the same answer and acts once (H26).

        Those of `requests`, `retention_commands`, `operator_commands`. Raises CommandRefused with one line.
        """
        if self._requests is None or self._state != "running":
            raise CommandRefused(f"Onefill is {self._state}")
        if self.manners is not None and name in self.manners.COMMANDS:
            return await self.manners.act(name, arguments)
        return await self._requests.command(name, arguments, actor=actor, request_id=request_id)

    # ------------------------------------------------------------------------------ what is noticed

    def note_change(self) -> None:
        """A fact may have changed: the listeners hear `status`, once for all changes of this turn."""
        if not self._status_due:
            self._status_due = True
            asyncio.get_running_loop().call_soon(self._announce_status)

    def _announce_status(self) -> None:
        self._status_due = False
        self._announce(frozenset({"status"}))

    def _on_commit(self, tables: frozenset[str]) -> None:
        if self._watch is not None:
            self._watch.counts_due = True
        self._announce(tables)

    def _announce(self, names: frozenset[str]) -> None:
        for listener in list(self._listeners):
            try:
                listener(names)
            except Exception as error:  # one listener's fault is not the next one's
                log.exception("a listener failed", error=repr(error))

    def _note_death(self, name: str, error: BaseException) -> None:
        self._dead[name] = repr(error)
        self.note_change()

    def _give_up(self, why: str) -> None:
        self.fatal = why
        log.critical("Onefill stops itself", why=why)
        self.note_change()
        self.request_stop(why)

    def _trading_state(self) -> TradingState:
        if self._trading is not None:
            return self._trading.state
        return TradingState(self._opened.recovered.trading_state) if self._opened else TradingState.ACTIVE

    def _facts(self, state: TradingState) -> list[Fact]:
        writer, trading, watch, opened = self._writer, self._trading, self._watch, self._opened
        broken, anew = (opened.broken_event, opened.new_tokens) if opened else (None, ())
        seen = self._door.facts if self._door and self._port else None
        found = [
            facts.listener(seen, watch.counts.strange if watch else {}, anew),
            *([tunnel(self._tunnels.facts)] if self._tunnels is not None else ()),
            facts.ledger(writer.health if writer is not None else None, broken),
        ]
        if trading is not None:
            refused = self._brokers.refused if self._brokers else {}
            found += facts.accounts(trading.facts(), refused, watch.troubles if watch else {})
        found += [facts.clock(watch.behind, watch.jump, watch.stood_still)] if watch else []
        found.append(facts.trading(state))
        found += [facts.loop(watch.lag)] if watch else []
        if self._upkeep is not None:
            found += self._upkeep.facts()
        found += self.manners.facts() if self.manners is not None else []
        return [*found, *facts.program(self._dead, trading.unattended if trading else 0, self.fatal)]

    def _health_word(self) -> str:
        state = self._trading_state()
        if state is TradingState.HALTED:
            return "halted"
        return "degraded" if any(fact.level == "error" for fact in self._facts(state)) else "ok"
