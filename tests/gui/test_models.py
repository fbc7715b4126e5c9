"""The table model: rows that come in, change, go, or are not there yet; and how few of them it holds."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from app.gui import signals
from app.gui.columns import Line
from app.gui.models import MAX_PAGES, LedgerModel
from app.gui.pages import PAGE_ROWS, Look
from app.gui.theme import dark_palette, light_palette, theme_of
from app.ledger.reader import Row

FOREGROUND = Qt.ItemDataRole.ForegroundRole


def row(number: int, outcome: str = "DONE") -> Row:
    return {
        "id": f"S{number}",
        "number": number,
        "source": "tradingview",
        "key": f"k{number}",
        "key_source": "body",
        "symbol": "AAPL",
        "action": "buy",
        "quantity": "10",
        "first_seen": "2026-03-02T15:30:00.000000Z",
        "deliveries": 1,
        "outcome": outcome,
        "unanswered": 0,
    }


def look_of(count: int, pages: list[int], *, outcome: str = "DONE", restarted: bool = False) -> Look[Line]:
    def page(which: int) -> list[Line]:
        first = which * PAGE_ROWS
        return [signals.TABLE.line(row(n + 1, outcome)) for n in range(first, min(count, first + PAGE_ROWS))]

    return Look(count, count, {}, {which: page(which) for which in pages}, restarted)


@pytest.fixture
def model(qapp: QApplication) -> LedgerModel:
    return LedgerModel(signals.TABLE, theme_of(light_palette()))


def shown(model: LedgerModel, at: int, column: int = 1) -> str:
    return str(model.index(at, column).data())


def test_the_newest_row_is_first(model: LedgerModel) -> None:
    model.apply(look_of(200, [1]))
    assert model.rowCount() == 200
    assert shown(model, 0) == "S200"
    assert shown(model, 71) == "S129"


def test_a_row_that_is_not_here_is_a_placeholder_and_asked_for_once(model: LedgerModel) -> None:
    model.apply(look_of(200, [1]))
    asked: list[int] = []
    model.rows_missing.connect(lambda: asked.append(1))
    assert shown(model, 199, 0) == "…"
    assert model.index(199, 1).data() is None
    assert model.index(198, 1).data(Qt.ItemDataRole.ToolTipRole) is None
    assert asked == [1]
    model.apply(look_of(200, [0]))
    assert shown(model, 199) == "S1"
    assert asked == [1]


def test_rows_come_in_on_top_in_one_step(model: LedgerModel) -> None:
    model.apply(look_of(100, [0]))
    inserted: list[tuple[int, int]] = []
    changed: list[object] = []
    model.rowsInserted.connect(lambda _parent, first, last: inserted.append((first, last)))
    model.dataChanged.connect(lambda *arguments: changed.append(arguments))
    model.apply(look_of(130, [0, 1]))
    assert inserted == [(0, 29)]
    assert changed == []
    assert shown(model, 0) == "S130"
    assert shown(model, 30) == "S100"


def test_a_row_that_changed_is_said_and_nothing_else(model: LedgerModel) -> None:
    model.apply(look_of(100, [0]))
    changed: list[tuple[int, int]] = []
    model.dataChanged.connect(lambda first, last, _roles: changed.append((first.row(), last.row())))
    model.apply(look_of(100, [0]))
    assert changed == []
    second = look_of(100, [0])
    second.pages[0][40] = signals.TABLE.line(row(41, "AMBIGUOUS"))
    model.apply(second)
    assert changed == [(59, 59)]
    assert shown(model, 59, 6) == "? Ambiguous"


def test_a_look_that_starts_anew_resets(model: LedgerModel) -> None:
    model.apply(look_of(300, [2, 1, 0]))
    resets: list[int] = []
    model.modelReset.connect(lambda: resets.append(1))
    model.apply(look_of(50, [0], restarted=True))
    assert resets == [1]
    assert model.rowCount() == 50
    assert model.pages_held == 1


def test_old_pages_are_shown_and_read_again_when_seen(model: LedgerModel) -> None:
    model.apply(look_of(300, [2, 1, 0]))
    asked: list[int] = []
    model.rows_missing.connect(lambda: asked.append(1))
    model.apply(look_of(300, [2]), others_stale=False)
    assert shown(model, 299) == "S1"
    assert asked == []
    model.apply(look_of(300, [2]), others_stale=True)
    assert shown(model, 299) == "S1"
    assert asked == [1]


def test_it_holds_so_many_pages_and_no_more(model: LedgerModel) -> None:
    count = (MAX_PAGES + 10) * PAGE_ROWS
    for page in range(MAX_PAGES + 10):
        model.apply(look_of(count, [page]), others_stale=False)
    assert model.pages_held == MAX_PAGES
    assert shown(model, 0) == f"S{count}"
    assert model.index(count - 1, 1).data() is None


def test_colours_follow_the_palette(model: LedgerModel) -> None:
    model.apply(look_of(1, [0]))
    light = model.index(0, 6).data(FOREGROUND)
    model.repaint_with(theme_of(dark_palette()))
    assert model.index(0, 6).data(FOREGROUND) != light
    assert model.index(0, 1).data(FOREGROUND) is None


def test_copying_takes_the_number_without_the_gap_that_is_painted(model: LedgerModel) -> None:
    model.apply(look_of(1, [0]))
    line = model.line(0)
    assert line is not None
    assert line.cells[4].text == "10"
    assert line.shown[4].strip() == "10"
    assert line.shown[4] != "10"
