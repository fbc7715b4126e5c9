"""The state table in SQL: equal to the domain's, enforced on every way in, and counted right."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from app.domain.order import EDGES, State
from app.ledger.transaction import Value
from tests.ledger.ledger_rows import Rows

PATHS: dict[State, tuple[State, ...]] = {
    State.PENDING: (),
    State.SUBMITTING: (State.SUBMITTING,),
    State.WORKING: (State.SUBMITTING, State.WORKING),
    State.AMBIGUOUS: (State.SUBMITTING, State.AMBIGUOUS),
    State.NEEDS_OPERATOR: (State.NEEDS_OPERATOR,),
    State.DENIED: (State.DENIED,),
    State.NOT_PLACED: (State.SUBMITTING, State.NOT_PLACED),
    State.DONE: (State.DONE,),
}
"""How a new order gets into each state."""


@pytest.fixture
def rows(empty_home: Path) -> Iterator[Rows]:
    ledger = Rows(empty_home)
    yield ledger
    ledger.close()


def order_in(rows: Rows, state: State) -> int:
    order = rows.order(rows.claim(f"in {state}"))
    rows.move(order, *PATHS[state])
    return order


def state_of(rows: Rows, order: int) -> str:
    row = rows.tx.one("SELECT state FROM orders WHERE id = ?", (order,))
    assert row is not None
    return str(row[0])


def test_h21_the_table_in_sql_is_the_domains(rows: Rows) -> None:
    assert set(rows.tx.execute("SELECT from_state, to_state FROM order_edges")) == {
        (old.value, new.value) for old, new in EDGES
    }


def test_h21_all_64_moves(rows: Rows) -> None:
    pairs = list(itertools.product(State, State))
    assert len(pairs) == 64
    rows.connection.execute("BEGIN")
    for number, (old, new) in enumerate(pairs):
        order = rows.order(rows.claim(f"k{number}"))
        rows.move(order, *PATHS[old])
        if old is new or (old, new) in EDGES:
            rows.move(order, new)
            assert state_of(rows, order) == new
        else:
            with pytest.raises(apsw.ConstraintError, match="no such move"):
                rows.move(order, new)
            assert state_of(rows, order) == old


@pytest.mark.parametrize(
    "state", [*(state.value for state in State if state is not State.PENDING), "", "pending"]
)
def test_h21_an_order_can_only_begin_pending(rows: Rows, state: str) -> None:
    claim = rows.claim()
    with pytest.raises(apsw.ConstraintError, match="starts PENDING"):
        rows.order(claim, state=state)


@pytest.mark.parametrize("state", ["", "working", "GONE"])
def test_h21_no_move_to_a_word_that_is_no_state(rows: Rows, state: str) -> None:
    order = rows.order(rows.claim())
    with pytest.raises(apsw.ConstraintError, match="no such move"):
        rows.move(order, state)


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("verb", ["REPLACE", "INSERT OR REPLACE"])
def test_h21_replace_cannot_walk_around_the_table(rows: Rows, state: State, verb: str) -> None:
    """It would put a new PENDING row in the place of the order, with no UPDATE that a trigger could see."""
    order = order_in(rows, state)
    columns = (
        "id, claim_id, account, leg, generation, instrument, source_id, strategy, action, purpose, type, "
        "created_at, updated_at"
    )
    with pytest.raises(apsw.ConstraintError, match="never deleted"):
        rows.tx.execute(
            f"{verb} INTO orders ({columns}, state) SELECT {columns}, 'PENDING' FROM orders WHERE id = ?",
            (order,),
        )
    assert state_of(rows, order) == state


def test_h21_update_or_replace_cannot_remove_another_order(rows: Rows) -> None:
    first = rows.order(rows.claim("a"), client_order_id="OF-1")
    second = rows.order(rows.claim("b"))
    with pytest.raises(apsw.ConstraintError, match="never deleted"):
        rows.tx.execute("UPDATE OR REPLACE orders SET client_order_id = 'OF-1' WHERE id = ?", (second,))
    assert rows.tx.execute("SELECT id, client_order_id FROM orders ORDER BY id") == [
        (first, "OF-1"),
        (second, None),
    ]


@pytest.mark.parametrize("state", list(State))
def test_h21_orders_are_never_deleted(rows: Rows, state: State) -> None:
    order = order_in(rows, state)
    with pytest.raises(apsw.ConstraintError, match="never deleted"):
        rows.tx.execute("DELETE FROM orders")
    assert state_of(rows, order) == state


@pytest.mark.parametrize("state", list(State))
def test_h21_an_update_that_names_the_state_unchanged_is_no_move(rows: Rows, state: State) -> None:
    """A partial fill writes state and quantity together."""
    order = order_in(rows, state)
    sql = "UPDATE orders SET state = ?, filled_quantity = '1' WHERE id = ?"
    assert rows.tx.change("orders", sql, (state.value, order)) == 1


def test_h21_a_lost_compare_and_set_counts_zero_whatever_ran_before_or_after(rows: Rows) -> None:
    order = order_in(rows, State.SUBMITTING)
    cas = "UPDATE orders SET state = 'WORKING' WHERE id = ? AND state = ?"
    rows.tx.event(1, "test", "before", "")
    assert rows.tx.change("orders", cas, (order, "AMBIGUOUS")) == 0
    assert rows.tx.change("orders", cas, (order, "SUBMITTING")) == 1
    assert rows.tx.change("orders", cas, (order, "SUBMITTING")) == 0
    with contextlib.suppress(apsw.ConstraintError):
        rows.move(order, State.PENDING)
    assert rows.tx.change("orders", cas, (order, "SUBMITTING")) == 0
    assert rows.tx.change("orders", "SELECT 1", ()) == 0


@pytest.mark.parametrize("column", ["claim_id", "account", "leg", "generation", "id"])
def test_what_an_order_stands_for_is_never_changed(rows: Rows, column: str) -> None:
    order = rows.order(rows.claim("a"))
    rows.claim("b")
    rows.tx.insert("accounts", {"name": "other", "broker": "paper"})
    new = "other" if column == "account" else 2
    with pytest.raises(apsw.ConstraintError, match="never changed"):
        rows.tx.execute(f"UPDATE orders SET {column} = ? WHERE id = ?", (new, order))


def test_a_client_order_id_is_set_once(rows: Rows) -> None:
    order = rows.order(rows.claim())
    sql = "UPDATE orders SET client_order_id = ? WHERE id = ?"
    assert rows.tx.change("orders", sql, ("OF-1", order)) == 1
    assert rows.tx.change("orders", sql, ("OF-1", order)) == 1
    for other in ("OF-2", None):
        with pytest.raises(apsw.ConstraintError, match="never changed"):
            rows.tx.execute(sql, (other, order))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO order_edges VALUES ('DONE', 'PENDING')",
        "UPDATE order_edges SET to_state = 'DONE'",
        "DELETE FROM order_edges",
        "REPLACE INTO order_edges VALUES ('PENDING', 'DONE')",
    ],
)
def test_h21_the_table_itself_is_fixed(rows: Rows, sql: str) -> None:
    with pytest.raises(apsw.ConstraintError, match="fixed"):
        rows.tx.execute(sql)


@pytest.mark.parametrize("table", ["attempts", "evidence", "fills", "events"])
@pytest.mark.parametrize("how", ["UPDATE {table} SET at = at + 1", "DELETE FROM {table}", "REPLACE"])
def test_what_is_append_only_is(rows: Rows, table: str, how: str) -> None:
    order = rows.order(rows.claim())
    rows.fill(order)
    identity: dict[str, Value] = {"order_id": order, "at": 1, "identity": "paper"}
    rows.tx.insert("evidence", {**identity, "look": "by id", "result": "absent"})
    attempt: dict[str, Value] = {**identity, "number": 1, "endpoint": "", "request": "{}", "ended_at": 2}
    rows.tx.insert("attempts", {**attempt, "arrival_deadline": 1, "bytes_left": 1})
    rows.tx.event(1, "test", "something", "")
    before = rows.tx.execute(f"SELECT * FROM {table}")
    sql = how.format(table=table) if how != "REPLACE" else f"REPLACE INTO {table} SELECT * FROM {table}"
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        rows.tx.execute(sql)
    assert rows.tx.execute(f"SELECT * FROM {table}") == before != []


def test_an_attempt_is_closed_once(rows: Rows) -> None:
    order = rows.order(rows.claim())
    attempt: dict[str, Value] = {"order_id": order, "at": 1, "identity": "paper", "number": 1}
    rows.tx.insert("attempts", {**attempt, "endpoint": "", "request": "{}", "arrival_deadline": 1})
    close = "UPDATE attempts SET ended_at = 2, bytes_left = 1 WHERE order_id = ?"
    assert rows.tx.change("attempts", close, (order,)) == 1
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        rows.tx.execute(close, (order,))
