"""The auditors' views: names and columns as promised, times in RFC 3339, the outcome the worst order's."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.domain.order import SEVERITY, State, worst
from app.ledger.reader import read
from app.ledger.transaction import Value
from tests.ledger.ledger_rows import NOON, Rows
from tests.ledger.test_order_table import PATHS

# Word for word from the contract, section 5. Other columns may follow.
CONTRACT = {
    "v_deliveries": "id, received_at, source, verdict, http_status, reason, signal, key, ack_ms",
    "v_signals": "id, source, key, key_source, symbol, action, quantity, first_seen, deliveries, outcome",
    "v_orders": "id, signal, account, generation, leg, client_order_id, broker_order_id, symbol, side, "
    "quantity, state, ord_status, filled_quantity, average_price, reason, created_at, updated_at",
    "v_fills": "account, exec_id, order_id, symbol, side, quantity, price, fee, at",
    "v_events": "id, at, actor, what, subject, detail",
}
TIMES = {
    "v_deliveries": ["received_at"],
    "v_signals": ["first_seen"],
    "v_orders": ["created_at", "updated_at"],
    "v_fills": ["at"],
    "v_events": ["at"],
    "v_reconciliations": ["started_at", "ended_at"],
}


@pytest.fixture
def rows(empty_home: Path) -> Iterator[Rows]:
    ledger = Rows(empty_home)
    ledger.connection.execute("BEGIN")
    yield ledger
    ledger.close()


def outcome(rows: Rows, claim: int) -> str:
    (row,) = read(rows.connection, "SELECT outcome FROM v_signals WHERE id = ?", (f"S{claim}",))
    return str(row["outcome"])


def fill_all(rows: Rows, at: int) -> None:
    """One row in every view, all of one moment."""
    claim = rows.claim(at=at)
    rows.delivery(claim, at=at)
    order = rows.order(claim, at=at)
    rows.fill(order, at=at)
    rows.tx.event(at, "test", "something", "S1")
    run: dict[str, Value] = {"account": "paper", "cause": "timer", "started_at": at, "ended_at": at}
    rows.tx.insert("reconciliations", {**run, "result": "OK", "report": "{}"})


@pytest.mark.parametrize("view", CONTRACT)
def test_names_and_columns_are_the_contracts(rows: Rows, view: str) -> None:
    promised = CONTRACT[view].split(", ")
    names = [row["name"] for row in read(rows.connection, f"PRAGMA table_info({view})")]
    assert names[: len(promised)] == promised


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOON, "2026-03-02T12:00:00.000000Z"),
        (NOON + 1, "2026-03-02T12:00:00.000001Z"),
        (NOON + 999_999, "2026-03-02T12:00:00.999999Z"),
        (NOON + 50_000_000_000, "2026-03-03T01:53:20.000000Z"),
        (951_782_400_123_456, "2000-02-29T00:00:00.123456Z"),
    ],
)
def test_times_are_rfc_3339_utc(rows: Rows, at: int, text: str) -> None:
    fill_all(rows, at)
    for view, columns in TIMES.items():
        (row, *_) = read(rows.connection, f"SELECT * FROM {view} ORDER BY number DESC")
        for column in columns:
            assert row[column] == text, (view, column)
            moment = datetime.fromisoformat(row[column])
            assert moment == datetime.fromtimestamp(at // 1_000_000, UTC).replace(microsecond=at % 1_000_000)


def test_times_sort_as_text(rows: Rows) -> None:
    for step in (0, 9, 10, 999_999, 1_000_000, 59_000_000, 86_400_000_000):
        rows.tx.event(NOON + step, "test", "x", "")
    texts = [
        row["at"]
        for row in read(rows.connection, "SELECT at FROM v_events WHERE actor = 'test' ORDER BY number")
    ]
    assert texts == sorted(texts)


def test_ids_carry_their_letter_and_lead_to_each_other(rows: Rows) -> None:
    fill_all(rows, NOON)
    (signal,) = read(rows.connection, "SELECT * FROM v_signals")
    (order,) = read(rows.connection, "SELECT * FROM v_orders")
    (fill,) = read(rows.connection, "SELECT * FROM v_fills")
    (delivery,) = read(rows.connection, "SELECT * FROM v_deliveries")
    assert re.fullmatch(r"S\d+", signal["id"])
    assert re.fullmatch(r"O\d+", order["id"])
    assert re.fullmatch(r"D\d+", delivery["id"])
    assert order["signal"] == delivery["signal"] == signal["id"]
    assert fill["order_id"] == order["id"]
    assert (signal["source"], delivery["source"]) == ("tradingview", "tradingview")
    assert (signal["symbol"], order["symbol"], fill["symbol"]) == ("AAPL", "AAPL", "AAPL")


def test_status_and_milliseconds_are_empty_until_they_are_known(rows: Rows) -> None:
    delivery = rows.delivery(None, verdict="stale")
    (row,) = read(rows.connection, "SELECT * FROM v_deliveries")
    assert (row["http_status"], row["ack_ms"], row["signal"]) == (None, None, None)
    rows.tx.execute("UPDATE deliveries SET http_status = 422, ack_us = 12345 WHERE id = ?", (delivery,))
    (row,) = read(rows.connection, "SELECT * FROM v_deliveries")
    assert (row["http_status"], row["ack_ms"]) == (422, 12.345)


def test_an_outcome_is_the_worst_of_any_two_orders(rows: Rows) -> None:
    for one, other in itertools.product(State, State):
        claim = rows.claim(f"{one} {other}")
        for leg, state in enumerate((one, other), start=1):
            rows.move(rows.order(claim, leg=leg), *PATHS[state])
        assert outcome(rows, claim) == worst([one, other]), (one, other)
    assert set(SEVERITY) == set(State)


def test_the_newest_generation_of_each_leg_speaks_for_it(rows: Rows) -> None:
    rows.tx.insert("accounts", {"name": "second", "broker": "paper"})
    claim = rows.claim()
    rows.move(rows.order(claim, leg=1, generation=1), State.DENIED)
    assert outcome(rows, claim) == "DENIED"
    rows.order(claim, leg=1, generation=2)
    assert outcome(rows, claim) == "PENDING"
    rows.move(rows.order(claim, leg=2, generation=1), State.DONE)
    assert outcome(rows, claim) == "PENDING"
    rows.move(rows.order(claim, leg=1, generation=1, account="second"), State.NEEDS_OPERATOR)
    assert outcome(rows, claim) == "NEEDS_OPERATOR"
    rows.order(claim, leg=1, generation=3, account="second")
    assert outcome(rows, claim) == "PENDING"


def test_a_signal_without_orders_has_nothing_to_do(rows: Rows) -> None:
    assert outcome(rows, rows.claim()) == "DONE"
