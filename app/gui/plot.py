"""A small plot: bars and lines over time, painted by hand. It is given numbers and reads nothing.

Series are told apart by pattern, dash and mark as well as by colour; values are read by mouse or arrow keys,
and the whole is said in a sentence below and to a screen reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.gui.theme import Theme, Tone, mixed, scaled, theme_of

SECOND = 1_000_000
DAY = 86_400 * SECOND
TICKS = 4


class Kind(Enum):
    BAR = "bar"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Series:
    """`values`: one a place of the plot's times, None where there is nothing to say."""

    name: str
    tone: Tone
    values: Sequence[float | None]
    kind: Kind = Kind.LINE
    pattern: Qt.BrushStyle = Qt.BrushStyle.SolidPattern
    dash: Qt.PenStyle = Qt.PenStyle.SolidLine


@dataclass(frozen=True, slots=True)
class Picture:
    """`times`: where each place begins, UTC microseconds, `width` long. `write` spells a value.

    `limit`: a value with its name that everything should stay below. `log`: equal factors, equal distances.
    """

    title: str
    times: Sequence[int]
    width: int
    series: Sequence[Series]
    write: Callable[[float], str]
    summary: str = ""
    limit: tuple[float, str] | None = None
    log: bool = False
    empty: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(value for each in self.series for value in each.values if value)


NOTHING = Picture("", (), 1, (), str)


@dataclass(slots=True)
class _Scale:
    """From values to heights."""

    low: float
    high: float
    log: bool
    area: QRectF

    def y(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(each, 1e-3)) for each in (value, low, high))
        share = 0.0 if high == low else (value - low) / (high - low)
        return self.area.bottom() - share * self.area.height()

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = nice_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step)
        return [step * place for place in range(first, math.floor(self.high / step) + 1)]


def nice_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999)


STEPS = tuple(
    seconds * SECOND
    for seconds in (
        60,
        300,
        900,
        1_800,
        3_600,
        7_200,
        10_800,
        21_600,
        43_200,
        86_400,
        172_800,
        604_800,
        2_592_000,
    )
)


