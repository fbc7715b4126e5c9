"""The pages of the help: which there are, in which order, and where a word stands in them. No Qt here.

They are Markdown files that can be read on their own; nothing is in them that the program needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.settings import resource

NAMES = (
    "start",
    "tradingview",
    "tunnels",
    "states",
    "reasons",
    "ambiguous",
    "accounts",
    "sleep",
    "notices",
    "backups",
    "trouble",
    "limits",
)
"""In the order of the contents; each is `resources/help/NAME.md`."""

OF_VIEW: Mapping[str, str] = {
    "needs": "ambiguous",
    "signals": "states",
    "refused": "reasons",
    "orders": "states",
    "fills": "states",
    "positions": "accounts",
    "reconciliation": "ambiguous",
    "activity": "states",
    "health": "trouble",
}
"""Which page tells of what a view shows."""


REASONS = "reasons"
_CODE = re.compile(r"([A-Z]{2,}(?:_[A-Z]+)*(?:_O[0-9]+)?|[a-z]+(?:_[a-z0-9]+)*)(?: .*)?", re.DOTALL)


def code_of(reason: str) -> str:
    """The code of a reason as the page of reasons has it: of `STALE late=3s` it is `STALE`. Empty: none.

    Whichever order one waits for, the page has the example `WAITING_FOR_O12`.
    """
    found = _CODE.fullmatch(reason)
    if found is None or (found[1].islower() and found[1] != reason):
        return ""
    return re.sub(r"_O[0-9]+$", "_O12", found[1])


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    title: str
    text: str

    def count(self, words: str) -> int:
        """How often it has all of them as they stand, whatever their case."""
        return self.text.casefold().count(words.casefold()) if words else 0


def load() -> list[Page]:
    """Every page that this build has. Blocking."""
    pages = []
    for name in NAMES:
        path = resource(f"help/{name}.md")
        if path is not None:
            text = path.read_text(encoding="utf-8")
            pages.append(Page(name, title_of(text) or name, text))
    return pages


def title_of(text: str) -> str:
    found = re.match(r"#\s+(.+)", text)
    return found[1].strip() if found else ""


def find(pages: Sequence[Page], words: str) -> list[tuple[Page, int]]:
    """The pages that have these words, with how often, in the order of the contents; all for no words."""
    words = words.strip()
    if not words:
        return [(page, 0) for page in pages]
    counted = [(page, page.count(words)) for page in pages]
    return [(page, number) for page, number in counted if number]
