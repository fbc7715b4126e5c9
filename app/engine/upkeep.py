"""What nobody should have to remember: a backup a day, and retention. Beside trading, never in its way.

Copies are made on a thread of their own, and purges go through the writer in small steps. A clock that is not
sound purges nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from app.clock import SECOND, Clock
from app.engine import facts
from app.engine.status import Fact
from app.engine.updates import Updates
from app.ledger import backup as backups
from app.ledger import retention
from app.ledger.backup import Backup
from app.ledger.copying import CopyFailed
from app.ledger.errors import LedgerUnavailable
from app.ledger.reader import Reader
from app.ledger.retention import Cutoffs, Plan, Purged
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from app.settings import Settings
from app.tasks import Tasks

log = structlog.get_logger(__name__)
T = TypeVar("T")

BEAT = 20.0
"""Seconds between two looks at the clock."""
FIRST = 60 * SECOND
"""After the start, when trading has settled down."""
EVERY = 3_600 * SECOND
DAY = 24 * 3_600 * SECOND
RETENTION_RAN = "retention_ran"
ACTOR = "onefill"


class Upkeep:
    """`changed` is called when `problem` may have; `clock_is_sound` says whether ages mean anything now."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        writer: Writer,
        reader: Reader,
        clock: Clock,
        *,
        changed: Callable[[], None] = lambda: None,
        clock_is_sound: Callable[[], bool] = lambda: True,
    ) -> None:
        self.home = home
        self.settings = settings
        self.writer = writer
        self.reader = reader
        self.clock = clock
        self.problem = ""
        """Why there is no backup of today, for a person; empty while there is nothing to say."""
        self._changed = changed
        self._clock_is_sound = clock_is_sound
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._stopping = threading.Event()
        self._purging = asyncio.Lock()
        self._backed_up: int | None = None
        self._updates = Updates(settings.updates, clock, changed)

    def start(self, tasks: Tasks) -> None:
        tasks.start("upkeep", self._look_for_ever())
        tasks.start("update check", self._updates.look_for_ever())

    def facts(self) -> list[Fact]:
        """What is not as it should be, and whether there is a newer version."""
        return [*facts.backup(self.problem), *self._updates.facts()]

    async def close(self) -> None:
        """Breaks off a copy that is being made, and waits for its thread."""
        self._stopping.set()
        await self.on_thread(lambda: None)
        self._thread.shutdown(wait=False)

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Runs what blocks on this room's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def look(self) -> None:
        """Does what is due: the backup of the day, then its retention."""
        await self._daily_backup()
        try:
            await self._daily_retention()
        except LedgerUnavailable as error:
            log.warning("retention waits", ledger=str(error))

    async def _look_for_ever(self) -> None:
        due = self.clock.boot() + FIRST
        while True:
            await asyncio.sleep(BEAT)
            # The clock is asked after waking: a timer of the window's loop may come early.
            if self.clock.boot() >= due:
                due = self.clock.boot() + EVERY
                await self.look()

    # ---------------------------------------------------------------------------------------- backups

    async def backup(self, target: Path) -> Backup:
        """A backup into a file or folder that a person chose. Raises CopyFailed."""
        now = self.clock.now()
        work = partial(backups.make_backup, self.home, target, now, self._stopping.is_set)
        return await self.on_thread(work)

    async def _daily_backup(self) -> None:
        try:
            await self._back_up_if_due()
        except (CopyFailed, LedgerUnavailable, OSError) as error:
            self._say(f"no backup could be made today: {error}")

    async def _back_up_if_due(self) -> None:
        now, boot = self.clock.now(), self.clock.boot()
        newest = await self.on_thread(partial(backups.newest_daily, self.home))
        if newest is not None and 0 <= now - newest < DAY:
            return
        if self._backed_up is not None and boot - self._backed_up < DAY:
            # The newest one is of a time that has not come yet: the clock was set back.
            return
        keep = self.settings.retention.backups
        work = partial(backups.make_daily_backup, self.home, now, keep, self._stopping.is_set)
        made, removed = await self.on_thread(work)
        await self.writer.run(partial(note_backup, made=made, at=now, actor=ACTOR))
        self._backed_up = boot
        log.info("backup made", file=made.path.name, head=made.facts.anchor, removed=removed)
        self._say("")

    def _say(self, problem: str) -> None:
        if problem:
            log.error("backup failed", reason=problem)
        if problem != self.problem:
            self.problem = problem
            self._changed()

    # --------------------------------------------------------------------------------------- retention

    def cutoffs(self, now: int, bodies: int | None, keys: int | None) -> Cutoffs:
        """From ages (microseconds, None for ever) to moments."""
        return Cutoffs(
            bodies=None if bodies is None else now - bodies,
            keys=None if keys is None else now - keys,
            ghosts=now - self.settings.reconciliation.ghost_watch,
        )

    async def measure(self, cutoffs: Cutoffs) -> Plan:
        return await retention.measure(self.reader, cutoffs)

    async def purge(self, cutoffs: Cutoffs, at: int, actor: str, why: str) -> tuple[Plan, Purged]:
        """One purge at a time; what it did is yet to be written down. Raises LedgerUnavailable."""
        async with self._purging:
            plan = await self.measure(cutoffs)
            purged = await retention.purge(
                self.writer, self.reader, plan, cutoffs, at=at, actor=actor, why=why
            )
        return plan, purged

    async def _daily_retention(self) -> None:
        now = self.clock.now()
        rows = await self.reader.rows("SELECT value FROM meta WHERE name = ?", (RETENTION_RAN,))
        if not self._clock_is_sound() or (rows and abs(now - int(rows[0]["value"])) < DAY):
            return
        rules = self.settings.retention
        _, purged = await self.purge(
            self.cutoffs(now, rules.bodies, rules.keys), now, ACTOR, "[retention] in the settings"
        )
        await self.writer.run(partial(_note_retention, purged=purged, at=now))


def note_backup(tx: Transaction, made: Backup, at: int, actor: str) -> None:
    """Says in the audit chain which head of it stands in a file outside (HOLES H23)."""
    detail = {"file": made.path.name, "head": made.facts.anchor}
    tx.event(at, actor, "backup made", "ledger", detail)


def note_purge(tx: Transaction, purged: Purged, at: int, actor: str) -> None:
    tx.event(at, actor, "purged", "ledger", {"bodies": purged.bodies, "keys": purged.keys})


def _note_retention(tx: Transaction, purged: Purged, at: int) -> None:
    if purged.bodies or purged.keys:
        note_purge(tx, purged, at, ACTOR)
    tx.set_meta(RETENTION_RAN, str(at))
