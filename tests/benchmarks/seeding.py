"""A long ledger in a short time: the real schema, filled past the writer, by a few large statements.

What it makes reads like the ledger of somebody who has received one alert after the other: a claim, its
delivery, a paper order that is over, and the event of the admission with a true hash; bodies for the newest
part, as if retention had dropped the others.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from app.clock import SECOND, SystemClock
from app.domain.alert import read_alert
from app.ledger.store import FILE_NAME
from app.ledger.transaction import GENESIS, event_hash
from app.listener.body import read_body
from tests.benchmarks.alerts import Alerts
from tests.benchmarks.costs import RULES
from tests.benchmarks.homes import make_home, open_prepared

SOURCE_ID = "benchmark"
SPAN = 365 * 86_400 * SECOND
"""Over which the claims are spread, up to two days ago."""


def fill(home: Path, claims: int, *, bodies: float = 0.1) -> None:
    """Makes a home whose ledger holds so many claims, and bodies of that part of them."""
    make_home(home)
    open_prepared(home).close()
    with contextlib.closing(_fast(home / FILE_NAME)) as connection:
        _fill(connection, claims, int(claims * bodies))
        connection.execute("COMMIT")


def _fast(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -500000", "foreign_keys = OFF"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    return connection


def _fill(connection: apsw.Connection, claims: int, bodies: int) -> None:
    raw = Alerts("seed").next()
    signal = msgspec.json.encode(read_alert(read_body(raw), RULES).signal).decode()
    step = SPAN // claims
    start = SystemClock().now() - 2 * 86_400 * SECOND - SPAN
    at, moment = f"{start} + id * {step}", f"{start} + ?1 * {step}"
    numbers = "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < ?)"
    connection.executemany(
        "INSERT INTO claims (id, digest, source_id, key, key_source, header_key, rule_version, "
        "raw_fingerprint, intent_fingerprint, signal, symbol, action, quantity, bar_time, signal_time, "
        f"first_received_at, admitted_at, deliveries) VALUES (?1, ?2, '{SOURCE_ID}', 'seeded-' || hex(?2), "
        f"'derived', 0, 1, ?2, ?2, ?3, 'AAPL', 'buy', '1', {moment}, {moment}, {moment}, {moment}, 1)",
        ((number, _digest(number), signal) for number in range(1, claims + 1)),
    )
    connection.execute(
        f"{numbers} INSERT INTO deliveries (id, received_at, source_id, verdict, http_status, fields, "
        f"detail, claim_id, key, warnings, ack_us) SELECT id, {at}, '{SOURCE_ID}', 'accepted', 200, '[]', "
        "'', id, 'seeded', '[]', 1500 FROM n",
        (claims,),
    )
    connection.execute(
        f"{numbers} INSERT INTO bodies (delivery_id, body) SELECT id, ? FROM n WHERE id > ?",
        (claims, raw.decode(), claims - bodies),
    )
    connection.execute(
        f"{numbers} INSERT INTO orders (claim_id, account, leg, generation, instrument, source_id, "
        "strategy, action, purpose, type, state, created_at, updated_at) "
        f"SELECT id, 'paper', 1, 1, 'AAPL', '{SOURCE_ID}', 'my-strategy', 'buy', 'entry', 'market', "
        f"'PENDING', {at}, {at} FROM n",
        (claims,),
    )
    connection.execute("UPDATE orders SET state = 'DONE', reason = 'NOTHING_TO_DO' WHERE state = 'PENDING'")
    last: list[Any] = connection.execute("SELECT id, hash FROM events ORDER BY id DESC LIMIT 1").fetchall()
    number, previous = last[0] if last else (0, GENESIS)
    connection.executemany(
        "INSERT INTO events (id, at, actor, what, subject, detail, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
        _events(claims, number, previous, start, step),
    )


def _events(claims: int, number: int, previous: bytes, start: int, step: int) -> Iterator[tuple[Any, ...]]:
    actor, what = "source:tradingview", "claimed"
    for claim in range(1, claims + 1):
        number += 1
        detail = f'{{"digest":"{_digest(claim).hex()}","key":"seeded-{claim}","key_source":"derived"}}'
        subject, at = f"S{claim}", start + claim * step
        previous = event_hash(previous, number, at, actor, what, subject, detail)
        yield number, at, actor, what, subject, detail, previous


def _digest(number: int) -> bytes:
    return hashlib.sha256(b"seeded %d" % number).digest()
