"""What a table of the window is made of: columns that turn a ledger row into text, tone and tooltip.

Cells are made once, when a row enters the cache and off the loop; painting only hands them out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from app.gui.formats import both_times, local_time, one_line
from app.gui.theme import Tone
from app.gui.words import Word, tr
from app.ledger.listing import LISTINGS
from app.ledger.reader import Row

GAP = "\u2002"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone | None = None
    tip: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """It starts as wide as `sample`; the one column of a table that stretches takes what is left."""

    name: str
    title: str
    sample: str
    make: Callable[[Row], Cell]
    right: bool = False
    stretch: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One row as it is shown. `row` is the ledger's own, to copy and to open."""

    id: str
    number: int
    cells: tuple[Cell, ...]
    shown: tuple[str, ...]
    """The cells' texts as they are painted: numbers with a gap to their right neighbour."""
    row: Row


def _own_id(row: Row) -> str:
    return str(row["id"])


@dataclass(frozen=True, slots=True)
class Chip:
    """A condition that has a name, as the listing knows it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """One view: where its rows come from, which changes touch it, and what an empty one tells the reader."""

    name: str
    title: str
    view: str
    topics: frozenset[str]
    columns: tuple[Column, ...]
    empty_title: str
    empty_text: str
    chips: tuple[Chip, ...] = ()
    counts_chips: bool = False
    """Whether each chip says how many rows it stands for."""
    offers: tuple[str, ...] = ()
    """What can be done about a row of it, by the names of the actions."""
    story: Callable[[Row], str] = _own_id
    """The id of what a row tells of."""

    @property
    def is_listing(self) -> bool:
        """Whether it can be filtered and sorted."""
        return self.view in LISTINGS

    def sortable(self, column: int) -> bool:
        return self.is_listing and self.columns[column].name in LISTINGS[self.view].columns

    def line(self, row: Row) -> Line:
        cells = tuple(column.make(row) for column in self.columns)
        shown = tuple(
            cell.text + GAP if column.right and cell.text else cell.text
            for column, cell in zip(self.columns, cells, strict=True)
        )
        return Line(self.story(row), row["number"], cells, shown, row)


def translated(text: str) -> str:
    """A text of a Table or Column in the user's language."""
    return QCoreApplication.translate("Tables", text)


TIME = "2026-00-00 00:00:00 "
WIDE_WORD = "✓ Not accepted "
"""Samples of common columns."""


def time_cell(utc: str | None) -> Cell:
    return Cell("") if utc is None else Cell(local_time(utc), None, both_times(utc))


def text_cell(value: object, tone: Tone | None = None) -> Cell:
    """Foreign text on one line, whole in the tooltip."""
    if value is None or value == "":
        return Cell("")
    text = one_line(str(value))
    return Cell(text, tone, text if len(text) > 12 else None)


def number_cell(value: object) -> Cell:
    return Cell("" if value is None else str(value))


def word_cell(word: Word, code: str | None, more: str | None = None) -> Cell:
    """Glyph and word; the tooltip adds what it means and the word that ledger and commands use."""
    if not word.text:
        return Cell("")
    tip = " ".join(part for part in (tr(word.help) if word.help else "", more or "") if part)
    return Cell(word.shown, word.tone, f"{tip} [{code}]".strip() if code else tip or None)
