"""An explanation as a page: sentences under headings, in the window's colours. Nothing is decided here."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import QT_TRANSLATE_NOOP

from app.domain.explain import Explanation, Kind
from app.gui.theme import Theme, Tone
from app.gui.words import VERDICTS, Word, look_up, tr

_HEADINGS: tuple[tuple[tuple[Kind, ...], str], ...] = (
    ((Kind.PROBLEM,), str(QT_TRANSLATE_NOOP("Words", "What is wrong"))),
    ((Kind.REMEDY,), str(QT_TRANSLATE_NOOP("Words", "What to do"))),
    ((Kind.KNOWN,), str(QT_TRANSLATE_NOOP("Words", "Known already"))),
    ((Kind.ORDER,), str(QT_TRANSLATE_NOOP("Words", "The order"))),
    ((Kind.KEY,), str(QT_TRANSLATE_NOOP("Words", "Its key and its repeats"))),
    ((Kind.TIME,), str(QT_TRANSLATE_NOOP("Words", "Its age"))),
    ((Kind.WARNING,), str(QT_TRANSLATE_NOOP("Words", "The door would warn"))),
    ((Kind.NOTE,), str(QT_TRANSLATE_NOOP("Words", "Sample values"))),
)
_TONES = {Kind.PROBLEM: Tone.BAD, Kind.WARNING: Tone.HELD, Kind.KNOWN: Tone.SAME}


def verdict_word(found: Explanation) -> Word:
    """The word, glyph and colour of what the door would answer."""
    return look_up(VERDICTS, found.status)


def page(found: Explanation, theme: Theme) -> str:
    """HTML of all sentences; what came from the message is escaped."""
    parts = []
    for kinds, heading in _HEADINGS:
        said = found.of(*kinds)
        if not said:
            continue
        colour = theme.ink[_TONES[kinds[0]]] if kinds[0] in _TONES else theme.quiet
        style = f"margin-top:8px; margin-bottom:2px; color:{colour.name()}"
        parts.append(f'<p style="{style}"><b>{escape(tr(heading))}</b></p>')
        parts += [f'<p style="margin-top:0px; margin-bottom:3px">{escape(_ended(each))}</p>' for each in said]
    answer = tr("The door would answer {status}.").format(status=f"{found.http_status} {found.status}")
    parts.append(f'<p style="margin-top:8px; color:{theme.quiet.name()}">{escape(answer)}</p>')
    return "".join(parts)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def places(found: Explanation) -> str:
    """`Line 3, column 1`, of each mark."""
    return "; ".join(
        tr("line {line}, column {column}").format(line=mark.line, column=mark.column) for mark in found.marks
    )
