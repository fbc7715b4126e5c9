"""The window in the person's language, where there is a `resources/translations/<xx>.json`: English to it.

English is in the sources, and what a translation does not have stays English. A broken one is left out. By
text and not by Qt's contexts: one sentence means the same wherever it stands, and no tool is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from PySide6.QtCore import QCoreApplication, QLocale, QTranslator

from app.settings import resource

log = structlog.get_logger(__name__)

Find = Callable[[str], Path | None]


class Sentences(QTranslator):
    """Asked for every text that is shown, from any thread."""

    def __init__(self, known: Mapping[str, str], parent: QCoreApplication) -> None:
        super().__init__(parent)
        self._known = dict(known)

    def isEmpty(self) -> bool:
        """Qt does not install one that says yes."""
        return False

    def translate(self, _context: str, source: str, _comment: str | None = None, _n: int = -1) -> str:
        return self._known.get(source, source)


def translation(locale: QLocale, find: Find = resource) -> Path | None:
    """The file for this place, else for its language: `pt_BR`, then `pt`."""
    name = locale.name()
    for wanted in dict.fromkeys((name, name.partition("_")[0])):
        found = find(f"translations/{wanted}.json")
        if found is not None:
            return found
    return None


def install(
    application: QCoreApplication, locale: QLocale | None = None, find: Find = resource
) -> QTranslator | None:
    """Before the first widget is made; None where there is nothing to install. Blocking: reads a file."""
    path = translation(locale or QLocale(), find)
    if path is None:
        return None
    try:
        known = json.loads(path.read_text("utf-8"))
        sentences = {english: other for english, other in known.items() if other and fits(english, other)}
    except (OSError, ValueError, AttributeError) as error:
        log.warning("a translation cannot be read", file=path.name, error=repr(error))
        return None
    translator = Sentences(sentences, application)
    application.installTranslator(translator)
    return translator


def fits(english: str, other: object) -> bool:
    """Whether the same things are put into it: `{number}` must not be lost, nor another one wanted."""
    return isinstance(other, str) and _places(english) == _places(other)


def _places(text: str) -> set[str]:
    return {piece.partition("}")[0] for piece in text.split("{")[1:]}
