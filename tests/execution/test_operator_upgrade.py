"""A ledger of before schema 003: what waited for eyes then is in "Needs you" afterwards (HOLES H41)."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from app.claims.rows import EXIT_NOT_PLACED, SECOND_SIGNAL
from app.ledger import store
from app.ledger.needs import needs
from app.ledger.store import migrations, open_ledger
from app.ledger.transaction import Transaction, Value
from tests.ledger.ledger_rows import Rows

NOW = 1_772_452_800_000_000


def test_h41_what_waited_before_the_upgrade_waits_after_it(tmp_path: Path) -> None:
    home = tmp_path / "old"
    home.mkdir()
    with patch.object(store, "migrations", lambda: migrations()[:2]):
        connection = open_ledger(home, NOW)
    tx = Transaction(connection, set())
    tx.insert("sources", {"id": "src", "name": "tv"})
    rows: list[tuple[str, str | None]] = [
        ("conflict", "[]"),
        ("conflict", f'["{EXIT_NOT_PLACED}"]'),
        ("stale", f'["{EXIT_NOT_PLACED}"]'),
        ("duplicate", f'["{SECOND_SIGNAL}"]'),
        ("duplicate", "[]"),
        ("conflict", "[]"),
        ("invalid", None),
    ]
    for verdict, warnings in rows:
        same: dict[str, Value] = {"received_at": NOW, "source_id": "src"}
        tx.insert("deliveries", {**same, "verdict": verdict, "warnings": warnings})
    tx.event(NOW, "person", "conflict admitted", "D6", {"as": "S1"})
    connection.close()
    connection = open_ledger(home, NOW)
    found = [(need.severity, need.kind, need.subject) for need in needs(connection, NOW)]
    connection.close()
    assert found == [
        ("critical", "exit_refused", "D3"),
        ("critical", "conflict", "D2"),
        ("warning", "conflict", "D1"),
        ("info", "second_signal", "D4"),
    ]


def test_h41_a_ledger_of_before_schema_004_asks_nobody_about_what_is_long_past(tmp_path: Path) -> None:
    """Lost entries of old are not news; a lost exit still is, and what made it good still does."""
    home = tmp_path / "old"
    home.mkdir()
    with patch.object(store, "migrations", lambda: migrations()[:3]):
        old = Rows(home)
    ends = [
        ("entry", "AAPL", "NOT_PLACED", None, "CONFIRMED_ABSENT"),
        ("exit", "AAPL", "NOT_PLACED", None, "CONFIRMED_ABSENT"),
        ("exit", "AAPL", "DONE", "Filled", None),
        ("exit", "MSFT", "NOT_PLACED", None, "CONFIRMED_ABSENT"),
    ]
    for number, (purpose, symbol, state, status, reason) in enumerate(ends, 1):
        order = old.order(old.claim(f"k{number}", symbol=symbol), instrument=symbol, purpose=purpose)
        for step in ("SUBMITTING", "WORKING") if state == "DONE" else ("SUBMITTING",):
            old.tx.execute("UPDATE orders SET state = ? WHERE id = ?", (step, order))
        sql = "UPDATE orders SET state = ?, ord_status = ?, reason = ? WHERE id = ?"
        old.tx.execute(sql, (state, status, reason, order))
    old.tx.execute("UPDATE accounts SET identity = 'P-1', endpoint = 'e'")
    old.close()
    connection = open_ledger(home, NOW)
    found = [(need.severity, need.kind, need.subject) for need in needs(connection, NOW)]
    rows = connection.execute("SELECT identity, answering, same_as FROM accounts").fetchall()
    connection.close()
    assert found == [("warning", "exit_lost", "O4")]
    assert rows == [("P-1", None, None)]
