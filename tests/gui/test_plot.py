"""The plots: what they say in words, by mouse and by key, and that they are painted in light and dark."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent
from PySide6.QtWidgets import QApplication

from app.clock import SECOND
from app.gui.charts import Charts
from app.gui.pictures import LIMIT_MS, activity_picture, latency_picture, money_pictures
from app.gui.plot import DAY, Kind, Picture, Plot, nice_step, time_ticks
from app.gui.theme import dark_palette, light_palette, theme_of
from app.gui.window import Window
from app.ledger.series import Bars, Latency, Money
from tests.gui import rows
from tests.gui.hands import press, until
from tests.gui.kit import StandIn

NOW = 1_772_465_400 * SECOND
MINUTE = 60 * SECOND


def bars() -> Picture:
    counts = {"signals": [3, 0, 5], "duplicates": [1, 0, 0], "refused": [0, 0, 2], "orders": [3, 0, 4]}
    return activity_picture(Bars(NOW, 10 * MINUTE, counts))


def shown(picture: Picture) -> Plot:
    plot = Plot("test")
    plot.resize(500, 260)
    plot.show_picture(picture)
    return plot


def test_the_sentence_says_what_the_bars_show(qapp: QApplication) -> None:
    picture = bars()
    assert picture.summary.startswith("Came in: 8 signals, 1 duplicates, 2 refused; 7 orders made. Most at ")
    assert picture.summary.endswith(": 7.")
    plot = shown(picture)
    assert plot.accessibleName() == "test"
    assert plot.accessibleDescription() == picture.summary
    plot.deleteLater()


def test_series_differ_by_more_than_colour() -> None:
    looks = [(each.kind, each.pattern, each.dash) for each in bars().series]
    assert len(set(looks)) == len(looks)
    lines = latency_picture([Latency(NOW, 1, 1.0, 2.0, 3.0)], NOW, NOW + MINUTE, 6).series
    assert len({each.dash for each in lines}) == 3


def test_keys_and_the_mouse_read_values(qapp: QApplication) -> None:
    plot = shown(bars())
    said: list[str] = []
    plot.read.connect(said.append)
    press(plot, Qt.Key.Key_End)
    assert "signals 5  ·  duplicates 0  ·  refused 2  ·  orders 4" in said[-1]
    press(plot, Qt.Key.Key_Left)
    press(plot, Qt.Key.Key_Left)
    assert "signals 3  ·  duplicates 1" in said[-1]
    press(plot, Qt.Key.Key_Left)
    assert "signals 3" in said[-1]
    place = QPointF(470, 150)
    none = Qt.MouseButton.NoButton
    moved = QMouseEvent(QEvent.Type.MouseMove, place, place, none, none, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(plot, moved)
    assert "signals 5" in said[-1]
    QApplication.sendEvent(plot, QEvent(QEvent.Type.Leave))
    assert said[-1] == ""
    plot.deleteLater()


def test_latency_stands_below_the_limit_of_three_seconds() -> None:
    found = [Latency(NOW, 100, 2.0, 9.0, 40.0), Latency(NOW + 5 * MINUTE, 1, 3.0, 3.0, 1_250.0)]
    picture = latency_picture(found, NOW, NOW + 10 * MINUTE, 10)
    assert picture.limit == (LIMIT_MS, "3 s: TradingView gives up")
    assert picture.series[0].values[0] == 2.0
    assert picture.series[2].values[5] == 1_250.0
    assert picture.series[0].values[3] is None
    assert "the longest took 1.25 s, at " in picture.summary


def test_money_is_known_from_the_first_fill_on_and_holds_until_the_next() -> None:
    points = [
        Money(NOW + 25 * MINUTE, Decimal("1.5"), Decimal(100)),
        Money(NOW + 45 * MINUTE, Decimal(-2), Decimal(0)),
    ]
    equity, exposure = money_pictures(points, "paper", Decimal(1_000), NOW, NOW + 60 * MINUTE, 6)
    assert list(equity.series[0].values) == [None, None, 1001.5, 1001.5, 998.0, 998.0]
    assert list(exposure.series[0].values) == [None, None, 100.0, 100.0, 0.0, 0.0]
    assert equity.summary == (
        "paper: equity 998.00, between 998.00 and 1,001.50, at the prices of our last fills."
    )
    result, _ = money_pictures(points, "x", None, NOW, NOW + 60 * MINUTE, 6)
    assert result.title == "Result"
    none, nothing = money_pictures([], "paper", Decimal(1), NOW, NOW + MINUTE, 6)
    assert none.is_empty
    assert nothing.is_empty


@pytest.mark.parametrize(
    ("rough", "step"), [(0.0, 1.0), (0.7, 1.0), (1.2, 2.0), (23, 50.0), (1_000, 1_000.0)]
)
def test_steps_are_round(rough: float, step: float) -> None:
    assert nice_step(rough) == step


@pytest.mark.parametrize("length", [30 * MINUTE, 5 * 60 * MINUTE, DAY, 9 * DAY, 300 * DAY])
def test_times_on_the_axis_are_few_and_round(length: int) -> None:
    ticks = time_ticks(NOW, NOW + length, 8)
    assert 1 <= len(ticks) <= 10
    assert all(NOW <= tick < NOW + length for tick in ticks)
    assert len({second - first for first, second in pairwise(ticks)}) <= 1
    assert all(tick % MINUTE == 0 for tick in ticks)


@pytest.mark.parametrize("palette", [light_palette, dark_palette])
def test_bars_and_lines_are_painted(qapp: QApplication, palette: object) -> None:
    plot = shown(bars())
    plot.setPalette(palette())  # type: ignore[operator]
    image = QImage(plot.size(), QImage.Format.Format_RGB32)
    plot.render(image)
    theme = theme_of(plot.palette())
    solid = theme.solid[next(each.tone for each in bars().series if each.kind is Kind.BAR)].rgb()
    found = {image.pixel(x, y) for x in range(0, image.width(), 2) for y in range(0, image.height(), 2)}
    assert solid in found
    assert QColor(theme.base).rgb() in found
    plot.deleteLater()


async def test_health_draws_what_came_in_and_says_it(window: Window, engine: StandIn) -> None:
    now = engine.clock.now()
    claim = await engine.write(lambda tx: rows.add_signal(tx, now - 10 * MINUTE))
    await engine.write(lambda tx: rows.add_duplicate(tx, claim, now - 9 * MINUTE))
    window.show_view("health")
    charts = window.current.charts
    assert isinstance(charts, Charts)
    await until(lambda: "1 signals, 1 duplicates" in charts.words.text())
    assert "TradingView waits 3 s" in charts.words.text()
    charts.plots[0].setFocus()
    press(charts.plots[0], Qt.Key.Key_Home)
    assert "signals 0" in charts.words.text()
    charts.span.setFocus()
    press(charts.span, Qt.Key.Key_Home)
    await until(lambda: charts.plots[0].picture.width == MINUTE)


async def test_positions_draw_equity_and_exposure_of_the_paper_account(
    window: Window, engine: StandIn
) -> None:
    now = engine.clock.now()
    claim = await engine.write(lambda tx: rows.add_signal(tx, now - 10 * MINUTE, quantity="10"))
    await engine.write(lambda tx: rows.fill(tx, claim, now - 10 * MINUTE))
    window.show_view("positions")
    charts = window.current.charts
    assert isinstance(charts, Charts)
    await until(lambda: "exposure 1,872.50" in charts.words.text())
    assert "paper: equity 100,000.00" in charts.words.text()


async def test_plots_that_nobody_sees_are_not_read(window: Window, engine: StandIn) -> None:
    await engine.write(lambda tx: rows.add_signal(tx, engine.clock.now()))
    charts = window.views["health"].charts
    assert isinstance(charts, Charts)
    charts.refresh(at_once=True)
    assert charts.plots[0].picture.times == ()
