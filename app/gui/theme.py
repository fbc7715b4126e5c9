"""Every colour of the window, derived from the palette in use, so that light and dark follow the system.

Widgets ask here and never name a colour. A colour is never the only sign: a word and a glyph stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette

READABLE = 4.5
"""The contrast that text keeps against its background (WCAG 2.1, 1.4.3)."""


class Tone(StrEnum):
    """What a colour says. Hues: Okabe and Ito's set, told apart by colour-blind people too."""

    GOOD = "good"
    WORKING = "working"
    SAME = "same"
    HELD = "held"
    BAD = "bad"
    DOUBT = "doubt"
    QUIET = "quiet"


_HUES: dict[Tone, str] = {
    Tone.GOOD: "#009E73",
    Tone.WORKING: "#0072B2",
    Tone.SAME: "#56B4E9",
    Tone.HELD: "#E69F00",
    Tone.BAD: "#D55E00",
    Tone.DOUBT: "#CC79A7",
}


@dataclass(frozen=True)
class Theme:
    """Colours of one palette: `ink` for text on tables and panes, `wash` for the ground of a marked cell.

    `solid` is for bars and loud grounds, `stop` for the one button that must be found in the dark.
    """

    is_dark: bool
    text: QColor
    quiet: QColor
    base: QColor
    window: QColor
    line: QColor
    ink: dict[Tone, QColor]
    wash: dict[Tone, QColor]
    wash_ink: dict[Tone, QColor]
    solid: dict[Tone, QColor]
    solid_ink: dict[Tone, QColor]
    stop: QColor
    stop_ink: QColor


def theme_of(palette: QPalette) -> Theme:
    """The theme of this palette; the same object for the same colours."""
    group = QPalette.ColorGroup.Active
    return _theme(
        palette.color(group, QPalette.ColorRole.Window).rgb(),
        palette.color(group, QPalette.ColorRole.Base).rgb(),
        palette.color(group, QPalette.ColorRole.Text).rgb(),
    )


@lru_cache(maxsize=8)
def _theme(window_rgb: int, base_rgb: int, text_rgb: int) -> Theme:
    window, base, text = QColor(window_rgb), QColor(base_rgb), QColor(text_rgb)
    is_dark = luminance(base) < luminance(text)
    quiet = readable(mixed(text, base, 0.42), window)
    hues = {tone: QColor(name) for tone, name in _HUES.items()} | {Tone.QUIET: quiet}
    wash = {tone: mixed(hue, window, 0.82 if is_dark else 0.86) for tone, hue in hues.items()}
    # The stripes of a table are a shade off its ground: text is made for the harder of the two.
    grounds = (base, window)
    solid = {tone: readable(hue, base, ratio=3.0) for tone, hue in hues.items()}
    return Theme(
        is_dark=is_dark,
        text=text,
        quiet=quiet,
        base=base,
        window=window,
        line=mixed(text, window, 0.82),
        ink={tone: readable(hue, *grounds) for tone, hue in hues.items()},
        wash=wash,
        wash_ink={tone: readable(hue, wash[tone]) for tone, hue in hues.items()},
        solid=solid,
        solid_ink={tone: _on(colour) for tone, colour in solid.items()},
        stop=readable(hues[Tone.BAD], QColor("white"), ratio=5.5),
        stop_ink=QColor("white"),
    )


def luminance(colour: QColor) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.1)."""

    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF())


def contrast(one: QColor, other: QColor) -> float:
    """From 1 to 21 (WCAG 2.1)."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mixed(one: QColor, other: QColor, share: float) -> QColor:
    """`one` with so large a share of `other`, 0 to 1."""
    return QColor.fromRgbF(
        one.redF() + (other.redF() - one.redF()) * share,
        one.greenF() + (other.greenF() - one.greenF()) * share,
        one.blueF() + (other.blueF() - one.blueF()) * share,
    )


def readable(hue: QColor, *grounds: QColor, ratio: float = READABLE) -> QColor:
    """The hue, moved towards black or white until it can be read on each of the grounds."""
    ground = grounds[0]
    towards = QColor("black") if luminance(ground) > 0.18 else QColor("white")
    for step in range(21):
        colour = mixed(hue, towards, step / 20)
        if all(contrast(colour, each) >= ratio for each in grounds):
            return colour
    return towards


def _on(ground: QColor) -> QColor:
    white, black = QColor("white"), QColor("black")
    return white if contrast(white, ground) >= contrast(black, ground) else black


def light_palette() -> QPalette:
    return _palette("#f3f4f6", "#ffffff", "#f7f8fa", "#1b1f24", "#e6e8ec", "#0b63a5")


def dark_palette() -> QPalette:
    return _palette("#22262b", "#191c20", "#1f2328", "#e4e7eb", "#333940", "#2870b0")


def _palette(window: str, base: str, stripe: str, text: str, button: str, accent: str) -> QPalette:
    ground, ink = QColor(window), QColor(text)
    palette = QPalette(QColor(button), ground)
    role = QPalette.ColorRole
    for name, colour in (
        (role.Window, ground),
        (role.WindowText, ink),
        (role.Base, QColor(base)),
        (role.AlternateBase, QColor(stripe)),
        (role.Text, ink),
        (role.Button, QColor(button)),
        (role.ButtonText, ink),
        (role.BrightText, QColor("white")),
        (role.ToolTipBase, QColor(base)),
        (role.ToolTipText, ink),
        (role.PlaceholderText, mixed(ink, ground, 0.4)),
        (role.Highlight, QColor(accent)),
        (role.HighlightedText, QColor("white")),
        (role.Accent, QColor(accent)),
        (role.Link, readable(QColor(accent), QColor(base))),
    ):
        palette.setColor(name, colour)
    faint = mixed(ink, ground, 0.5)
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, faint)
    return palette


def fixed_font(like: QFont) -> QFont:
    """The system's fixed-width font at the size of `like`."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    if like.pointSizeF() > 0:
        font.setPointSizeF(like.pointSizeF())
    return font


def scaled(font: QFont, factor: float, *, bold: bool = False) -> QFont:
    """A copy of the font, larger or smaller; never a size of our own, so that the system's choice holds."""
    copy = QFont(font)
    if font.pointSizeF() > 0:
        copy.setPointSizeF(font.pointSizeF() * factor)
    copy.setBold(bold)
    return copy
