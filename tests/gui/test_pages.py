"""Pages of a long view: each look finds the right rows, whatever came in, changed or went away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gui.pages import PAGE_ROWS, Known, Look, Wanted, look
from app.ledger import queries
from app.ledger.reader import open_read_only
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from tests.gui import rows

START = 1_772_000_000 * 1_000_000
VIEW = "signals"


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_ledger(tmp_path, START)
    yield connection
    connection.close()


@pytest.fixture
def reading(writing: apsw.Connection, tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = open_read_only(tmp_path / FILE_NAME)
    yield connection
    connection.close()


def add(connection: apsw.Connection, count: int, start: int = START) -> None:
    with connection:
        rows.many_signals(Transaction(connection, set()), start, count)


def numbers(connection: apsw.Connection, known: Known, wanted: Wanted) -> Look[int]:
    return look(connection, VIEW, known, wanted, lambda row: int(row["number"]))


def known_of(found: Look[int]) -> Known:
    return Known(found.count, found.newest, found.marks)


def in_order(connection: apsw.Connection) -> list[int]:
    """All numbers, oldest first, read the plain way."""
    return [row["number"] for row in reversed(queries.select(connection, VIEW, limit=100_000))]


def assert_right(found: Look[int], everything: list[int]) -> None:
    assert found.count == len(everything)
    for page, held in found.pages.items():
        assert held == everything[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]


def test_an_empty_view(reading: apsw.Connection) -> None:
    found = numbers(reading, Known(), Wanted())
    assert (found.count, found.newest, found.pages) == (0, None, {})


def test_the_newest_rows_come_alone(writing: apsw.Connection, reading: apsw.Connection) -> None:
    add(writing, 1_000)
    found = numbers(reading, Known(), Wanted(top=20))
    assert sorted(found.pages) == [7]
    assert_right(found, in_order(reading))
    assert found.newest == 1_000


@pytest.mark.parametrize("ordinals", [(0, 1), (127, 129), (500, 640), (999, 1_000), (0, 5_000)])
def test_a_jump_to_anywhere_finds_its_rows(
    writing: apsw.Connection, reading: apsw.Connection, ordinals: tuple[int, int]
) -> None:
    add(writing, 1_000)
    first = numbers(reading, Known(), Wanted(top=20))
    for known in (Known(), known_of(first)):
        found = numbers(reading, known, Wanted(top=0, ordinals=ordinals))
        assert_right(found, in_order(reading))
        assert min(found.pages) == ordinals[0] // PAGE_ROWS


def test_pages_stay_where_they_are_when_rows_come_in(
    writing: apsw.Connection, reading: apsw.Connection
) -> None:
    add(writing, 300)
    first = numbers(reading, Known(), Wanted(top=300))
    add(writing, 90, START + 10**9)
    second = numbers(reading, known_of(first), Wanted(top=1, ordinals=(0, 128)))
    assert not second.restarted
    assert second.pages[0] == first.pages[0]
    assert_right(second, in_order(reading))


@pytest.mark.parametrize("gone", ["id <= 40", "id BETWEEN 130 AND 140", "id = 300", "1"])
def test_rows_that_went_away_are_noticed(
    writing: apsw.Connection, reading: apsw.Connection, gone: str
) -> None:
    add(writing, 300)
    first = numbers(reading, Known(), Wanted(top=300))
    with writing:
        writing.execute(f"DELETE FROM claims WHERE {gone}").fetchall()
    second = numbers(reading, known_of(first), Wanted(top=300, ordinals=(0, 300)))
    assert second.restarted
    assert_right(second, in_order(reading))


def test_a_delivery_judged_anew_moves_into_the_refused_ones(
    writing: apsw.Connection, reading: apsw.Connection
) -> None:
    with writing:
        tx = Transaction(writing, set())
        accepted = rows.add_delivery(tx, START, "accepted")
        rows.add_delivery(tx, START + 1, "stale")
    first = look(reading, "refused", Known(), Wanted(), lambda row: row["number"])
    assert first.count == 1
    with writing:
        writing.execute("UPDATE deliveries SET verdict = 'not_accepted' WHERE id = ?", (accepted,)).fetchall()
    known = Known(first.count, first.newest, first.marks)
    second = look(reading, "refused", known, Wanted(), lambda row: row["number"])
    assert second.restarted
    assert second.pages == {0: [1, 2]}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 700), st.integers(1, 200)), min_size=1, max_size=6)
)
def test_any_order_of_looks_and_growth_gives_the_right_rows(steps: list[tuple[int, int, int]]) -> None:
    """Each step: so many rows come in, then so many are looked at from an ordinal on."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY)").fetchall()
    connection.execute("CREATE VIEW v_signals AS SELECT number FROM t").fetchall()
    known, number = Known(), 0
    for added, first, length in steps:
        for _ in range(added):
            number += 1 + number % 3  # gaps, as rows of other kinds leave them
            connection.execute("INSERT INTO t VALUES (?)", (number,)).fetchall()
        wanted = Wanted(top=10, ordinals=(first, first + length))
        found = look(connection, VIEW, known, wanted, lambda row: int(row["number"]))
        assert not found.restarted
        assert_right(found, [row[0] for row in connection.execute("SELECT number FROM t ORDER BY number")])
        known = Known(found.count, found.newest, found.marks)
    connection.close()
