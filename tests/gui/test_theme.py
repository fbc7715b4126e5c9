"""Every text colour can be read on its ground, in light, in dark, and in a palette that we did not make."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette

from app.gui import words
from app.gui.theme import READABLE, Tone, contrast, dark_palette, light_palette, readable, theme_of


def _strange() -> QPalette:
    palette = QPalette(QColor("#204020"), QColor("#103010"))
    palette.setColor(QPalette.ColorRole.Base, QColor("#002000"))
    palette.setColor(QPalette.ColorRole.Text, QColor("#c0ffc0"))
    return palette


@pytest.mark.parametrize("palette", [light_palette(), dark_palette(), _strange()])
def test_every_tone_can_be_read(palette: QPalette) -> None:
    theme = theme_of(palette)
    for tone in Tone:
        assert contrast(theme.ink[tone], theme.base) >= READABLE, tone
        assert contrast(theme.ink[tone], theme.window) >= READABLE, tone
        assert contrast(theme.wash_ink[tone], theme.wash[tone]) >= READABLE, tone
        assert contrast(theme.text, theme.wash[tone]) >= READABLE, tone
        assert contrast(theme.solid_ink[tone], theme.solid[tone]) >= READABLE, tone
    assert contrast(theme.stop_ink, theme.stop) >= READABLE
    assert contrast(theme.quiet, theme.window) >= READABLE


@pytest.mark.parametrize("palette", [light_palette(), dark_palette()])
def test_the_palettes_own_texts_can_be_read(palette: QPalette) -> None:
    role = QPalette.ColorRole
    for text, ground in (
        (role.Text, role.Base),
        (role.Text, role.AlternateBase),
        (role.WindowText, role.Window),
        (role.ButtonText, role.Button),
        (role.HighlightedText, role.Highlight),
        (role.Link, role.Base),
    ):
        assert contrast(palette.color(text), palette.color(ground)) >= READABLE, (text, ground)


def test_dark_is_told_from_light() -> None:
    assert theme_of(dark_palette()).is_dark
    assert not theme_of(light_palette()).is_dark
    assert theme_of(light_palette()) is theme_of(light_palette())


def test_a_colour_that_can_be_read_already_stays() -> None:
    assert readable(QColor("#0072B2"), QColor("white")) == QColor("#0072B2")


@pytest.mark.parametrize(
    "table",
    [
        words.ORDER_STATES,
        words.ORDER_STATUSES,
        words.VERDICTS,
        words.RECONCILIATION_RESULTS,
        words.SEVERITIES,
        words.EVIDENCE,
        words.LEVELS,
        words.TRADING,
        words.SIDES,
    ],
)
def test_no_state_is_told_by_its_colour_alone(table: dict[str, words.Word]) -> None:
    assert all(word.glyph and word.text for word in table.values())


def test_every_state_of_the_state_table_has_its_word() -> None:
    from app.domain.order import OrdStatus, State

    assert set(words.ORDER_STATES) == {state.value for state in State}
    assert set(words.ORDER_STATUSES) == {status.value for status in OrdStatus}
    assert words.look_up(words.ORDER_STATES, "NEW_STATE").text == "new state"
