"""Reading a view of any length a page at a time, on the reader's thread. No Qt here.

Rows are only ever added at the newest end, so pages are counted from the oldest row: a full page never moves
when rows come in, and each is found by the number of the page above it (keyset), not by an offset.
Where rows went away after all (a purge, a delivery judged anew), a page no longer fits and all is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import apsw
import structlog

from app.ledger import queries
from app.ledger.listing import rows_of
from app.ledger.reader import Row, read

PAGE_ROWS = 128
log = structlog.get_logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier look found. `marks` has the number of the oldest row of a page, by page."""

    count: int = 0
    newest: int | None = None
    marks: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows: `top` of the newest, and those with these ordinals (0 is the oldest row), end excluded."""

    top: int = PAGE_ROWS
    ordinals: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Look(Generic[T]):
    """One moment of the view. Pages are oldest row first. `restarted`: earlier pages do not fit any more."""

    count: int
    newest: int | None
    marks: dict[int, int]
    pages: dict[int, list[T]]
    restarted: bool


class _Moved(Exception):
    """A page is not where an earlier look saw it."""


def look(
    connection: apsw.Connection, view: str, known: Known | None, wanted: Wanted, make: Callable[[Row], T]
) -> Look[T]:
    """Counts the view and reads the wanted pages, each row through `make`. Run it in one read transaction.

    `known` None: nothing of an earlier look is believed.
    """
    if known is not None:
        try:
            return _look(connection, view, known, wanted, make, restarted=False)
        except _Moved:
            log.info("a view has changed its rows, reading it anew", view=view)
    return _look(connection, view, Known(), wanted, make, restarted=True)


def _look(
    connection: apsw.Connection,
    view: str,
    known: Known,
    wanted: Wanted,
    make: Callable[[Row], T],
    *,
    restarted: bool,
) -> Look[T]:
    count, newest = _count(connection, view, known)
    marks = dict(known.marks)
    pages = {
        page: [make(row) for row in _page(connection, view, page, count, marks)]
        for page in _pages(count, wanted)
    }
    return Look(count, newest, marks, pages, restarted)


def look_at(
    connection: apsw.Connection,
    view: str,
    numbers: Sequence[int],
    wanted: Wanted,
    make: Callable[[Row], T],
    restarted: bool,
) -> Look[T] | None:
    """The wanted pages of what a search has found, `numbers` as they are shown; None where rows have gone."""
    count = len(numbers)
    pages: dict[int, list[T]] = {}
    for page in _pages(count, wanted):
        first, end = page * PAGE_ROWS, min(count, (page + 1) * PAGE_ROWS)
        rows = rows_of(connection, view, numbers[count - end : count - first])
        if len(rows) < end - first:
            return None
        pages[page] = [make(row) for row in reversed(rows)]
    return Look(count, numbers[0] if count else None, {}, pages, restarted)


def place_of(connection: apsw.Connection, view: str, number: int) -> int | None:
    """How many rows of a view are newer than the one with this number; None where it is not in it."""
    if not _numbers(connection, view, "SELECT number", "number = ?", (number,)):
        return None
    return _numbers(connection, view, "SELECT count(*)", "number > ?", (number,))[0]


def _pages(count: int, wanted: Wanted) -> list[int]:
    """Newest first, so that each page's neighbour above is known when its turn comes."""
    pages: set[int] = set()
    ranges = [(count - wanted.top, count), wanted.ordinals or (0, 0)]
    for start, stop in ranges:
        first, end = max(0, start), min(count, stop)
        if first < end:
            pages |= set(range(first // PAGE_ROWS, (end - 1) // PAGE_ROWS + 1))
    return sorted(pages, reverse=True)


def _count(connection: apsw.Connection, view: str, known: Known) -> tuple[int, int | None]:
    """Counts only what is newer than an earlier look: counting a million rows takes a third of a second."""
    if known.count == 0 or known.newest is None:
        count = queries.count(connection, view)
    else:
        added = _numbers(connection, view, "SELECT count(*)", "number > ?", (known.newest,))
        count = known.count + added[0]
    newest = _numbers(connection, view, "SELECT number", "number > -1", (), "ORDER BY number DESC LIMIT 1")
    return count, newest[0] if newest else None


def _page(connection: apsw.Connection, view: str, page: int, count: int, marks: dict[int, int]) -> list[Row]:
    end = min(count, (page + 1) * PAGE_ROWS)
    before = None if end == count else _mark(connection, view, page + 1, count, marks)
    length = end - page * PAGE_ROWS
    # Below the oldest page there must be nothing: one row more would show it.
    rows = queries.select(connection, view, limit=length if page else length + 1, before=before)
    rows.reverse()
    if len(rows) != length or marks.get(page, rows[0]["number"]) != rows[0]["number"]:
        raise _Moved
    marks[page] = rows[0]["number"]
    return rows


def _mark(connection: apsw.Connection, view: str, page: int, count: int, marks: dict[int, int]) -> int:
    """The number of the oldest row of a page, counted from the nearest page that is known."""
    if page not in marks:
        ordinal = page * PAGE_ROWS
        above = min((each for each in marks if each > page), default=None)
        below = max((each for each in marks if each < page), default=None)
        down = (count if above is None else above * PAGE_ROWS) - ordinal
        up = ordinal if below is None else ordinal - below * PAGE_ROWS
        if down <= up:
            condition, bindings = ("number > -1", ()) if above is None else ("number < ?", (marks[above],))
            order = f"ORDER BY number DESC LIMIT 1 OFFSET {down - 1}"
        else:
            condition, bindings = ("number > -1", ()) if below is None else ("number >= ?", (marks[below],))
            order = f"ORDER BY number LIMIT 1 OFFSET {up}"
        found = _numbers(connection, view, "SELECT number", condition, bindings, order)
        if not found:
            raise _Moved
        marks[page] = found[0]
    return marks[page]


def _numbers(
    connection: apsw.Connection,
    view: str,
    columns: str,
    condition: str,
    bindings: tuple[int, ...],
    order: str = "",
) -> list[int]:
    shape = queries.shape_of(view)
    conditions = f"{condition} AND {shape.condition}" if shape.condition else condition
    sql = f"{columns} AS n FROM {shape.name} WHERE {conditions} {order}"
    return [row["n"] for row in read(connection, sql, bindings)]
