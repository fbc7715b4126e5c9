"""What one receiver is still to be told, when, and what it was told already. Pure: times are arguments.

Each thing is told once. A burst becomes one message, a receiver that fails is tried ever more rarely, and
nothing grows: what is too much is only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.clock import SECOND
from app.notify.item import CRITICAL, NOTE, Event, Item, Message
from app.notify.wording import message
from app.settings import Notice

MOST_WAITING = 200
MOST_TOLD = 2_000
FORGET = 30 * 60 * SECOND
"""What was told and is over may be told again after so long: what comes and goes is not told each time."""
LASTING = 5 * 60 * SECOND
"""What was told to be well again and is not, is told again once it has lasted so long."""
TOO_OLD = 24 * 3_600 * SECOND
"""An event that could not be told for so long is not told any more."""


@dataclass(frozen=True, slots=True)
class Times:
    """In microseconds. `batch`: how long the first thing waits for others; `gap`: between two messages;
    `again`: waits after one, two, ... failures, the last one for ever."""

    batch: int = 5 * SECOND
    gap: int = 30 * SECOND
    urgent_gap: int = 10 * SECOND
    again: tuple[int, ...] = tuple(seconds * SECOND for seconds in (5, 15, 60, 300, 900, 3_600))
    patience: float = 1.0
    """What patience is multiplied by."""


@dataclass(slots=True)
class _Told:
    rank: int
    kind: str = ""
    over: str = ""
    gone: int | None = None
    """Since when it is over."""
    over_said: bool = False


@dataclass(slots=True)
class _Waiting:
    thing: Item | Event
    since: int


@dataclass(slots=True)
class Outbox:
    """Times are microseconds of the clock that never steps, but `minute`: of the day, where the person is."""

    notice: Notice
    times: Times = field(default_factory=Times)
    reason: str = ""
    """Why the last try failed; empty while all is well."""
    failures: int = 0
    next_try: int = 0
    cursor: dict[str, int] = field(default_factory=dict)
    """By stream: up to here everything was told, or was not for this receiver."""
    _told: dict[str, _Told] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _waiting: dict[str, _Waiting] = field(default_factory=dict)
    _more: Counter[str] = field(default_factory=Counter)
    _flying: frozenset[str] = frozenset()
    _flying_more: Counter[str] = field(default_factory=Counter)

    # ------------------------------------------------------------------------------- what there is to tell

    def look(self, standing: Iterable[Item], events: Iterable[Event], boot: int) -> None:
        """`standing` is all that is so now; `events` what has happened since the look before."""
        now = {item.key: item for item in standing if item.kind in self.notice.kinds}
        for item in now.values():
            self._stands(item, boot)
        for key in [key for key in self._seen if key not in now]:
            del self._seen[key]
        for key, told in list(self._told.items()):
            if key not in now:
                self._ended(key, told, boot)
        for key, waiting in list(self._waiting.items()):
            is_over = isinstance(waiting.thing, Item) and waiting.thing.rank > NOTE and key not in now
            if key not in self._flying and (is_over or boot - waiting.since > TOO_OLD):
                del self._waiting[key]
        for event in events:
            if event.number > self.cursor.get(event.stream, 0):
                if event.kind in self.notice.kinds:
                    self._add(event, boot)
                self.cursor[event.stream] = event.number

    def _stands(self, item: Item, boot: int) -> None:
        first = self._seen.setdefault(item.key, boot)
        told = self._told.get(item.key)
        if told is not None:
            told.gone = None
            lasts = told.over_said and boot - first >= LASTING * self.times.patience
            if told.rank >= item.rank and not lasts:
                return
        if item.key in self._waiting or boot - first >= item.patience * self.times.patience:
            self._add(item, boot)

    def _ended(self, key: str, told: _Told, boot: int) -> None:
        if told.gone is None:
            told.gone = boot
            if told.over:
                self._add(Item(f"over {key}", told.kind, told.over, NOTE), boot)
                told.over, told.over_said = "", True
        elif boot - told.gone > FORGET:
            del self._told[key]

    def _add(self, thing: Item | Event, boot: int) -> None:
        waiting = self._waiting.get(thing.key)
        if waiting is not None:
            waiting.thing = thing
        elif len(self._waiting) < MOST_WAITING or thing.rank == CRITICAL:
            self._waiting[thing.key] = _Waiting(thing, boot)
        elif isinstance(thing, Event):
            # What stands is found again at the next look; an event is at least counted.
            self._more[thing.kind] += 1

    # ------------------------------------------------------------------------------------ when it is told

    def due(self, boot: int, minute: int, *, at_once: bool = False) -> Message | None:
        """The next message, if one is to be sent now; `sent` must follow. `at_once`: the last chance."""
        if self._flying:
            return None
        urgent = any(each.thing.rank == CRITICAL for each in self._waiting.values())
        if boot < self.next_try and not (at_once and urgent):
            return None
        quiet = self._is_quiet(minute)
        things = [each for each in self._waiting.values() if not quiet or each.thing.rank == CRITICAL]
        if not things:
            return None
        waited = boot - min(each.since for each in things)
        if not at_once and waited < self.times.batch:
            return None
        self._flying_more = Counter() if quiet else Counter(self._more)
        made = message([each.thing for each in things], self._flying_more)
        self._flying = frozenset(made.keys)
        return made

    def sent(self, told: Message, boot: int, reason: str = "") -> None:
        """What became of it: delivered, or why not."""
        self._flying = frozenset()
        if reason:
            self.failures += 1
            self.reason = reason
            self.next_try = boot + self.times.again[min(self.failures, len(self.times.again)) - 1]
            return
        self.heard(told, boot)

    def heard(self, told: Message, boot: int) -> None:
        """Delivered, perhaps so late that it had counted as failed."""
        self.failures, self.reason = 0, ""
        for key in told.keys:
            waiting = self._waiting.pop(key, None)
            if waiting is not None and isinstance(waiting.thing, Item) and waiting.thing.rank > NOTE:
                self._told[key] = _Told(waiting.thing.rank, waiting.thing.kind, waiting.thing.over)
        self._more -= self._flying_more
        self._flying_more = Counter()
        while len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
        urgent = any(each.thing.rank == CRITICAL for each in self._waiting.values())
        self.next_try = boot + (self.times.urgent_gap if urgent else self.times.gap)

    def works_again(self) -> None:
        """Something else has arrived there: what waits need not wait for its next try."""
        self.failures, self.reason, self.next_try = 0, "", 0

    def put_back(self) -> None:
        """It was not even tried: there was nobody to show it to."""
        self._flying = frozenset()

    def _is_quiet(self, minute: int) -> bool:
        span = self.notice.quiet
        if span is None:
            return False
        if span.start < span.end:
            return span.start <= minute < span.end
        return minute >= span.start or minute < span.end

    @property
    def told(self) -> tuple[str, ...]:
        """The keys of what was told and is still remembered."""
        return tuple(self._told)

    # ----------------------------------------------------------------------------------- what is remembered

    def remembered(self) -> dict[str, object]:
        """What a later run has to know, so that nothing is told twice and nothing is left out."""
        cursor = dict(self.cursor)
        for waiting in self._waiting.values():
            if isinstance(waiting.thing, Event):
                stream = waiting.thing.stream
                cursor[stream] = min(cursor.get(stream, 0), waiting.thing.number - 1)
        return {"told": {key: told.rank for key, told in self._told.items()}, "cursor": cursor}

    def remember(self, told: Mapping[str, int], cursor: Mapping[str, int]) -> None:
        self._told = {key: _Told(rank) for key, rank in list(told.items())[-MOST_TOLD:]}
        self.cursor = dict(cursor)
