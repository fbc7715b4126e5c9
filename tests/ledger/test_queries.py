"""The auditors' views by page, counted, filtered; and one thing's whole story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ledger import queries
from app.ledger.reader import read
from tests.ledger.ledger_rows import NOON, SECOND, Rows


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    ledger = Rows(tmp_path)
    yield ledger
    ledger.close()


@pytest.mark.parametrize("view", sorted(queries.VIEWS))
def test_each_view_begins_with_the_columns_of_the_contract(rows: Rows, view: str) -> None:
    shape = queries.VIEWS[view]
    names = [row["name"] for row in read(rows.connection, f"PRAGMA table_info({shape.name})")]
    assert tuple(names[: len(shape.columns)]) == shape.columns
    assert set(shape.also) <= set(names)
    assert queries.select(rows.connection, view) == [] or view == "events"


def test_pages_come_newest_first_and_do_not_overlap(rows: Rows) -> None:
    for number in range(5):
        rows.claim(f"k{number}", NOON + number * SECOND)
    first = queries.select(rows.connection, "signals", limit=2)
    assert [row["id"] for row in first] == ["S5", "S4"]
    second = queries.select(rows.connection, "signals", limit=2, before=first[-1]["number"])
    assert [row["id"] for row in second] == ["S3", "S2"]


def test_since_keeps_what_is_of_that_time_or_later(rows: Rows) -> None:
    for number in range(3):
        rows.claim(f"k{number}", NOON + number * SECOND)
    found = queries.select(rows.connection, "signals", since=NOON + SECOND)
    assert [row["id"] for row in found] == ["S3", "S2"]
    assert queries.select(rows.connection, "signals", since=NOON + 2 * SECOND + 1) == []


def test_refused_is_every_delivery_that_was_not_accepted(rows: Rows) -> None:
    claim = rows.claim()
    for verdict in ("accepted", "duplicate", "invalid"):
        rows.delivery(claim if verdict != "invalid" else None, verdict)
    refused = queries.select(rows.connection, "refused")
    assert [row["verdict"] for row in refused] == ["invalid", "duplicate"]
    assert queries.count(rows.connection, "refused") == 2
    assert queries.count(rows.connection, "deliveries") == 3


def test_filters_by_value_by_choice_and_by_absence(rows: Rows) -> None:
    claim = rows.claim()
    for generation, state in enumerate(("DENIED", "DONE", "PENDING"), 1):
        order = rows.order(claim, generation=generation)
        rows.move(order, *([] if state == "PENDING" else [state]))
    connection = rows.connection
    assert queries.count(connection, "orders", {"state": "DENIED"}) == 1
    assert queries.count(connection, "orders", {"state": ("DENIED", "DONE")}) == 2
    assert queries.count(connection, "orders", {"state": ()}) == 0
    assert queries.count(connection, "orders", {"client_order_id": None, "generation": 3}) == 1
    assert [row["id"] for row in queries.select(connection, "orders", filters={"purpose": "undecided"})] == [
        "O3",
        "O2",
        "O1",
    ]


def test_a_wrong_view_or_column_is_named(rows: Rows) -> None:
    with pytest.raises(ValueError, match="there is no view 'claims'"):
        queries.select(rows.connection, "claims")
    with pytest.raises(ValueError, match="no column 'state; DROP'"):
        queries.select(rows.connection, "orders", filters={"state; DROP": "x"})


def test_positions_are_the_open_books_and_page_by_number(rows: Rows) -> None:
    for symbol, net in (("MSFT", "-2"), ("AAPL", "1.5"), ("TSLA", "0")):
        rows.book(symbol, net)
    first = queries.select(rows.connection, "positions", limit=1)
    assert [(row["symbol"], row["quantity"], row["source"]) for row in first] == [
        ("AAPL", "1.5", "tradingview")
    ]
    rest = queries.select(rows.connection, "positions", before=first[0]["number"])
    assert [(row["symbol"], row["quantity"]) for row in rest] == [("MSFT", "-2")]
    assert queries.count(rows.connection, "positions") == 2


@pytest.mark.parametrize("view", ["signals", "deliveries", "refused", "orders", "fills", "events"])
def test_a_page_is_read_along_the_row_id_and_sorts_nothing(rows: Rows, view: str) -> None:
    """A page of a million rows must not read a million rows."""
    shape = queries.VIEWS[view]
    sql = f"EXPLAIN QUERY PLAN SELECT * FROM {shape.name} WHERE number < 9 ORDER BY number DESC LIMIT 50"
    plan = [row["detail"] for row in read(rows.connection, sql) if row["parent"] == 0]
    assert "INTEGER PRIMARY KEY (rowid<?)" in plan[0], plan
    assert not [step for step in plan if "SCAN" in step or "ORDER BY" in step], plan


def test_rfc3339_is_spelled_as_the_views_spell_it(rows: Rows) -> None:
    for at in (0, NOON + 7, NOON + 999_999):
        rows.tx.event(at, "a", "b", "c")
    found = [row["at"] for row in queries.select(rows.connection, "events", limit=3)]
    assert found == [queries.rfc3339(at) for at in (NOON + 999_999, NOON + 7, 0)]
    assert found[2] == "1970-01-01T00:00:00.000000Z"


# ----------------------------------------------------------------------------------------------- story


def _filled_order(rows: Rows) -> tuple[int, int]:
    claim = rows.claim()
    rows.delivery(claim, body='{"a": 1}')
    order = rows.order(claim)
    rows.tx.insert(
        "attempts",
        {
            "order_id": order,
            "number": 1,
            "at": NOON,
            "identity": "p",
            "endpoint": "e",
            "request": "{}",
            "arrival_deadline": NOON,
        },
    )
    rows.tx.insert(
        "evidence", {"order_id": order, "at": NOON, "identity": "p", "look": "by id", "result": "absent"}
    )
    rows.fill(order)
    rows.tx.event(NOON, "source:tradingview", "claimed", f"S{claim}")
    rows.tx.event(NOON, "worker", "order moved", f"O{order}")
    return claim, order


def test_the_story_of_a_signal_holds_all_that_belongs_to_it(rows: Rows) -> None:
    claim, _ = _filled_order(rows)
    second = rows.delivery(claim, "duplicate", body="later")
    other = rows.claim("other")
    rows.delivery(other)
    rows.tx.event(NOON, "source:tradingview", "claimed", f"S{other}")
    story = queries.story(rows.connection, "S1")
    assert story["kind"] == "signal"
    assert story["signal"]["key"] == "k1"
    assert story["signal"]["parsed"] == '{"symbol": "AAPL"}'
    assert [row["id"] for row in story["deliveries"]] == [f"D{second}", "D1"]
    assert story["body"] == '{"a": 1}'
    (order,) = story["orders"]
    assert order["id"] == "O1"
    assert [attempt["at"] for attempt in order["attempts"]] == ["2026-03-02T12:00:00.000000Z"]
    assert order["attempts"][0]["ended_at"] is None
    assert [look["result"] for look in order["evidence"]] == ["absent"]
    assert [fill["exec_id"] for fill in order["fills"]] == ["x1"]
    assert [event["what"] for event in story["events"]] == ["claimed", "order moved"]


def test_the_story_of_an_order_is_its_signals_and_is_found_by_either_id(rows: Rows) -> None:
    _filled_order(rows)
    by_order, by_signal = (queries.story(rows.connection, name) for name in ("O1", "S1"))
    assert by_order["kind"] == "order"
    assert by_order["orders"] == by_signal["orders"]
    assert by_order["body"] == by_signal["body"]
    assert queries.story(rows.connection, "O001")["id"] == "O1"


def test_the_story_of_a_delivery_that_claimed_nothing(rows: Rows) -> None:
    _filled_order(rows)
    refused = rows.delivery(None, "invalid", body="junk")
    story = queries.story(rows.connection, f"D{refused}")
    assert (story["signal"], story["orders"]) == (None, [])
    assert [row["id"] for row in story["deliveries"]] == [f"D{refused}"]
    assert story["body"] == "junk"


def test_the_story_of_a_duplicate_shows_its_own_body(rows: Rows) -> None:
    claim, _ = _filled_order(rows)
    second = rows.delivery(claim, "duplicate", body="again")
    story = queries.story(rows.connection, f"D{second}")
    assert story["body"] == "again"
    assert story["signal"]["id"] == "S1"


@pytest.mark.parametrize("name", ["", "S", "X1", "S1x", "S-1", "S²", "S99", "O99", "D99", "S" + "9" * 30])
def test_an_id_of_nothing_is_named(rows: Rows, name: str) -> None:
    with pytest.raises(LookupError):
        queries.story(rows.connection, name)
