"""The icon in the tray: each state has a shape of its own, so that no colour is needed to tell them apart."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPalette, QPen, QPixmap

from app.gui.theme import Tone, theme_of

SIZES = (16, 22, 24, 32, 48, 64)


class TrayState(Enum):
    OK = "ok"
    EXITS_ONLY = "exits_only"
    HALTED = "halted"
    ATTENTION = "attention"
    STOPPING = "stopping"


_TONES = {
    TrayState.OK: Tone.GOOD,
    TrayState.EXITS_ONLY: Tone.HELD,
    TrayState.HALTED: Tone.BAD,
    TrayState.ATTENTION: Tone.DOUBT,
    TrayState.STOPPING: Tone.QUIET,
}


def tray_icon(state: TrayState, palette: QPalette) -> QIcon:
    """A round with a tick, one with two bars, a square, a triangle with a mark, an empty ring."""
    theme, tone = theme_of(palette), _TONES[state]
    icon = QIcon()
    for size in SIZES:
        icon.addPixmap(_drawn(state, theme.solid[tone], theme.solid_ink[tone], size))
    return icon


def _drawn(state: TrayState, ground: QColor, ink: QColor, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    # Everything is drawn on a square of 16.
    painter.scale(size / 16, size / 16)
    # An edge that shows on light and on dark bars alike.
    painter.setPen(QPen(ink, 0.8))
    painter.setBrush(ground)
    _SHAPES[state](painter, ground, ink)
    painter.end()
    return pixmap


def _ok(painter: QPainter, _ground: QColor, ink: QColor) -> None:
    painter.drawEllipse(QRectF(1, 1, 14, 14))
    painter.setPen(_stroke(ink, 2))
    painter.drawPolyline([QPointF(4.5, 8.5), QPointF(7, 11), QPointF(11.5, 5.5)])


def _exits_only(painter: QPainter, _ground: QColor, ink: QColor) -> None:
    painter.drawEllipse(QRectF(1, 1, 14, 14))
    painter.setPen(_stroke(ink, 2))
    painter.drawLine(QPointF(6, 5), QPointF(6, 11))
    painter.drawLine(QPointF(10, 5), QPointF(10, 11))


def _halted(painter: QPainter, _ground: QColor, ink: QColor) -> None:
    painter.drawRect(QRectF(1, 1, 14, 14))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawRect(QRectF(5, 5, 6, 6))


def _attention(painter: QPainter, _ground: QColor, ink: QColor) -> None:
    path = QPainterPath(QPointF(8, 0.8))
    path.lineTo(15.4, 15)
    path.lineTo(0.6, 15)
    path.closeSubpath()
    painter.drawPath(path)
    painter.setPen(_stroke(ink, 1.8))
    painter.drawLine(QPointF(8, 6), QPointF(8, 10))
    painter.drawPoint(QPointF(8, 12.8))


def _stopping(painter: QPainter, ground: QColor, _ink: QColor) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(ground, 2))
    painter.drawEllipse(QRectF(2, 2, 12, 12))


def _stroke(ink: QColor, width: float) -> QPen:
    return QPen(ink, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap, Qt.PenJoinStyle.RoundJoin)


_SHAPES = {
    TrayState.OK: _ok,
    TrayState.EXITS_ONLY: _exits_only,
    TrayState.HALTED: _halted,
    TrayState.ATTENTION: _attention,
    TrayState.STOPPING: _stopping,
}
