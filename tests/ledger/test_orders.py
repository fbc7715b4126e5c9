"""Orders in the ledger: moves, notes, fills and books, and that no search reads every order ever made."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from app.domain.order import OrdStatus, State
from app.domain.signal import Side
from app.ledger import orders
from app.ledger.orders import OPEN, BookedFill, Order
from app.ledger.transaction import LostUpdate
from tests.ledger.ledger_rows import NOON, Rows

D = Decimal


@pytest.fixture
def rows(empty_home: Path) -> Iterator[Rows]:
    made = Rows(empty_home)
    yield made
    made.close()


def sent(rows: Rows, key: str = "k1", *, side: str = "buy", quantity: str = "10", **values: Any) -> Order:
    """An order that is SUBMITTING."""
    order = pending(rows, key, **values)
    return orders.move(
        rows.tx, order, State.SUBMITTING, at=NOON, actor="test", side=side, quantity=quantity,
        client_order_id=f"cid-{key}",
    )  # fmt: skip


def pending(rows: Rows, key: str = "k1", **values: Any) -> Order:
    return orders.get(rows.tx, rows.order(rows.claim(key), **values))


def fill(exec_id: str, quantity: str, price: str = "100", fee: str = "0") -> BookedFill:
    return BookedFill(exec_id, D(quantity), D(price), D(fee), NOON)


def test_a_row_is_read_back_typed(rows: Rows) -> None:
    order = sent(rows, type="limit", limit_price="99.50", tif="gtc", strategy="s")
    assert (order.side, order.quantity, order.limit_price) == (Side.BUY, D(10), D("99.50"))
    assert (order.state, order.name, order.leaves) == (State.SUBMITTING, f"O{order.id}", D(10))
    assert (order.tif, order.cancel_requested, order.signed_leaves) == ("gtc", False, D(10))


def test_a_move_is_compare_and_set_with_its_event(rows: Rows) -> None:
    order = pending(rows)
    moved = orders.move(rows.tx, order, State.DENIED, at=NOON + 1, actor="worker", reason="STALE age=1s")
    assert (moved.state, moved.reason, moved.updated_at) == (State.DENIED, "STALE age=1s", NOON + 1)
    (event,) = rows.tx.execute(
        "SELECT actor, what, subject, detail FROM events WHERE subject = ?", (order.name,)
    )
    assert event[:3] == ("worker", "order moved", order.name)
    assert '"from":"PENDING"' in event[3]
    with pytest.raises(LostUpdate):
        orders.move(rows.tx, order, State.DONE, at=NOON, actor="worker")


def test_a_note_changes_columns_and_only_news_is_written(rows: Rows) -> None:
    order = pending(rows)
    orders.note(rows.tx, order, at=NOON + 5, reason="WAITING_FOR_O1", cancel_requested=1)
    noted = orders.get(rows.tx, order.id)
    assert (noted.reason, noted.cancel_requested, noted.updated_at) == ("WAITING_FOR_O1", True, NOON + 5)
    before = rows.connection.total_changes()
    orders.note(rows.tx, noted, at=NOON + 9, reason="WAITING_FOR_O1", cancel_requested=1)
    assert rows.connection.total_changes() == before


def test_fills_make_quantity_average_and_book(rows: Rows) -> None:
    order = sent(rows)
    order = orders.add_fills(rows.tx, order, [fill("e1", "4", "100"), fill("e2", "6", "110")], at=NOON)
    assert (order.filled_quantity, order.average_price) == (D(10), D(106))
    assert orders.book(rows.tx, order) == D(10)
    sold = sent(rows, "k2", side="sell", quantity="3")
    orders.add_fills(rows.tx, sold, [fill("e3", "3")], at=NOON)
    assert orders.book(rows.tx, order) == D(7)


def test_a_fill_seen_twice_is_booked_once(rows: Rows) -> None:
    order = sent(rows)
    orders.add_fills(rows.tx, order, [fill("e1", "4"), fill("e1", "4")], at=NOON)
    order = orders.add_fills(rows.tx, order, [fill("e1", "4")], at=NOON)
    assert order.filled_quantity == D(4)
    assert orders.book(rows.tx, order) == D(4)
    assert len(rows.tx.execute("SELECT 1 FROM fills")) == 1
    assert len(rows.tx.execute("SELECT 1 FROM events WHERE what = 'filled'")) == 1


def test_a_fill_that_the_ledger_cannot_keep_is_an_error_not_a_silence(rows: Rows) -> None:
    order = sent(rows)
    with pytest.raises(Exception, match="NOT NULL"):
        orders.add_fills(rows.tx, order, [BookedFill("e1", D(1), D(1), D(0), None)], at=NOON)  # type: ignore[arg-type]


@pytest.mark.parametrize(("quantity", "price"), [("0", "1"), ("-1", "1"), ("1", "-1"), ("NaN", "1")])
def test_a_fill_of_nothing_or_below_zero_is_not_booked_and_the_others_are(
    rows: Rows, quantity: str, price: str
) -> None:
    order = sent(rows)
    assert orders.add_fills(rows.tx, order, [fill("e0", quantity, price)], at=NOON) == order
    order = orders.add_fills(rows.tx, order, [fill("e0", quantity, price), fill("e1", "4", "100")], at=NOON)
    assert (order.filled_quantity, order.average_price) == (D(4), D(100))
    assert rows.tx.execute("SELECT exec_id FROM fills") == [("e1",)]


def test_an_order_without_a_side_cannot_fill(rows: Rows) -> None:
    with pytest.raises(ValueError, match="no side"):
        orders.add_fills(rows.tx, pending(rows), [fill("e1", "1")], at=NOON)


def test_h2_books_are_kept_apart_by_source_and_strategy(rows: Rows) -> None:
    one = sent(rows, "k1", strategy="A")
    two = sent(rows, "k2", strategy="B")
    orders.add_fills(rows.tx, one, [fill("e1", "10")], at=NOON)
    orders.add_fills(rows.tx, two, [fill("e2", "5")], at=NOON)
    assert (orders.book(rows.tx, one), orders.book(rows.tx, two)) == (D(10), D(5))
    assert {(book.strategy, book.net) for book in orders.books(rows.tx, "paper", "AAPL")} == {
        ("A", D(10)),
        ("B", D(5)),
    }


def test_a_book_that_came_back_to_zero_is_not_open(rows: Rows) -> None:
    order = sent(rows)
    orders.add_fills(rows.tx, order, [fill("e1", "0.3")], at=NOON)
    orders.add_to_book(rows.tx, "paper", "AAPL", "src", "", D("-0.3"))
    assert orders.books(rows.tx, "paper") == []
    assert rows.tx.execute("SELECT net FROM books") == [("0",)]


def test_books_and_averages_are_exact_for_any_digits(rows: Rows) -> None:
    """A payload's number has up to 40 digits; the default context would round at 28."""
    sizes = ["100000000000000000000.000000000000000001", "0.000000000057962727", "1e-18", "12345678901234567"]
    order = sent(rows, quantity="1e30")
    for number, size in enumerate(sizes):
        order = orders.add_fills(rows.tx, order, [fill(f"e{number}", size)], at=NOON)
    total = sum((Fraction(size) for size in sizes), Fraction(0))
    assert Fraction(order.filled_quantity) == total
    assert Fraction(orders.book(rows.tx, order)) == total
    assert order.average_price == D(100)


