"""Retention: bodies are dropped, and keys forgotten, in small batches that no claim has to wait for.

Nothing that is open, unresolved, watched or in conflict is touched, and no order, claim, delivery or event is
ever deleted. A key is forgotten only behind a watermark that is on disk already (HOLES H40).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import apsw
import msgspec

from app.clock import SECOND
from app.failpoint import failpoint
from app.ledger.queries import rfc3339
from app.ledger.reader import Reader
from app.ledger.transaction import Row, Transaction
from app.ledger.writer import Writer

PAGE = 1_000
"""Rows that one read looks at."""
BATCH = 50
"""Rows that one write changes at most ..."""
BATCH_BYTES = 256 * 1024
"""... and bytes of bodies: a write stays below 5 ms on a disk that syncs in 1 ms."""
PAUSE = 0.002
"""Seconds between two writes, so that claims have the writer for themselves in between."""
SKEW = 30 * SECOND
"""How far the time that a signal states may be ahead of its receipt (CONTRACT 3, 'Freshness')."""

SETTLED = ("conflict admitted", "conflict dismissed")
"""Events about a delivery (subject `D12`) after which its conflict waits for nobody any more."""

_OPEN = """EXISTS (
    SELECT 1 FROM orders o WHERE o.claim_id = {claim} AND (
        o.state NOT IN ('DONE', 'DENIED', 'NOT_PLACED') OR (o.state = 'NOT_PLACED' AND o.updated_at > ?2)
    )
)"""

_BODY_GOES = f"""d.received_at <= ?1 AND d.needs IS NULL
    AND (d.verdict <> 'conflict' OR EXISTS (
        SELECT 1 FROM events e WHERE e.subject = 'D' || d.id AND e.what IN {SETTLED!r}
    ))
    AND NOT {_OPEN.format(claim="d.claim_id")}"""

# Every copy of a signal that names its bar states that bar's time at the least. One that names none may have
# had a copy without any time, so it goes only if it came once. What was ever in conflict stays: the other
# body may state no time.
_KEY_GOES = f"""c.signal_time IS NOT NULL AND max(c.signal_time, coalesce(c.bar_time, c.signal_time)) <= ?1
    AND c.forgotten_at IS NULL AND c.unanswered = 0 AND c.admitted_at <= ?1 - {SKEW}
    AND (c.bar_time IS NOT NULL OR (SELECT count(*) FROM deliveries d WHERE d.claim_id = c.id) <= 1)
    AND NOT EXISTS (
        SELECT 1 FROM deliveries d
        WHERE d.claim_id = c.id AND (d.verdict = 'conflict' OR d.received_at > ?1 - {SKEW})
    )
    AND NOT {_OPEN.format(claim="c.id")}"""


@dataclass(frozen=True, slots=True)
class Cutoffs:
    """What is not younger goes; UTC microseconds, None leaves the kind alone. An order that was called absent
    after `ghosts` is still watched."""

    bodies: int | None
    keys: int | None
    ghosts: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a purge would take. `keys` by source id; `_kept` is old enough and stays all the same."""

    bodies: int = 0
    bodies_kept: int = 0
    keys: Mapping[str, int] = field(default_factory=dict)
    keys_kept: int = 0


@dataclass(frozen=True, slots=True)
class Purged:
    bodies: int
    keys: int


@dataclass(frozen=True, slots=True)
class _Page:
    """Rows that were looked at: those that go, with their bytes, how many stay though old, where to go on."""

    going: list[tuple[int, int, str]]
    kept: int
    last: int | None


async def measure(reader: Reader, cutoffs: Cutoffs) -> Plan:
    """Counts, changing nothing."""
    bodies = bodies_kept = keys_kept = 0
    keys: dict[str, int] = {}
    after: int | None = 0
    while after is not None:
        page = await reader.call(partial(_body_page, cutoffs=cutoffs, after=after))
        bodies += len(page.going)
        bodies_kept += page.kept
        after = page.last
    after = 0
    while after is not None:
        page = await reader.call(partial(_key_page, cutoffs=cutoffs, after=after))
        for _, _, source in page.going:
            keys[source] = keys.get(source, 0) + 1
        keys_kept += page.kept
        after = page.last
    return Plan(bodies, bodies_kept, keys, keys_kept)


async def purge(
    writer: Writer, reader: Reader, plan: Plan, cutoffs: Cutoffs, *, at: int, actor: str, why: str
) -> Purged:
    """Drops the bodies and forgets the keys of a plan, a batch a write, and returns how many it were.

    May be cut off at any point and begun anew. Raises LedgerUnavailable.
    """
    if not plan.bodies and not plan.keys:
        return Purged(0, 0)
    await writer.run(partial(begin, plan=plan, cutoffs=cutoffs, at=at, actor=actor, why=why))
    bodies = keys = 0
    after: int | None = 0
    while after is not None and plan.bodies:
        page = await reader.call(partial(_body_page, cutoffs=cutoffs, after=after))
        for batch in _batches(page.going):
            failpoint("between_purge_batches")
            bodies += await writer.run(partial(drop_bodies, deliveries=batch, cutoffs=cutoffs))
            await asyncio.sleep(PAUSE)
        after = page.last
    after = 0
    while after is not None and plan.keys:
        page = await reader.call(partial(_key_page, cutoffs=cutoffs, after=after))
        for batch in _batches(page.going):
            failpoint("between_purge_batches")
            keys += await writer.run(partial(forget_keys, claims=batch, cutoffs=cutoffs, at=at))
            await asyncio.sleep(PAUSE)
        after = page.last
    return Purged(bodies, keys)


