"""The deliveries of the past for the key lab: bodies and claims read in pieces on the reader's thread.

Read only. A body that is gone or cannot be read any more is counted, never guessed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import apsw

from app.domain.alert import AlertRules, read_alert
from app.domain.keylab import Composition, Seen, Trial, Verdict
from app.domain.signal import InvalidSignal
from app.engine.parts import alert_rules
from app.listener.body import read_body
from app.settings import Settings, Source

T = TypeVar("T")

PIECE = 200
"""Deliveries read at once: about 60 ms of the reader's thread, so that others get their turn."""
TRIED = 500
"""Keys that are made at once, for the same reason."""
MOST = 20_000
"""The newest deliveries that are looked at: more would take minutes and a gigabyte."""


class Reads(Protocol):
    async def call(self, work: Callable[[apsw.Connection], T]) -> T: ...


@dataclass(slots=True)
class Past:
    """What was read of one source, oldest first. `without_body` and `unreadable` are deliveries left out."""

    source_id: str
    seen: list[Seen]
    without_body: int = 0
    unreadable: int = 0
    total: int = 0
    """Deliveries that were there to be read, at most MOST."""


_SQL = """
    SELECT d.id, d.claim_id, d.received_at, d.key, c.key_source, c.header_key, b.body
    FROM deliveries d
    JOIN claims c ON c.id = d.claim_id
    LEFT JOIN bodies b ON b.delivery_id = d.id
    WHERE d.source_id = ? AND d.id < ? AND d.verdict IN ('accepted', 'duplicate')
    ORDER BY d.id DESC LIMIT ?
"""


async def read_past(
    reader: Reads, settings: Settings, source: Source, most: int = MOST
) -> AsyncIterator[Past]:
    """Yields the same Past, filled further, after each piece; the last one is whole."""
    rules = alert_rules(settings, source)
    past = Past(source.id, [])
    last = 2**62
    while past.total < most:
        rows = await reader.call(
            partial(_piece, source_id=source.id, before=last, size=min(PIECE, most), rules=rules)
        )
        if not rows:
            break
        for number, seen, is_there in rows:
            past.total += 1
            past.without_body += not is_there
            past.unreadable += is_there and seen is None
            if seen is not None:
                past.seen.append(seen)
            last = number
        yield past
    past.seen.reverse()
    yield past


def _piece(
    db: apsw.Connection, source_id: str, before: int, size: int, rules: AlertRules
) -> list[tuple[int, Seen | None, bool]]:
    """On the reader's thread: rows and their parsing both."""
    found: list[tuple[int, Seen | None, bool]] = []
    rows: list[tuple[Any, ...]] = db.execute(_SQL, (source_id, before, size)).fetchall()
    for row in rows:
        body = row[6]
        found.append((row[0], None if body is None else _seen(row, body, rules), body is not None))
    return found


def _seen(row: tuple[Any, ...], body: str, rules: AlertRules) -> Seen | None:
    delivery, claim, at, key, key_source, header_key, _ = row
    try:
        alert = read_alert(read_body(body.encode()), rules)
    except InvalidSignal:
        return None
    in_header = key_source == "header" or bool(header_key)
    return Seen(delivery=delivery, signal_id=claim, at=at, alert=alert, header_key=key if in_header else None)


async def try_composition(
    reader: Reads, past: Past, composition: Composition, is_wanted: Callable[[], bool] = lambda: True
) -> Verdict | None:
    """On the reader's thread, in pieces too: hashing thousands of keys would hold up the loop and the views.

    None where nobody wants it any more.
    """
    trial = Trial(past.source_id, composition)
    for start in range(0, len(past.seen), TRIED):
        if not is_wanted():
            return None
        piece = past.seen[start : start + TRIED]
        await reader.call(lambda _, piece=piece: trial.feed(piece))  # type: ignore[misc]
    return trial.verdict
