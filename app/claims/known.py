"""What the ledger knows of a key: the claim under it, how far away that is, and whether a repeat agrees.

Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from app.claims.base import Delivery
from app.domain.key import ChosenKey, claim_digest, keys_of_earlier_rules
from app.domain.repeat import Conflict, FirstSighting, judge_repeat, other_intent, window_is_open
from app.domain.signal import KeySource, Signal
from app.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of `claims`. `unanswered`: its sender was told 503, and nothing of it was ever sent."""

    id: int
    digest: bytes
    key_source: str
    header_key: bool
    opened_run: str | None
    opened_boot: int | None
    rule_version: int
    intent: bytes
    signal: Signal
    first_received_at: int
    admitted_at: int
    deliveries: int
    unanswered: bool

    def apart(self, delivery: Delivery, run: str) -> int:
        """Microseconds from the admission to this delivery.

        Within one run of the program only the clock that never steps is asked: a set wall clock must neither
        close a window early nor hold it open for an hour (HOLES H14).
        """
        if self.opened_run == run and self.opened_boot is not None:
            return delivery.received_boot - self.opened_boot
        return delivery.received_at - self.admitted_at


@dataclass(frozen=True, slots=True)
class Known:
    """A key that is known. `conflict` says why it does not name this delivery's signal, if so."""

    claim: Claim
    apart: int
    conflict: Conflict | None


_COLUMNS = """
    id, digest, key_source, header_key, opened_run, opened_boot, rule_version, intent_fingerprint, signal,
    first_received_at, admitted_at, deliveries,
    unanswered AND NOT EXISTS (
        SELECT 1 FROM attempts a JOIN orders o ON o.id = a.order_id WHERE o.claim_id = claims.id
    )
"""


def look_up(tx: Transaction, run: str, delivery: Delivery, signal: Signal, key: ChosenKey) -> Known | None:
    """The claim that this key names now, or None: the key is free. A closed window is free.

    A key that we made may stand in the ledger as an earlier rule made it (HOLES H41).
    """
    for name in (key, *keys_of_earlier_rules(delivery.source_id, signal, key)):
        known = _named(tx, run, delivery, signal, name)
        if known is not None:
            return known
    return None


def _named(tx: Transaction, run: str, delivery: Delivery, signal: Signal, key: ChosenKey) -> Known | None:
    claim = find(tx, delivery.source_id, key)
    if claim is None:
        return None
    apart = claim.apart(delivery, run)
    if key.source is KeySource.WINDOW and not window_is_open(apart):
        return None
    first = FirstSighting(claim.signal, claim.rule_version, claim.intent, claim.header_key)
    # After a 503 whatever asks for the same is admitted, whenever it comes (HOLES H17).
    conflict = (
        other_intent(first, signal)
        if claim.unanswered
        else judge_repeat(first, signal, apart=apart, header_key=key.from_header)
    )
    return Known(claim, apart, conflict)


def find(tx: Transaction, source_id: str, key: ChosenKey) -> Claim | None:
    """The claim under a key; of a window key the one that was opened last."""
    if key.source is KeySource.WINDOW:
        row = tx.one(
            f"SELECT {_COLUMNS} FROM claims WHERE source_id = ? AND key = ? AND key_source = 'window' "
            "ORDER BY epoch DESC LIMIT 1",
            (source_id, key.key),
        )
    else:
        digest = claim_digest(source_id, key.key, None)
        row = tx.one(f"SELECT {_COLUMNS} FROM claims WHERE digest = ?", (digest,))
    return None if row is None else _claim(row)


def next_epoch(tx: Transaction, source_id: str, key: str, now: int) -> int:
    """The epoch of a window that opens now: later than every one before it, even if the clock was set back.

    So epochs of a key never repeat, and the greatest is the newest.
    """
    sql = "SELECT max(epoch) FROM claims WHERE source_id = ? AND key = ? AND key_source = 'window'"
    row = tx.one(sql, (source_id, key))
    return now if row is None or row[0] is None else max(now, row[0] + 1)


def _claim(row: tuple[Any, ...]) -> Claim:
    claim_id, digest, key_source, header_key, run, boot, version, intent, signal, *times, unanswered = row
    first_received_at, admitted_at, deliveries = times
    return Claim(
        id=claim_id,
        digest=digest,
        key_source=key_source,
        header_key=bool(header_key),
        opened_run=run,
        opened_boot=boot,
        rule_version=version,
        intent=intent,
        signal=msgspec.json.decode(signal, type=Signal),
        first_received_at=first_received_at,
        admitted_at=admitted_at,
        deliveries=deliveries,
        unanswered=bool(unanswered),
    )
