"""What an operation is given: counts and row ids that are its own statement's, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest

from app.ledger.transaction import Transaction


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    made.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER CHECK (n < 100)) STRICT;"
        "CREATE TABLE log (id INTEGER PRIMARY KEY, what TEXT) STRICT;"
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
        "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;"
        "CREATE TABLE child (id INTEGER PRIMARY KEY, p INTEGER REFERENCES parent ON DELETE CASCADE) STRICT;"
        "CREATE TRIGGER t_updated AFTER UPDATE ON t BEGIN"
        " INSERT INTO log (what) VALUES ('one'); INSERT INTO log (what) VALUES ('two'); END;"
        "CREATE TRIGGER t_inserting BEFORE INSERT ON t BEGIN INSERT INTO log (what) VALUES ('insert'); END;"
    )
    made.execute("PRAGMA foreign_keys = ON")
    yield made
    made.close()


@pytest.fixture
def topics() -> set[str]:
    return set()


@pytest.fixture
def tx(connection: apsw.Connection, topics: set[str]) -> Transaction:
    transaction = Transaction(connection, topics)
    for name in "abc":
        transaction.insert("t", {"name": name, "n": 0})
    topics.clear()
    return transaction


def test_h21_rows_changed_by_triggers_are_not_counted(tx: Transaction, topics: set[str]) -> None:
    assert tx.change("t", "UPDATE t SET n = n + 1") == 3
    assert tx.change("t", "SELECT 1") == 0  # SQLite itself would still say 3
    assert tx.change("t", "UPDATE t SET n = n + 1 WHERE name = 'a'") == 1
    assert topics == {"t"}


def test_h21_nothing_matched_is_zero_and_no_topic(tx: Transaction, topics: set[str]) -> None:
    tx.execute("INSERT INTO log (what) VALUES ('before')")
    assert tx.change("t", "UPDATE t SET n = 1 WHERE name = 'nobody'") == 0
    assert tx.change("t", "DELETE FROM t WHERE name = 'nobody'") == 0
    assert topics == set()


def test_h21_an_aborted_statement_leaves_no_count_behind(tx: Transaction) -> None:
    assert tx.change("t", "UPDATE t SET n = 5") == 3
    with pytest.raises(apsw.ConstraintError):
        tx.change("t", "UPDATE t SET n = n + 95 WHERE name = 'a' OR name = 'b'")
    assert tx.change("t", "UPDATE t SET n = 1 WHERE name = 'nobody'") == 0
    with pytest.raises(apsw.ConstraintError):
        tx.change("t", "UPDATE t SET n = 500")
    assert tx.change("t", "SELECT 1") == 0


def test_h21_a_partly_done_statement_that_was_undone_counts_nothing(tx: Transaction) -> None:
    with pytest.raises(apsw.ConstraintError):
        tx.change("t", "UPDATE t SET n = CASE name WHEN 'c' THEN 500 ELSE 7 END")
    assert tx.execute("SELECT DISTINCT n FROM t") == [(0,)]


def test_h21_insert_or_ignore_counts_what_came_in(tx: Transaction, topics: set[str]) -> None:
    insert = "INSERT OR IGNORE INTO t (name, n) VALUES (?, 0)"
    assert tx.change("t", insert, ("d",)) == 1
    topics.clear()
    # The trigger before it has written its row all the same.
    assert tx.change("t", insert, ("d",)) == 0
    assert topics == set()
    assert tx.change("t", "INSERT OR IGNORE INTO t (name, n) VALUES ('d', 0), ('e', 0), ('f', 0)") == 2


def test_h21_cascades_are_not_counted_and_a_delete_of_all_is(tx: Transaction) -> None:
    for parent in (1, 2):
        tx.insert("parent", {"id": parent})
        for _ in range(3):
            tx.insert("child", {"p": parent})
    assert tx.change("parent", "DELETE FROM parent WHERE id = 1") == 1
    assert tx.change("child", "DELETE FROM child") == 3


def test_insert_returns_its_own_row_id(tx: Transaction, topics: set[str]) -> None:
    assert tx.insert("t", {"name": "d"}) == 4  # not the trigger's
    assert tx.insert("t", {"id": 70, "name": "e"}) == 70
    assert topics == {"t"}


def test_insert_into_a_table_without_row_ids_returns_no_other_tables(tx: Transaction) -> None:
    assert tx.insert("t", {"name": "d"}) == 4
    assert tx.insert("meta", {"name": "x", "value": "y"}) == 0


def test_one_is_the_first_row_or_none(tx: Transaction) -> None:
    assert tx.one("SELECT name FROM t ORDER BY name DESC") == ("c",)
    assert tx.one("SELECT name FROM t WHERE id = ?", (99,)) is None


def test_meta_is_written_over(tx: Transaction, topics: set[str]) -> None:
    assert tx.meta("x") is None
    tx.set_meta("x", "1")
    tx.set_meta("x", "2")
    assert tx.meta("x") == "2"
    assert topics == {"meta"}
