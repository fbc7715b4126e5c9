"""Looks at what there is to tell, and has it told: one task, beside everything and in nobody's way.

What was told is kept, so that a restart does not tell it again; where that cannot be kept now, it is kept
later. Nothing here raises into the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import structlog

from app.clock import SECOND, Clock
from app.ledger.errors import LedgerUnavailable
from app.notify.courier import TIMEOUT, Courier, NobodyThere, Show
from app.notify.item import NOTE, Event, Item, Message
from app.notify.outbox import Outbox, Times
from app.secrets import Secrets
from app.settings import Notice
from app.tasks import Tasks

log = structlog.get_logger(__name__)

STREAMS = ("D", "E")
"""What happens once is read from here on: deliveries, and the audit trail."""


@dataclass(frozen=True, slots=True)
class Looked:
    """`heads`: the newest number of each stream that was read."""

    standing: Sequence[Item]
    events: Sequence[Event] = ()
    heads: Mapping[str, int] = field(default_factory=dict)


Look = Callable[[Mapping[str, int]], Awaitable[Looked]]
"""Takes from where on each stream is to be read (one that is missing: from now on). May raise
LedgerUnavailable: then what was so a moment ago still is."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. `last`: how long a stop waits for what is still to be told."""

    beat: float = 1.0
    send: float = TIMEOUT
    last: float = 1.5
    save: float = 10.0
    """Where nothing but the place of reading has changed, it is kept this often."""
    times: Times = field(default_factory=Times)


class Remembered(msgspec.Struct):
    told: dict[str, int] = {}
    cursor: dict[str, int] = {}


class Notifier:
    """`keep` stores a text for the next run; `kept` is the one that the run before has stored."""

    def __init__(
        self,
        notices: Sequence[Notice],
        look: Look,
        keep: Callable[[str], Awaitable[None]],
        clock: Clock,
        make_secrets: Callable[[], Secrets],
        changed: Callable[[], None],
        *,
        kept: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.pace = pace or Pace()
        self.outboxes = [Outbox(notice, self.pace.times) for notice in notices if notice.kinds]
        self.couriers = {
            notice.name: Courier(notice, make_secrets, timeout=self.pace.send) for notice in notices
        }
        self._look = look
        self._keep = keep
        self._clock = clock
        self._changed = changed
        self._sending = Tasks()
        self._flights: set[asyncio.Task[None]] = set()
        self._told: object = None
        self._kept_at = clock.boot()
        self._looked = Looked(())
        self._stopping = False
        self._remember(kept)
        # A run in which nothing is told writes nothing.
        self._kept = self._text()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(self.pace.beat)

    async def stop(self) -> None:
        """The last chance: what is due now is sent, and a moment is waited for it."""
        if self._stopping:
            return
        self._stopping = True
        await self.turn(at_once=True)
        if self._flights:
            await asyncio.wait(self._flights, timeout=self.pace.last)
        await self._sending.stop()
        await self._save()

    def show_on_desktop(self, show: Show | None) -> None:
        """Who shows what goes to this screen; None when the window is gone."""
        for courier in self.couriers.values():
            if courier.notice.to == "desktop":
                courier.show = show

    @property
    def trouble(self) -> str:
        """What does not arrive and why, for a person; empty while all is well."""
        return "; ".join(
            f"{box.notice.name}: {box.reason} (tried {_times(box.failures)})"
            for box in self.outboxes
            if box.reason
        )

    async def test(self, names: Sequence[str]) -> dict[str, str]:
        """Sends a test to these receivers; by name: empty, or why it did not arrive."""
        text = "This is a test. Whoever reads it is told when Onefill needs somebody."
        message = Message("Onefill: a test notice", text, NOTE)
        answers = {name: await self._tested(self.couriers[name], message) for name in names}
        for box in self.outboxes:
            if answers.get(box.notice.name) == "" and box.reason:
                # Whoever has put it right does not wait for an hour.
                box.works_again()
                self._changed()
        return answers

    async def _tested(self, courier: Courier, message: Message) -> str:
        try:
            return await courier.bring(message)
        except NobodyThere:
            return "there is no window that could show it: it is shown while the window runs"

    # ------------------------------------------------------------------------------------------ one turn

    async def turn(self, *, at_once: bool = False) -> None:
        """Looks, and begins to send what is due."""
        cursors = {
            stream: min(found)
            for stream in STREAMS
            if (found := [box.cursor[stream] for box in self.outboxes if stream in box.cursor])
        }
        try:
            self._looked = await self._look(cursors)
        except LedgerUnavailable as error:
            log.debug("nothing can be read to be told", ledger=str(error))
            self._looked = Looked(self._looked.standing)
        boot = self._clock.boot()
        for box in self.outboxes:
            for stream, head in self._looked.heads.items():
                box.cursor.setdefault(stream, head)
            box.look(self._looked.standing, self._looked.events, boot)
            for stream, head in self._looked.heads.items():
                box.cursor[stream] = max(box.cursor[stream], head)
            message = box.due(boot, self._minute(), at_once=at_once)
            if message is not None:
                flight = self._sending.start(f"notice {box.notice.name}", self._send(box, message))
                self._flights.add(flight)
                flight.add_done_callback(self._flights.discard)
        told = [list(box.told) for box in self.outboxes]
        if told != self._told or boot - self._kept_at > self.pace.save * SECOND:
            self._told, self._kept_at = told, boot
            await self._save()

    def _minute(self) -> int:
        """Of the day, by this computer's own clock."""
        local = datetime.fromtimestamp(self._clock.now() // SECOND, UTC).astimezone()
        return local.hour * 60 + local.minute

    async def _send(self, box: Outbox, message: Message) -> None:
        courier, was = self.couriers[box.notice.name], box.reason
        try:
            reason = await courier.bring(message, late=lambda: self._arrived_late(box, message))
        except NobodyThere:
            box.put_back()
            return
        box.sent(message, self._clock.boot(), reason)
        if reason:
            log.warning("a notice did not arrive", to=box.notice.name, why=reason, tries=box.failures)
        else:
            log.info("notice sent", to=box.notice.name, things=len(message.keys))
        if box.reason != was:
            self._changed()

    def _arrived_late(self, box: Outbox, message: Message) -> None:
        box.heard(message, self._clock.boot())
        self._changed()

    # ------------------------------------------------------------------------------------------ remembering

    def _remember(self, kept: str | None) -> None:
        if not kept:
            return
        try:
            known = msgspec.json.decode(kept, type=dict[str, Remembered])
        except msgspec.DecodeError:
            log.warning("what was told before cannot be read: it may be told again")
            return
        for box in self.outboxes:
            mine = known.get(box.notice.name)
            if mine is not None:
                box.remember(mine.told, mine.cursor)

    async def _save(self) -> None:
        text = self._text()
        if text == self._kept:
            return
        try:
            await self._keep(text)
        except LedgerUnavailable as error:
            log.debug("what was told is kept later", ledger=str(error))
            return
        self._kept = text

    def _text(self) -> str:
        return msgspec.json.encode({box.notice.name: box.remembered() for box in self.outboxes}).decode()


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
