"""What the engine has to tell somebody: from Needs you, from its facts, from what happened. Reads only.

Who is told, and when, is the notify room's. Nothing here waits for a receiver, and the door and the lanes
know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import structlog

from app.clock import SECOND, Clock
from app.engine.commands import Answer
from app.engine.status import CommandRefused, Fact
from app.ledger.errors import LedgerUnavailable
from app.ledger.needs import Need, needs
from app.ledger.reader import Reader, read
from app.ledger.writer import Writer
from app.notify import Event, Item, Looked, Notifier, Pace, Show
from app.notify.item import CRITICAL, NOTE, WARNING
from app.secrets import Secrets
from app.settings import Notice
from app.tasks import Tasks

log = structlog.get_logger(__name__)

META = "notices"
"""Where the ledger keeps what was told."""
LOOK_EVERY = 2 * SECOND
"""How often the ledger is read at most, where something was committed."""
LOOK_ANYWAY = 30 * SECOND
"""Some things begin to need a person by time alone."""
MOST_ROWS = 10_000
"""Of each stream so many are looked through in one look."""

_PATIENCE = {"ambiguous": 15 * SECOND, "exit_waits": 20 * SECOND}
"""What most often settles itself: by the next look at the broker, or by the order before it."""
_SOON = 5 * SECOND
_FACTS = {
    "listener": ("Listener", CRITICAL, 10 * SECOND),
    "tunnel": ("Tunnel", CRITICAL, 60 * SECOND),
    "ledger": ("Ledger", CRITICAL, _SOON),
    "clock": ("Clock", WARNING, 30 * SECOND),
    "backup": ("Backup", WARNING, _SOON),
}
"""By name: title, how much it presses, and how long it must have stood."""
_ACCOUNT_PATIENCE = 30 * SECOND


class Notices:
    """`facts` are what the engine says of itself now; `changed` is called when `trouble` may have."""

    def __init__(
        self,
        notices: Sequence[Notice],
        writer: Writer,
        reader: Reader,
        clock: Clock,
        make_secrets: Callable[[], Secrets],
        facts: Callable[[], Sequence[Fact]],
        changed: Callable[[], None],
        pace: Pace | None = None,
    ) -> None:
        self.needs: list[Need] = []
        """Worst first, as last read."""
        self._notices = notices
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._make_secrets = make_secrets
        self._facts = facts
        self._changed = changed
        self._pace = pace
        self._kinds = {kind for notice in notices for kind in notice.kinds}
        self._notifier: Notifier | None = None
        self._show: Show | None = None
        self._dirty = True
        self._read_at: int | None = None

    async def start(self, tasks: Tasks) -> None:
        """Once the ledger is open. What an earlier run has told is not told again."""
        try:
            rows = await self._reader.rows("SELECT value FROM meta WHERE name = ?", (META,))
        except LedgerUnavailable as error:
            log.warning("what was told before cannot be read: it may be told again", ledger=str(error))
            rows = []
        self._notifier = Notifier(
            self._notices,
            self._look,
            self._keep,
            self._clock,
            self._make_secrets,
            self._changed,
            kept=rows[0]["value"] if rows else None,
            pace=self._pace,
        )
        self._notifier.show_on_desktop(self._show)
        tasks.start("notices", self._notifier.run())

    async def stop(self) -> None:
        """What is to be told now is told, within a moment; then nothing more is."""
        if self._notifier is not None:
            await self._notifier.stop()

    def hear(self, topics: frozenset[str]) -> None:
        """Something was committed; what this room itself keeps is no news."""
        if topics - {"meta", "status"}:
            self._dirty = True

    def show_on_desktop(self, show: Show | None) -> None:
        """Who shows a message on this screen; None when the window is gone."""
        self._show = show
        if self._notifier is not None:
            self._notifier.show_on_desktop(show)

    @property
    def pressing(self) -> list[Need]:
        """What needs a person, without what is only to be known."""
        return [need for need in self.needs if need.severity != "info"]

    def facts(self) -> list[Fact]:
        """Empty while all is well: nobody has to look at a notice that arrives."""
        trouble = self._notifier.trouble if self._notifier is not None else ""
        return [Fact("notices", "failing", "warning", trouble)] if trouble else []

    async def test(self, arguments: Mapping[str, Any]) -> Answer:
        """Sends a test to one receiver, or to all; by name: what became of it. Raises CommandRefused."""
        name = arguments.get("name")
        names = [notice.name for notice in self._notices]
        if name is not None and name not in names:
            raise CommandRefused(f"there is no [[notices]] {name!r} in force; there is: {', '.join(names)}")
        if self._notifier is None:
            raise CommandRefused("notices have not started yet")
        answers = await self._notifier.test([name] if name is not None else names)
        return {"notices": [{"name": each, "sent": not why, "why": why} for each, why in answers.items()]}

    # ------------------------------------------------------------------------------- what there is to tell

    async def _look(self, since: Mapping[str, int]) -> Looked:
        boot = self._clock.boot()
        waited = LOOK_ANYWAY if self._read_at is None else boot - self._read_at
        events: list[Event] = []
        heads: dict[str, int] = {}
        if waited >= LOOK_ANYWAY or (self._dirty and waited >= LOOK_EVERY):
            self._dirty, self._read_at = False, boot
            now, kinds = self._clock.now(), self._kinds
            try:
                self.needs, events, heads = await self._reader.call(
                    lambda db: (needs(db, now), *happened(db, since, kinds))
                )
            except LedgerUnavailable as error:
                # Its own fact says what is wrong; what needed a person a moment ago still does.
                log.debug("the ledger cannot be read to be told", ledger=str(error))
                self._dirty = True
        return Looked([*of_needs(self.needs), *of_facts(self._facts())], events, heads)

    async def _keep(self, text: str) -> None:
        await self._writer.run(lambda tx: tx.set_meta(META, text))


def of_needs(found: Sequence[Need]) -> list[Item]:
    """What stands in Needs you, but for mere notes."""
    return [
        Item(
            key=f"{need.kind} {need.subject}",
            kind="drift"
            if need.kind == "drift"
            else "critical"
            if need.severity == "critical"
            else "needs_you",
            text=need.text if need.subject in need.text else f"{need.subject}: {need.text}",
            rank=CRITICAL if need.severity == "critical" else WARNING,
            patience=_PATIENCE.get(need.kind, 0),
        )
        for need in found
        if need.severity != "info"
    ]


def of_facts(found: Sequence[Fact]) -> list[Item]:
    """What is wrong with a part of the program. How trading is set, and how fast the loop is, is no news."""
    return [item for fact in found if (item := _of_fact(fact)) is not None]


def _of_fact(fact: Fact) -> Item | None:
    name, _, account = fact.name.partition(":")
    key = f"fact {fact.name}"
    if name == "account":
        if fact.word == "other account":
            # Whose account it is, is nobody else's business.
            text = f"Account {account}: another account answers than before. Open Health before you trade on."
            return Item(key, "account", text, CRITICAL)
        if fact.level != "error" and fact.word != "blocked":
            return None
        title = f"Account {account}"
        return Item(
            key,
            "account",
            f"{title}: {fact.word}. {fact.reason}",
            CRITICAL,
            _ACCOUNT_PATIENCE,
            f"{title}: well again.",
        )
    if name == "program":
        kind = "stopping" if fact.word == "stopping" else "unwell"
        return Item(key, kind, fact.reason, CRITICAL, 0 if kind == "stopping" else _SOON)
    if name not in _FACTS or (fact.level != "error" and name != "backup"):
        return None
    title, rank, patience = _FACTS[name]
    text = f"{title}: {fact.word}. {fact.reason}"
    return Item(key, "unwell", text, rank, patience, f"{title}: well again.")


# ------------------------------------------------------------------------------------------- what happened

_MOVES = """SELECT e.id AS number, o.id, o.side, o.action, o.filled_quantity, o.quantity, o.average_price,
    o.account, o.ord_status, o.reason, c.symbol, s.name AS source, e.detail ->> '$.to' AS moved
    FROM events e CROSS JOIN orders o ON o.id = CAST(substr(e.subject, 2) AS INTEGER)
    JOIN claims c ON c.id = o.claim_id JOIN sources s ON s.id = o.source_id
    WHERE e.id > ? AND e.id <= ? AND e.what = 'order moved' AND e.detail ->> '$.to' IN ('DONE', 'DENIED')
    ORDER BY e.id"""
_REFUSED = """SELECT d.id AS number, s.name AS source, d.verdict, d.reason FROM deliveries d
    JOIN sources s ON s.id = d.source_id
    WHERE d.id > ? AND d.id <= ? AND d.verdict NOT IN ('accepted', 'duplicate') ORDER BY d.id"""


def happened(
    db: apsw.Connection, since: Mapping[str, int], kinds: set[str]
) -> tuple[list[Event], dict[str, int]]:
    """Orders filled, orders and deliveries refused, and up to where was read; nothing where nobody asks."""
    events: list[Event] = []
    heads: dict[str, int] = {}
    if kinds & {"filled", "refused"}:
        start, heads["E"] = _span(db, "events", since.get("E"))
        events += [_moved(row) for row in read(db, _MOVES, (start, heads["E"])) if _is_news(row)]
    if "refused" in kinds:
        start, heads["D"] = _span(db, "deliveries", since.get("D"))
        for row in read(db, _REFUSED, (start, heads["D"])):
            why = f" ({row['reason']})" if row["reason"] else ""
            text = f"An alert from {row['source']} was refused: {row['verdict'].replace('_', ' ')}{why}."
            events.append(Event("D", row["number"], "refused", text))
    return events, heads


def _span(db: apsw.Connection, table: str, since: int | None) -> tuple[int, int]:
    """From where to where is read: a bounded piece; where nobody has read yet, from now on."""
    newest = read(db, f"SELECT coalesce(max(id), 0) AS id FROM {table}")[0]["id"]
    start = newest if since is None else since
    return start, min(newest, start + MOST_ROWS)


def _is_news(row: Mapping[str, Any]) -> bool:
    return bool(row["moved"] == "DENIED" or row["ord_status"] == "Filled")


def _moved(row: Mapping[str, Any]) -> Event:
    if row["moved"] == "DENIED":
        why = (row["reason"] or "DENIED").partition(" ")[0]
        words = (row["side"] or row["action"], row["quantity"], row["symbol"])
        what = " ".join(word for word in words if word)
        text = f"O{row['id']} ({what} in {row['account']}, from {row['source']}) was denied: {why}."
        return Event("E", row["number"], "refused", text, NOTE)
    price = f" at {row['average_price']}" if row["average_price"] else ""
    filled = f"{row['side']} {row['filled_quantity']} {row['symbol']}{price}"
    text = f"O{row['id']} is filled: {filled} in {row['account']}, from {row['source']}."
    return Event("E", row["number"], "filled", text, NOTE)