def time_ticks(first: int, end: int, most: int) -> list[int]:
    """At most so many moments that a clock or a calendar would name, in local time."""
    step = next((each for each in STEPS if (end - first) / each <= most), STEPS[-1])
    offset = datetime.fromtimestamp(first // SECOND).astimezone().utcoffset()
    shift = 0 if offset is None else int(offset.total_seconds()) * SECOND
    start = -(-(first + shift) // step) * step - shift
    return list(range(start, end, step))


@dataclass(slots=True)
class _Paint:
    painter: QPainter
    theme: Theme
    area: QRectF
    scale: _Scale
    xs: list[float] = field(default_factory=list)
    each: float = 0.0


class Plot(QWidget):
    """`read` brings the words of the place under the mouse or the keys, empty where there is none."""

    read = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = NOTHING
        self._place: int | None = None
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    @property
    def picture(self) -> Picture:
        return self._picture

    def show_picture(self, picture: Picture) -> None:
        self._picture = picture
        if self._place is not None and self._place >= len(picture.times):
            self._place = None
        self.setAccessibleDescription(picture.empty if picture.is_empty else picture.summary)
        self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().lineSpacing()
        return QSize(line * 20, line * 9)

    def minimumSizeHint(self) -> QSize:
        line = self.fontMetrics().lineSpacing()
        return QSize(line * 12, line * 6)

    # ------------------------------------------------------------------ reading values

    def words(self, index: int) -> str:
        """The time at an index and every value there."""
        picture = self._picture
        at = datetime.fromtimestamp(picture.times[index] / SECOND).astimezone()
        parts = [
            f"{each.name} {picture.write(value)}"
            for each in picture.series
            if (value := each.values[index]) is not None
        ]
        return f"{at:%Y-%m-%d %H:%M}  " + "  ·  ".join(parts)

    def point_at(self, place: int | None) -> None:
        if place != self._place:
            self._place = place
            self.read.emit("" if place is None else self.words(place))
            self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        area, times = self._area(), self._picture.times
        if times and area.left() <= event.position().x() < area.right():
            place = int((event.position().x() - area.left()) / area.width() * len(times))
            self.point_at(min(len(times) - 1, place))
        else:
            self.point_at(None)

    def leaveEvent(self, event: QEvent) -> None:
        self.point_at(None)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.point_at(None)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._picture.times) - 1
        here = self._place
        moves = {
            Qt.Key.Key_Left: last if here is None else max(0, here - 1),
            Qt.Key.Key_Right: 0 if here is None else min(last, here + 1),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        wanted = moves.get(Qt.Key(event.key()))
        if wanted is None or last < 0:
            super().keyPressEvent(event)
            return
        self.point_at(wanted)

    # ------------------------------------------------------------------ painting

    def _area(self) -> QRectF:
        metrics = self.fontMetrics()
        left = metrics.horizontalAdvance("00,000.0 s") + 8
        return QRectF(self.rect()).adjusted(
            left, metrics.lineSpacing() * 2.6, -10, -metrics.lineSpacing() * 1.5
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, theme = QPainter(self), theme_of(self.palette())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.base)
        area, picture = self._area(), self._picture
        self._paint_head(painter, theme, area)
        if picture.is_empty:
            painter.setPen(theme.quiet)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, picture.empty)
        else:
            each = area.width() / len(picture.times)
            xs = [area.left() + each * (place + 0.5) for place in range(len(picture.times))]
            paint = _Paint(painter, theme, area, self._scale(area), xs, each)
            self._paint_grid(paint)
            self._paint_bars(paint)
            for series in picture.series:
                if series.kind is Kind.LINE:
                    self._paint_line(paint, series)
            self._paint_limit(paint)
            self._paint_pointer(paint)
        if self.hasFocus():
            painter.setPen(QPen(theme.ink[Tone.WORKING], 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _scale(self, area: QRectF) -> _Scale:
        picture = self._picture
        bars = [each for each in picture.series if each.kind is Kind.BAR]
        stacked = [
            sum(values)
            for values in zip(
                *([value or 0.0 for value in each.values] for each in bars),
                strict=True,
            )
        ]
        lines = [
            value
            for each in picture.series
            if each.kind is Kind.LINE
            for value in each.values
            if value is not None
        ]
        values = [*stacked, *lines]
        if picture.limit is not None:
            values.append(picture.limit[0])
        low, high = min(values), max(values)
        if picture.log:
            low = 10.0 ** math.floor(math.log10(max(low, 1e-2)))
            return _Scale(low, max(high * 1.3, low * 10), True, area)
        if stacked or (low > 0 and low < high * 0.5):
            low = min(low, 0.0)
        room = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
        return _Scale(low if low == 0.0 else low - room, high + room, False, area)

    def _paint_head(self, painter: QPainter, theme: Theme, area: QRectF) -> None:
        metrics = self.fontMetrics()
        painter.setFont(scaled(self.font(), 1.0, bold=True))
        painter.setPen(theme.text)
        painter.drawText(QPointF(8, metrics.ascent() + 5), self._picture.title)
        painter.setFont(self.font())
        x, y = area.left(), metrics.lineSpacing() + metrics.ascent() + 8
        for series in self._picture.series:
            box = QRectF(x, y - metrics.ascent() * 0.75, metrics.height() * 1.1, metrics.ascent() * 0.75)
            colour = theme.solid[series.tone]
            if series.kind is Kind.BAR:
                painter.fillRect(box, theme.base)
                painter.setPen(QPen(colour, 1))
                painter.setBrush(QBrush(colour, series.pattern))
                painter.drawRect(box)
            else:
                painter.setPen(QPen(colour, 2, series.dash))
                painter.drawLine(
                    QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y())
                )
            painter.setPen(theme.quiet)
            painter.drawText(QPointF(box.right() + 5, y), series.name)
            x = box.right() + 5 + metrics.horizontalAdvance(series.name) + 16

    def _paint_grid(self, paint: _Paint) -> None:
        painter, area, metrics = paint.painter, paint.area, self.fontMetrics()
        for tick in paint.scale.ticks():
            y = paint.scale.y(tick)
            painter.setPen(QPen(paint.theme.line, 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(paint.theme.quiet)
            box = QRectF(0, y - metrics.height() / 2, area.left() - 6, metrics.height())
            painter.drawText(
                box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._picture.write(tick)
            )
        picture = self._picture
        first, end = picture.times[0], picture.times[-1] + picture.width
        room = metrics.horizontalAdvance("00-00 00:00") + 12
        for at in time_ticks(first, end, max(1, int(area.width() / room))):
            x = area.left() + (at - first) / (end - first) * area.width()
            moment = datetime.fromtimestamp(at / SECOND).astimezone()
            text = f"{moment:%m-%d}" if end - first > 2 * DAY else f"{moment:%H:%M}"
            painter.setPen(QPen(paint.theme.line, 1))
            painter.drawLine(QPointF(x, area.bottom()), QPointF(x, area.bottom() + 3))
            painter.setPen(paint.theme.quiet)
            box = QRectF(x - room / 2, area.bottom() + 3, room, metrics.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, text)

    def _paint_bars(self, paint: _Paint) -> None:
        bars = [each for each in self._picture.series if each.kind is Kind.BAR]
        gap = min(2.0, paint.each * 0.2)
        for place, x in enumerate(paint.xs):
            below = 0.0
            for series in bars:
                value = series.values[place] or 0.0
                if value:
                    bottom, top = paint.scale.y(below), paint.scale.y(below + value)
                    box = QRectF(x - paint.each / 2 + gap / 2, top, paint.each - gap, bottom - top)
                    colour = paint.theme.solid[series.tone]
                    paint.painter.setPen(QPen(colour, 1))
                    paint.painter.setBrush(QBrush(colour, series.pattern))
                    paint.painter.drawRect(box)
                    below += value

    def _paint_line(self, paint: _Paint, series: Series) -> None:
        """Over places where nothing is known it goes straight on; a lone point is a dot."""
        points = [
            QPointF(x, paint.scale.y(value))
            for x, value in zip(paint.xs, series.values, strict=True)
            if value is not None
        ]
        colour = paint.theme.solid[series.tone]
        paint.painter.setBrush(Qt.BrushStyle.NoBrush)
        paint.painter.setPen(QPen(colour, 2, series.dash))
        paint.painter.drawPolyline(QPolygonF(points))
        if len(points) <= 40:
            self._dots(paint, points, colour)

    def _dots(self, paint: _Paint, points: list[QPointF], colour: QColor) -> None:
        paint.painter.setPen(Qt.PenStyle.NoPen)
        paint.painter.setBrush(colour)
        for point in points:
            paint.painter.drawEllipse(point, 2.5, 2.5)

    def _paint_limit(self, paint: _Paint) -> None:
        if self._picture.limit is None:
            return
        value, name = self._picture.limit
        y, painter = paint.scale.y(value), paint.painter
        painter.setPen(QPen(paint.theme.solid[Tone.BAD], 1.5, Qt.PenStyle.DashDotLine))
        painter.drawLine(QPointF(paint.area.left(), y), QPointF(paint.area.right(), y))
        painter.setPen(paint.theme.ink[Tone.BAD])
        box = QRectF(paint.area.left() + 4, y + 1, paint.area.width() - 8, self.fontMetrics().height())
        painter.drawText(box, Qt.AlignmentFlag.AlignRight, name)

    def _paint_pointer(self, paint: _Paint) -> None:
        if self._place is None:
            return
        x = paint.xs[self._place]
        paint.painter.setPen(QPen(mixed(paint.theme.text, paint.theme.base, 0.4), 1))
        paint.painter.drawLine(QPointF(x, paint.area.top()), QPointF(x, paint.area.bottom()))
