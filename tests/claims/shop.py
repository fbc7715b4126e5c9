"""A claim store over the real writer, on a disk that can be told to fail."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from app.claims.base import Delivery, Verdict
from app.claims.ledger_store import LedgerClaimStore
from app.domain.alert import AlertRules, read_alert
from app.domain.key import HeaderKeys, KeyPolicy, choose_key, raw_fingerprint
from app.ledger.ticket import Ticket
from app.listener.body import read_body
from tests.claims.kit import ADMISSION
from tests.ledger.bench import Bench

RULES = replace(ADMISSION, source_id="src", source="tradingview")


class Shop:
    """A claim store on a faulty disk."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.store = LedgerClaimStore(bench.writer, bench.clock, lambda _account, symbol, _exchange: symbol)
        self.rules = RULES

    async def claim(self, key: str, ticket: Ticket | None = None, **fields: Any) -> Verdict:
        raw = json.dumps({"key": key, "symbol": "AAPL", "action": "buy", "quantity": "1", **fields}).encode()
        alert = read_alert(read_body(raw), AlertRules())
        chosen = choose_key("src", alert, HeaderKeys(), KeyPolicy())
        delivery = self.delivery(raw)
        return await self.store.claim(self.rules, delivery, alert.signal, chosen, ticket or Ticket())

    def delivery(self, raw: bytes = b"{}") -> Delivery:
        clock = self.bench.clock
        return Delivery("src", clock.now(), clock.boot(), raw.decode(), raw_fingerprint(raw))

    def expire_in_commit(self, ticket: Ticket, number: int) -> None:
        """The door's deadline passes while the commit of that number runs, counted from now."""
        commits = [0]

        def pass_by() -> None:
            commits[0] += 1
            if commits[0] == number:
                assert ticket.expire()

        self.bench.points["after_commit"] = pass_by

    async def settled(self) -> None:
        """All that was posted is on disk."""
        await self.bench.writer.run(lambda tx: tx.execute("SELECT 1"))

    def deliveries(self) -> list[tuple[Any, ...]]:
        return self.bench.look("SELECT verdict, http_status, reason, key FROM deliveries ORDER BY id")

    def claims(self) -> list[tuple[Any, ...]]:
        return self.bench.look("SELECT key, deliveries, unanswered FROM claims ORDER BY id")
