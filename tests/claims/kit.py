"""One ledger and the claim's transaction alone: no writer, no door, no lanes. Time stands still.

What a test says is read from JSON and given a key as the door does it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import apsw

from app.claims.admission import admit
from app.claims.base import Admission, Delivery, Verdict
from app.claims.rows import Context
from app.claims.voided import apply_voided, mark_unanswered
from app.clock import SECOND, ManualClock
from app.domain.alert import AlertRules, read_alert
from app.domain.key import ChosenKey, HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.domain.signal import Signal
from app.ledger import orders
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from app.listener.body import read_body

T = TypeVar("T")
MINUTE = 60 * SECOND

SOURCE = "tv-id"
ADMISSION = Admission(
    source_id=SOURCE,
    source="tv",
    accounts=("paper",),
    max_age=90 * SECOND,
    max_exit_age=15 * MINUTE,
    max_order_age=60 * SECOND,
    admit_exits=False,
    entries_per_minute=0,
)


@dataclass(frozen=True)
class Alert:
    """A delivery as the door hands it over."""

    admission: Admission
    delivery: Delivery
    signal: Signal
    key: ChosenKey


class Bench:
    """`admission` holds for every delivery that says nothing else."""

    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.connection = self.open(home)
        self.admission = ADMISSION
        self.policy = KeyPolicy()
        self.runs = 1
        self.write(self._name_everything)

    def open(self, home: Path) -> apsw.Connection:
        return open_ledger(home, self.clock.now())

    def close(self) -> None:
        self.connection.close()

    # ------------------------------------------------------------------ deliveries

    def alert(
        self,
        key: str | None = "k1",
        *,
        header: str | None = None,
        admission: Admission | None = None,
        **fields: Any,
    ) -> Alert:
        """An alert of now. Without `key` and `header` it is derived or a window; a field None is not sent."""
        body = {"key": key, "symbol": "AAPL", "action": "buy", "quantity": "1", "price": "100", **fields}
        raw = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        admission = admission or self.admission
        read = read_alert(read_body(raw), AlertRules())
        headers = HeaderKeys(idempotency_key=() if header is None else (header,))
        chosen = choose_key(admission.source_id, read, headers, self.policy)
        delivery = Delivery(
            admission.source_id, self.clock.now(), self.clock.boot(), raw.decode(), raw_fingerprint(raw)
        )
        return Alert(admission, delivery, read.signal, chosen)

    def decide(self, alert: Alert) -> Verdict:
        return self.write(lambda tx: self.admit(tx, alert))

    def deliver(self, key: str | None = "k1", **fields: Any) -> Verdict:
        return self.decide(self.alert(key, **fields))

    def refused(self, alert: Alert, verdict: Verdict) -> None:
        """What the writer does in the next transaction when the sender was told 503."""
        self.write(lambda tx: mark_unanswered(tx, alert.delivery, verdict))

    def deliver_late(self, key: str | None = "k1", **fields: Any) -> Verdict:
        """Claimed, but the sender was told 503 meanwhile."""
        alert = self.alert(key, **fields)
        verdict = self.decide(alert)
        self.refused(alert, verdict)
        return verdict

    def admit(self, tx: Transaction, alert: Alert) -> Verdict:
        context = Context(f"run-{self.runs}", lambda account, symbol, _exchange: f"{symbol}@{account}")
        verdict = admit(tx, context, alert.admission, alert.delivery, alert.signal, alert.key)
        if verdict.kind == "accepted":
            # The outcome of a first claim is put together, not read: it has to be what reading finds.
            assert verdict.claim_id is not None
            assert verdict.outcome == orders.outcome(tx, verdict.claim_id)
        return verdict

    # ------------------------------------------------------------------ the world around

    def restart(self) -> int:
        """Another run of the program on this ledger; returns how many claims its start has marked."""
        self.runs += 1
        return self.write(apply_voided)

    def later(self, seconds: float) -> None:
        self.clock.advance(round(seconds * SECOND))

    def set(self, **changes: Any) -> None:
        """Other settings of the source from now on."""
        self.admission = replace(self.admission, **changes)

    def hold(self, quantity: str, account: str = "paper", symbol: str = "AAPL") -> None:
        """The book of the source, of no strategy, moves by a signed quantity."""
        instrument = f"{symbol}@{account}"
        self.write(lambda tx: orders.add_to_book(tx, account, instrument, SOURCE, "", Decimal(quantity)))

    def watermark(self, at: int) -> None:
        self.write(lambda tx: tx.execute("UPDATE sources SET watermark = ? WHERE id = ?", (at, SOURCE)))

    # ------------------------------------------------------------------ the ledger

    def write(self, operation: Callable[[Transaction], T]) -> T:
        with self.transaction() as tx:
            return operation(tx)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.connection.execute("BEGIN IMMEDIATE").fetchall()
        try:
            yield Transaction(self.connection, set())
        except BaseException:
            self.connection.execute("ROLLBACK").fetchall()
            raise
        self.connection.execute("COMMIT").fetchall()

    @contextmanager
    def undone(self) -> Iterator[Transaction]:
        """A transaction of which nothing is left on disk."""
        self.connection.execute("BEGIN IMMEDIATE").fetchall()
        try:
            yield Transaction(self.connection, set())
        finally:
            self.connection.execute("ROLLBACK").fetchall()

    def rows(self, sql: str, *bindings: Any) -> list[dict[str, Any]]:
        cursor = self.connection.execute(sql, bindings)
        try:
            names = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:
            return []
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def claims(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM claims ORDER BY id")

    def orders(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM orders ORDER BY id")

    def deliveries(self) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM deliveries ORDER BY id")

    def events(self, what: str) -> list[dict[str, Any]]:
        found = self.rows("SELECT * FROM events WHERE what = ? ORDER BY id", what)
        return [{**row, "detail": json.loads(row["detail"])} for row in found]

    def _name_everything(self, tx: Transaction) -> None:
        for source_id, name in ((SOURCE, "tv"), ("other-id", "other")):
            tx.insert("sources", {"id": source_id, "name": name})
        for account in ("paper", "second"):
            tx.insert("accounts", {"name": account, "broker": "paper"})


class QuickBench(Bench):
    """A bench in memory, a copy of the empty ledger in `home`: for many runs where no disk matters."""

    def open(self, home: Path) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        with (
            contextlib.closing(apsw.Connection(str(home / FILE_NAME))) as empty,
            connection.backup("main", empty, "main") as backup,
        ):
            backup.step()
        connection.execute("PRAGMA foreign_keys = ON").fetchall()
        connection.execute("PRAGMA recursive_triggers = ON").fetchall()
        return connection


def said(verdict: Verdict) -> tuple[str, str | None]:
    return verdict.kind, verdict.reason


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def warnings_of(row: Mapping[str, Any]) -> list[str]:
    found: list[str] = json.loads(row["warnings"])
    return found
