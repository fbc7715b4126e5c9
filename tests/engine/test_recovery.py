"""What a start makes of what the last run left: doubt, refusals, the clock, names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.recovery import WALL_MARK, known_sources, mark_wall_time, recover, register
from app.ledger import queries
from app.ledger.reader import read
from app.settings import Settings, read_settings
from tests.ledger.ledger_rows import NOON, SECOND, Rows

MINUTE = 60 * SECOND


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    ledger = Rows(tmp_path)
    yield ledger
    ledger.close()


def _settings(text: str = "") -> Settings:
    return read_settings(text, Path("config.toml"))


def test_every_submitting_order_becomes_ambiguous_with_its_attempt_left_open(rows: Rows) -> None:
    orders = []
    for generation, state in enumerate(("SUBMITTING", "PENDING", "SUBMITTING", "DENIED"), 1):
        order = rows.order(rows.claim(f"k{generation}"), generation=generation)
        rows.move(order, *([] if state == "PENDING" else [state]))
        orders.append(order)
    sent = "order_id, number, at, identity, endpoint, request, arrival_deadline"
    rows.tx.execute(f"INSERT INTO attempts ({sent}) VALUES (?, 1, 0, 'p', 'e', '{{}}', 0)", (orders[0],))
    recovered = recover(rows.tx, NOON + SECOND)
    assert recovered.in_doubt == ("O1", "O3")
    states = {row["id"]: row["state"] for row in queries.select(rows.connection, "orders")}
    assert states == {"O1": "AMBIGUOUS", "O2": "PENDING", "O3": "AMBIGUOUS", "O4": "DENIED"}
    assert read(rows.connection, "SELECT ended_at, bytes_left, reply FROM attempts") == [
        {"ended_at": None, "bytes_left": None, "reply": None}
    ]
    moved = [event for event in queries.select(rows.connection, "events") if event["what"] == "order moved"]
    assert [event["subject"] for event in moved] == ["O3", "O1"]
    assert recover(rows.tx, NOON + 2 * SECOND).in_doubt == ()


def test_a_clean_start_writes_no_event(rows: Rows) -> None:
    before = queries.count(rows.connection, "events")
    recover(rows.tx, NOON)
    recover(rows.tx, NOON)
    assert queries.count(rows.connection, "events") == before


def test_the_trading_state_of_the_last_run_holds(rows: Rows) -> None:
    assert recover(rows.tx, NOON).trading_state == "active"
    rows.tx.set_meta("trading_state", "halted")
    assert recover(rows.tx, NOON).trading_state == "halted"


def test_sources_and_accounts_are_written_once_and_follow_a_new_name(rows: Rows) -> None:
    settings = _settings('[[sources]]\nname = "tv"\nid = "src"\n')
    for _ in range(2):
        register(rows.tx, settings.all_sources, settings.accounts)
    assert known_sources(rows.tx) == {"tv": "src", "test": "test"}
    assert read(rows.connection, "SELECT name, broker FROM accounts") == [
        {"name": "paper", "broker": "paper"}
    ]


def _mark(rows: Rows) -> int:
    return int(rows.tx.meta(WALL_MARK) or 0)


def test_h32_the_newest_wall_time_is_kept_from_the_start_on(rows: Rows) -> None:
    assert recover(rows.tx, NOON).wall_mark == 0
    assert _mark(rows) == NOON
    mark_wall_time(rows.tx, NOON + MINUTE, NOON)
    assert recover(rows.tx, NOON + 2 * MINUTE).wall_mark == NOON + MINUTE
    assert _mark(rows) == NOON + 2 * MINUTE


def test_h32_the_mark_goes_not_back_while_an_order_of_an_earlier_run_waits(rows: Rows) -> None:
    order = rows.order(rows.claim(), at=NOON - MINUTE)
    mark_wall_time(rows.tx, NOON, NOON)
    began = NOON - 30 * SECOND
    assert recover(rows.tx, began).wall_mark == NOON
    mark_wall_time(rows.tx, NOON - 20 * SECOND, began)
    assert _mark(rows) == NOON
    # A clock that once stood in the future holds nobody back once nothing hangs on it.
    rows.move(order, "DENIED")
    mark_wall_time(rows.tx, NOON - 10 * SECOND, began)
    assert _mark(rows) == NOON - 10 * SECOND


def test_h32_the_mark_goes_not_back_while_an_order_of_the_future_waits(rows: Rows) -> None:
    rows.tx.set_meta(WALL_MARK, str(NOON))
    rows.order(rows.claim(), at=NOON - MINUTE)
    assert recover(rows.tx, NOON - 3600 * SECOND).wall_mark == NOON
    assert _mark(rows) == NOON
