"""Keeps one tunnel going and says how it is: starts its program, looks, knocks from outside, starts anew.

It never loops against a service that counts starts, ends no process but its own, and its word is no better
than what came back: 'up' is a knock from outside that our own door has heard.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import structlog

from app.clock import SECOND, Clock
from app.settings import ConfigError
from app.tasks import Tasks
from app.tunnel.base import CannotStart, Ending, Kind, Launch, Look
from app.tunnel.child import Child
from app.tunnel.lines import Lines
from app.tunnel.memory import Copied, TunnelMemory
from app.tunnel.pace import Pace, Waits
from app.tunnel.probe import Knock, PublicProbe

log = structlog.get_logger(__name__)

Word = Literal["starting", "up", "degraded", "down", "address changed"]


@dataclass(frozen=True, slots=True)
class TunnelFacts:
    """How the tunnel is. `address`: where senders reach us, no slash at its end. `copied`: the one that a
    person took last. `knocked_at`: the last knock from outside that arrived, UTC microseconds. `reached`:
    whether the last one did, None where none was made since it connected. `starts`: of its program. `lines`:
    what it printed last, blanked."""

    kind: str
    word: Word
    reason: str
    address: str | None
    copied: str | None
    knocked_at: int | None
    reached: bool | None
    starts: int
    lines: tuple[str, ...] = ()


class Supervisor:
    """`changed` is called on the loop when the facts may be others than before; `on_death` as in Tasks."""

    def __init__(
        self,
        kind: Kind,
        memory: TunnelMemory,
        probe: PublicProbe,
        clock: Clock,
        changed: Callable[[], None],
        on_death: Callable[[str, BaseException], None] | None = None,
        pace: Pace | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._kind = kind
        self._memory = memory
        self._probe = probe
        self._clock = clock
        self._changed = changed
        self._pace = pace or Pace()
        self._waits = Waits(self._pace, kind.first_wait, jitter)
        self._tasks = Tasks(on_death)
        self._child: Child | None = None
        self._lines = Lines()
        self._word: Word = "starting"
        self._reason = ""
        self._address: str | None = None
        self._copied: Copied | None = None
        self._starts = 0
        self._knocked_at: int | None = None
        # Of the program that runs now:
        self._look = Look(False)
        self._ready_since: int | None = None
        self._unready_since = 0
        self._was_ready = False
        self._knock: Knock | None = None
        self._next_knock: int | None = None
        self._tries = 0
        self._suspicions = 0
        self._knocking: asyncio.Task[None] | None = None

    # ----------------------------------------------------------------------------------------- for the engine

    def start(self, port: int) -> None:
        """Leads from the internet to `port`, until `stop`."""
        self._tasks.start("tunnel", self._run(port))

    async def stop(self) -> None:
        """The program is ended, with all that it started. Once."""
        await self._tasks.stop()
        if self._child is not None:
            await self._child.stop()
            await asyncio.to_thread(self._memory.forget_child)
        await self._kind.clean()

    @property
    def facts(self) -> TunnelFacts:
        word, reason, copied = self._word, self._reason, self._copied
        if self.is_another:
            assert copied is not None
            word = "address changed"
            reason = (
                f"alerts still go to {copied.address}, which leads here no more; it is {self._address} now: "
                "copy the hook address again into every alert"
            )
            reason += f" ({self._word}: {self._reason})" if self._word != "up" else ""
        return TunnelFacts(
            self._kind.name,
            word,
            reason,
            self._address,
            copied.address if copied else None,
            self._knocked_at,
            self._knock.arrived if self._knock is not None else None,
            self._starts,
            tuple(self._lines.last(20)),
        )

    @property
    def is_another(self) -> bool:
        """The address is not the one that a person took last."""
        return (
            self._copied is not None
            and self._address is not None
            and self._copied.address != self._address
            and self._word != "down"
        )

    def note_copied(self) -> None:
        """A person took the address as it is now, to put it into alerts."""
        if self._address is not None:
            self._copied = Copied(self._address, self._clock.now())
            self._tasks.start("tunnel address", self._keep_copied(self._copied))
            self._changed()

    # --------------------------------------------------------------------------------------------- its life

    async def _run(self, port: int) -> None:
        await asyncio.to_thread(self._memory.end_orphan)
        while True:
            await self._read_copied()
            try:
                launch = await self._kind.prepare(port)
                ending = await self._one_run(launch)
            except CannotStart as error:
                ending = Ending(error.reason, error.wait)
            except (OSError, ConfigError) as error:
                ending = Ending(f"what it needs could not be written ({error})", 60 * SECOND)
            wait = self._waits.after(ending.wait)
            self._forget_run(ending, wait)
            log.warning(
                "the tunnel is down",
                kind=self._kind.name,
                reason=ending.reason,
                wait=wait // SECOND,
                said=self._lines.last(5),
            )
            await self._pause(wait)

    async def _one_run(self, launch: Launch | None) -> Ending:
        """From its start to its end, whoever ends it. Raises CannotStart."""
        self._say("starting", "its program is being started" if launch else "not tried from outside yet")
        if launch is not None:
            self._lines = launch.lines()
            self._child = Child(launch, self._lines, self._memory.keep_child)
            pid = await self._child.start()
            self._starts += 1
            log.info("the tunnel's program runs", kind=self._kind.name, pid=pid, start=self._starts)
        try:
            why = await self._attend()
        finally:
            self._stop_knocking()
        child, self._child = self._child, None
        if child is None:
            return Ending(why or "")
        if why is not None:
            await child.stop()
            return Ending(f"{why}: started anew")
        return self._kind.ending(child.ended.result(), self._lines)

    async def _attend(self) -> str | None:
        """Looks until the program is over (None), or until it has to be started anew: why."""
        self._unready_since = looked = woke = read = self._clock.boot()
        first, cleaned = True, False
        while self._child is None or not self._child.ended.done():
            now = self._clock.boot()
            slept, woke = now - woke > self._pace.asleep, now
            if slept:
                log.info("the tunnel is probed after a sleep")
                self._reconnected()
            if first or slept or now - looked >= self._look_every(now):
                first, looked = False, now
                self._note_look(await self._kind.look(self._lines))
                if self._look.ready and not cleaned:
                    cleaned = True
                    await self._kind.clean()
            if now - read >= self._pace.copied:
                read = now
                await self._read_copied()
            why = self._suspicion()
            if why is not None:
                return why
            self._knock_if_due()
            self._judge()
            await self._tick()
        return None

    def _look_every(self, now: int) -> int:
        """What is just starting is watched closely; what stays unready is not hurried."""
        if self._look.ready:
            return self._pace.look
        return 0 if now - self._unready_since < self._pace.look else self._pace.look // 2

    async def _tick(self) -> None:
        """A moment, or less where the program ends. Clocks are compared by whoever comes back."""
        if self._child is None:
            await asyncio.sleep(self._pace.tick)
        else:
            await asyncio.wait({self._child.ended}, timeout=self._pace.tick)

    async def _pause(self, wait: int) -> None:
        until = self._clock.boot() + wait
        while self._clock.boot() < until:  # noqa: ASYNC110 - a timer may come early, and time may be a test's
            await asyncio.sleep(self._pace.tick)

    def _forget_run(self, ending: Ending, wait: int) -> None:
        self._look, self._ready_since, self._was_ready = Look(False), None, False
        self._knock = self._next_knock = None
        self._suspicions = 0
        if not self._kind.keeps_address:
            self._address = None
        after = f"{wait // SECOND} s" if wait < 120 * SECOND else f"{wait // (60 * SECOND)} min"
        self._say("down", f"{ending.reason}; next try in {after}")

    # ------------------------------------------------------------------------------------------ what it sees

    def _note_look(self, look: Look) -> None:
        now = self._clock.boot()
        before, self._look = self._look, look
        if look.address is not None and look.address != self._address:
            log.info("the tunnel has an address", address=look.address, before=self._address)
            self._address = look.address
            self._reconnected()
        if look.ready and not before.ready:
            self._ready_since = now
            self._was_ready = True
            self._reconnected()
        if not look.ready and before.ready:
            self._ready_since, self._unready_since = None, now
            self._next_knock = None

    def _reconnected(self) -> None:
        """What was known from outside is known no more: knock soon, and a few times until it arrives."""
        self._knock = None
        self._tries = 0
        self._next_knock = self._clock.boot() + self._pace.first_tries[0]

    def _suspicion(self) -> str | None:
        """Why it has to be started anew although it runs."""
        now = self._clock.boot()
        if self._child is None:
            return None
        if not self._look.ready and now - self._unready_since > self._kind.patience:
            return f"not ready for {self._kind.patience // SECOND} s ({self._look.reason})"
        # Another address would help nobody: a person has to be asked then.
        if self._suspicions >= self._pace.suspicions and self._kind.keeps_address:
            why = self._knock.reason if self._knock else ""
            return f"it says that it is ready, and is not reached from outside ({why})"
        if self._ready_since is not None and now - self._ready_since > self._pace.steady and self._arrived:
            self._waits.reset()
        return None

    @property
    def _arrived(self) -> bool:
        return self._knock is not None and self._knock.arrived

    # ------------------------------------------------------------------------------------ knocks from outside

    def _knock_if_due(self) -> None:
        due = self._next_knock is not None and self._clock.boot() >= self._next_knock
        if due and self._look.ready and self._address is not None and self._knocking is None:
            self._next_knock = None
            self._knocking = self._tasks.start("tunnel knock", self._knock_once(self._address))

    async def _knock_once(self, address: str) -> None:
        try:
            knock = await self._probe.knock(address)
        finally:
            self._knocking = None
        if address != self._address:
            return
        self._knock = knock
        tries, pace = self._tries + 1, self._pace
        self._tries = tries
        now = self._clock.boot()
        if knock.arrived:
            self._knocked_at = knock.at
            self._suspicions = 0
            self._tries = len(pace.first_tries)
        elif tries > len(pace.first_tries):
            self._suspicions += 1
        soon = not knock.arrived and tries < len(pace.first_tries)
        if self._next_knock is None:
            self._next_knock = now + (pace.first_tries[tries] if soon else pace.public)
        if not knock.arrived:
            log.warning("a knock from outside did not arrive", address=address, reason=knock.reason)
        self._judge()

    def _stop_knocking(self) -> None:
        if self._knocking is not None:
            self._knocking.cancel()
            self._knocking = None

    # ----------------------------------------------------------------------------------------------- its word

    def _judge(self) -> None:
        look, knock = self._look, self._knock
        if not look.ready:
            self._say("degraded" if self._was_ready else "starting", look.reason)
        elif knock is None:
            if self._word != "up" or self._knocked_at is None:
                self._say("starting", "not tried from outside yet")
        elif not knock.arrived:
            hint = "" if self._kind.keeps_address else ". A new start of Onefill gets another address"
            self._say("degraded", f"{knock.reason}{hint if self._suspicions else ''}")
        elif knock.slow:
            took = knock.took / SECOND
            self._say("degraded", f"a knock from outside took {took:.1f} s: TradingView gives up after 3 s")
        else:
            self._say("up", f"reached from outside at {self._address}")

    def _say(self, word: Word, reason: str) -> None:
        if (word, reason) != (self._word, self._reason):
            if word != self._word:
                log.info("tunnel", kind=self._kind.name, word=word, reason=reason)
            self._word, self._reason = word, reason
            self._changed()

    async def _read_copied(self) -> None:
        """A command may have kept another one; what a person took in the window may not be kept yet."""
        found = await asyncio.to_thread(self._memory.copied)
        if found is not None and (self._copied is None or found.at > self._copied.at):
            self._copied = found
            self._changed()

    async def _keep_copied(self, copied: Copied) -> None:
        try:
            await asyncio.to_thread(self._memory.keep_copied, copied)
        except (OSError, ConfigError) as error:
            log.warning("which address was copied could not be kept", error=str(error))
