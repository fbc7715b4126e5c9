"""A paper book that an earlier Onefill wrote is brought up to date in place, whole or not at all."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings

from app.brokers import paper_upgrade
from app.brokers.paper_book import PaperBook
from app.brokers.paper_file import VERSION, PaperBookRefused, open_paper_file
from app.clock import ManualClock
from tests.brokers.test_paper_histories import check, play, steps

History = list[tuple[object, ...]]


def statement(path: Path, *statements: str) -> list[tuple[object, ...]]:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return [row for each in statements for row in connection.execute(each).fetchall()]


def written_by_version_1(path: Path) -> None:
    """Version 1 had no table of positions; nothing else was different."""
    statement(path, "DROP TABLE positions", "PRAGMA user_version = 1")


def version(path: Path) -> object:
    return statement(path, "PRAGMA user_version")[0][0]


@settings(max_examples=40, deadline=None)
@given(steps)
def test_whatever_was_traded_the_positions_are_what_the_fills_add_up_to(history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "paper.sqlite3"
        book, taken = play(path, history)
        before = book.snapshot("paper", 0)
        book.close()
        written_by_version_1(path)
        book = PaperBook(path, ManualClock())
        try:
            assert book.snapshot("paper", 0) == before
            book.fill_all_due()
            check(book, taken)
        finally:
            book.close()
        assert version(path) == VERSION


def test_a_file_brought_up_to_date_is_as_a_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old.sqlite3", tmp_path / "new.sqlite3"
    for path in (old, new):
        open_paper_file(path).close()
    written_by_version_1(old)
    open_paper_file(old).close()
    columns = "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo('positions')"
    assert statement(old, columns) == statement(new, columns)
    names = "SELECT type, name, tbl_name FROM sqlite_schema ORDER BY name"
    assert statement(old, names) == statement(new, names)
    strict = "SELECT strict FROM pragma_table_list('positions')"
    assert statement(old, strict) == statement(new, strict) == [(1,)]
    assert statement(old, "PRAGMA foreign_key_list(positions)") == statement(
        new, "PRAGMA foreign_key_list(positions)"
    )


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "paper.sqlite3"
    open_paper_file(path).close()
    written_by_version_1(path)
    before = statement(path, "SELECT * FROM sqlite_schema")
    real = paper_upgrade._STEPS[2]

    def half(connection: apsw.Connection) -> None:
        real(connection)
        raise apsw.FullError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setitem(paper_upgrade._STEPS, 2, half)
        with pytest.raises(PaperBookRefused, match="the disk is full"):
            open_paper_file(path)
    assert (version(path), statement(path, "SELECT * FROM sqlite_schema")) == (1, before)
    open_paper_file(path).close()
    assert version(path) == VERSION


@pytest.mark.parametrize("damage", ["DROP TABLE fills", "DROP INDEX orders_due", "DELETE FROM exchange"])
def test_an_old_file_that_lacks_something_is_refused_and_not_brought_up_to_date(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "paper.sqlite3"
    open_paper_file(path).close()
    written_by_version_1(path)
    statement(path, damage)
    with pytest.raises(PaperBookRefused):
        open_paper_file(path)
    assert version(path) == 1


def test_a_file_of_this_version_without_its_positions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "paper.sqlite3"
    open_paper_file(path).close()
    statement(path, "DROP TABLE positions")
    with pytest.raises(PaperBookRefused, match="lacks table positions"):
        open_paper_file(path)


def test_two_programs_at_once_bring_it_up_to_date_once(tmp_path: Path) -> None:
    path = tmp_path / "paper.sqlite3"
    open_paper_file(path).close()
    written_by_version_1(path)
    with contextlib.closing(apsw.Connection(str(path))) as late:
        open_paper_file(path).close()
        paper_upgrade.upgrade(late)
    assert version(path) == VERSION