def begin(tx: Transaction, plan: Plan, cutoffs: Cutoffs, *, at: int, actor: str, why: str) -> None:
    """Says what is about to go, and sets the watermark of every source whose keys are among it.

    In a transaction of its own: no key may go before its commit. A new era keeps the client order ids of a
    key that is claimed again apart from those of the forgotten one (HOLES H12).
    """
    if cutoffs.keys is not None:
        for source in plan.keys:
            sql = "UPDATE sources SET watermark = max(coalesce(watermark, 0), ?), era = era + 1 WHERE id = ?"
            tx.change("sources", sql, (cutoffs.keys, source))
    detail = {
        "bodies": plan.bodies,
        "bodies_before": None if cutoffs.bodies is None else rfc3339(cutoffs.bodies),
        "keys": sum(plan.keys.values()),
        "keys_before": None if cutoffs.keys is None else rfc3339(cutoffs.keys),
        "why": why,
    }
    tx.event(at, actor, "purge begun", "ledger", detail)


def drop_bodies(tx: Transaction, deliveries: Iterable[int], cutoffs: Cutoffs) -> int:
    """Deletes the bodies of these deliveries as far as they may go now."""
    if cutoffs.bodies is None:
        return 0
    sql = (
        "DELETE FROM bodies WHERE delivery_id IN (SELECT d.id FROM deliveries d "
        f"WHERE d.id IN (SELECT value FROM json_each(?3)) AND {_BODY_GOES})"
    )
    return tx.change("bodies", sql, (cutoffs.bodies, cutoffs.ghosts, _json(deliveries)))


def forget_keys(tx: Transaction, claims: Iterable[int], cutoffs: Cutoffs, at: int) -> int:
    """Takes key and digest from these claims, as far as they may go now and the watermark covers them.

    The row stays: signal, orders, deliveries and audit trail go on saying what happened. The digest becomes
    one that no key has, and the key a text that says so.
    """
    if cutoffs.keys is None:
        return 0
    sql = (
        "UPDATE claims SET digest = CAST(printf('%032d', id) AS BLOB), key = '(forgotten S' || id || ')', "
        "forgotten_at = ?4 WHERE id IN (SELECT c.id FROM claims c JOIN sources s ON s.id = c.source_id "
        f"WHERE c.id IN (SELECT value FROM json_each(?3)) AND s.watermark >= ?1 AND {_KEY_GOES})"
    )
    return tx.change("claims", sql, (cutoffs.keys, cutoffs.ghosts, _json(claims), at))


# ------------------------------------------------------------------------------------------------- reading


def _body_page(connection: apsw.Connection, cutoffs: Cutoffs, after: int) -> _Page:
    sql = (
        "WITH page AS (SELECT delivery_id AS id, octet_length(body) AS bytes FROM bodies "
        "WHERE delivery_id > ?3 ORDER BY delivery_id LIMIT ?4) "
        f"SELECT page.id, page.bytes, d.source_id, d.received_at <= ?1, {_BODY_GOES} "
        "FROM page JOIN deliveries d ON d.id = page.id ORDER BY page.id"
    )
    return _page(connection, sql, cutoffs.bodies, cutoffs.ghosts, after)


def _key_page(connection: apsw.Connection, cutoffs: Cutoffs, after: int) -> _Page:
    sql = (
        "WITH page AS (SELECT id FROM claims WHERE id > ?3 ORDER BY id LIMIT ?4) "
        f"SELECT c.id, 0, c.source_id, c.admitted_at <= ?1 AND c.forgotten_at IS NULL, {_KEY_GOES} "
        "FROM page JOIN claims c ON c.id = page.id ORDER BY c.id"
    )
    return _page(connection, sql, cutoffs.keys, cutoffs.ghosts, after)


def _page(connection: apsw.Connection, sql: str, cutoff: int | None, ghosts: int, after: int) -> _Page:
    if cutoff is None:
        return _Page([], 0, None)
    rows: list[Row] = connection.execute(sql, (cutoff, ghosts, after, PAGE)).fetchall()
    going = [(number, size, source) for number, size, source, _, goes in rows if goes]
    kept = sum(1 for *_, old, goes in rows if old and not goes)
    return _Page(going, kept, rows[-1][0] if len(rows) == PAGE else None)


def _batches(going: Iterable[tuple[int, int, str]]) -> Iterator[list[int]]:
    batch: list[int] = []
    total = 0
    for number, size, _ in going:
        if batch and (len(batch) >= BATCH or total + size > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(number)
        total += size
    if batch:
        yield batch


def _json(numbers: Iterable[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()