def test_the_outcome_lists_the_newest_generation_of_each_leg_and_its_worst_state(rows: Rows) -> None:
    order = sent(rows)
    orders.move(rows.tx, order, State.NOT_PLACED, at=NOON, actor="test", reason="REFUSED X")
    rows.order(order.claim_id, generation=2)
    outcome = orders.outcome(rows.tx, order.claim_id)
    assert outcome["state"] == "PENDING"
    assert [row["state"] for row in outcome["orders"]] == ["PENDING"]
    assert outcome["orders"][0]["side"] is None


def test_an_outcome_spells_its_numbers_plainly(rows: Rows) -> None:
    order = sent(rows, quantity="10.0")
    order = orders.move(rows.tx, order, State.WORKING, at=NOON, actor="t", ord_status=OrdStatus.NEW.value)
    orders.add_fills(rows.tx, order, [fill("e1", "2.50", "100.10")], at=NOON)
    (row,) = orders.outcome(rows.tx, order.claim_id)["orders"]
    assert (row["quantity"], row["filled_quantity"], row["average_price"]) == ("10", "2.5", "100.1")
    assert (row["state"], row["ord_status"], row["symbol"]) == ("WORKING", "New", "AAPL")


@pytest.mark.parametrize(
    "condition",
    [
        f"{OPEN} AND account = ? AND instrument = 'AAPL' AND state = 'PENDING'",
        f"{OPEN} AND account = ? AND state = 'WORKING'",
        f"{OPEN} AND account = ? AND id <> 1 AND state IN ('SUBMITTING', 'AMBIGUOUS')",
        "account = ? AND client_order_id = 'c'",
    ],
)
def test_searches_for_open_orders_use_an_index(rows: Rows, condition: str) -> None:
    plan = rows.tx.execute(f"EXPLAIN QUERY PLAN SELECT * FROM orders WHERE {condition}", ("paper",))
    assert all("SCAN orders" not in step[-1] for step in plan), plan
