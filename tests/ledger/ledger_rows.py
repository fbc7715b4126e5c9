"""Rows for tests of what reads the ledger, written past the door and the lanes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import apsw

from app.ledger.store import open_ledger
from app.ledger.transaction import Transaction

NOON = 1_772_452_800_000_000
"""2026-03-02T12:00:00Z in microseconds."""
SECOND = 1_000_000


class Rows:
    """A ledger with one source and one account, and short ways to add rows to it."""

    def __init__(self, home: Path) -> None:
        self.connection: apsw.Connection = open_ledger(home, NOON)
        self.tx = Transaction(self.connection, set())
        self.tx.insert("sources", {"id": "src", "name": "tradingview"})
        self.tx.insert("accounts", {"name": "paper", "broker": "paper"})

    def close(self) -> None:
        self.connection.close()

    def claim(self, key: str = "k1", at: int = NOON, **values: Any) -> int:
        row: dict[str, Any] = {
            "digest": hashlib.sha256(key.encode()).digest(),
            "source_id": "src",
            "key": key,
            "key_source": "body",
            "header_key": 0,
            "rule_version": 1,
            "raw_fingerprint": b"r",
            "intent_fingerprint": b"i",
            "signal": '{"symbol": "AAPL"}',
            "symbol": "AAPL",
            "action": "buy",
            "quantity": "1",
            "first_received_at": at,
            "admitted_at": at,
            "deliveries": 1,
        }
        return self.tx.insert("claims", {**row, **values})

    def delivery(
        self, claim: int | None, verdict: str = "accepted", at: int = NOON, body: str | None = None
    ) -> int:
        row: dict[str, Any] = {
            "received_at": at,
            "source_id": "src",
            "verdict": verdict,
            "claim_id": claim,
            "key": "k1",
        }
        delivery = self.tx.insert("deliveries", row)
        if body is not None:
            self.tx.insert("bodies", {"delivery_id": delivery, "body": body})
        return delivery

    def order(self, claim: int, at: int = NOON, **values: Any) -> int:
        row: dict[str, Any] = {
            "claim_id": claim,
            "account": "paper",
            "leg": 1,
            "generation": 1,
            "instrument": "AAPL",
            "source_id": "src",
            "strategy": "",
            "action": "buy",
            "purpose": "undecided",
            "type": "market",
            "state": "PENDING",
            "created_at": at,
            "updated_at": at,
        }
        return self.tx.insert("orders", {**row, **values})

    def move(self, order: int, *states: str) -> None:
        for state in states:
            self.tx.execute("UPDATE orders SET state = ? WHERE id = ?", (state, order))

    def fill(self, order: int, exec_id: str = "x1", at: int = NOON) -> int:
        row: dict[str, Any] = {
            "account": "paper",
            "exec_id": exec_id,
            "order_id": order,
            "side": "buy",
            "at": at,
        }
        return self.tx.insert("fills", {**row, "quantity": "1", "price": "10", "fee": "0"})

    def book(self, instrument: str, net: str, strategy: str = "") -> None:
        row = {"account": "paper", "instrument": instrument, "source_id": "src"}
        self.tx.insert("books", {**row, "strategy": strategy, "net": net})
