"""Repeats of signals with what came first under their key, for a hint at why they come. Reads only."""

from __future__ import annotations

import apsw

from app.ledger.reader import Row, read

MOST = 200

_REPEAT = """
    SELECT s.name AS source, d.id, d.received_at, d.claim_id,
        f.received_at AS first_at, fb.body AS first_body, b.body AS body,
        (SELECT p.http_status FROM deliveries p WHERE p.claim_id = d.claim_id AND p.id < d.id
            ORDER BY p.id DESC LIMIT 1) AS answered,
        (SELECT count(*) FROM deliveries p WHERE p.claim_id = d.claim_id AND p.id < d.id
            AND p.verdict = 'duplicate') + 1 AS number
    FROM deliveries d
    JOIN sources s ON s.id = d.source_id
    JOIN deliveries f ON f.id = (SELECT min(id) FROM deliveries WHERE claim_id = d.claim_id)
    LEFT JOIN bodies fb ON fb.delivery_id = f.id
    LEFT JOIN bodies b ON b.delivery_id = d.id
"""


def repeats_since(connection: apsw.Connection, since: int) -> list[Row]:
    """The newest duplicates since then (UTC microseconds), newest first, each with the first of its key."""
    sql = (
        f"{_REPEAT} WHERE d.id IN (SELECT id FROM deliveries WHERE verdict = 'duplicate' "
        f"AND received_at >= ? ORDER BY id DESC LIMIT {MOST}) ORDER BY d.id DESC"
    )
    return read(connection, sql, (since,))


def repeat(connection: apsw.Connection, delivery: int) -> Row | None:
    """The same of one duplicate."""
    rows = read(connection, f"{_REPEAT} WHERE d.id = ? AND d.verdict = 'duplicate'", (delivery,))
    return rows[0] if rows else None
