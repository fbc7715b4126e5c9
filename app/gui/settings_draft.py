"""What a person has typed in the settings and not saved yet, over what the file says. No Qt, no file.

Made from the table of keys, so that a new key or table is there by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.settings.forms import UNSET, shown, typed
from app.settings.keys import TABLES
from app.settings.table import Key, Table

NAMED = ("name",)
"""Keys that name a block: other things hang on them, so they are given once."""
OURS = frozenset({"id"})
"""Keys that Onefill writes itself."""


@dataclass
class Section:
    """A table, or one block of an array. `index` is its place in the file, None for one that is new.

    `typed` are the texts that differ from the file, by key.
    """

    table: Table
    raw: Mapping[str, Any]
    index: int | None = None
    is_new: bool = False
    is_dropped: bool = False
    typed: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of a block; empty for a table."""
        if not self.table.array:
            return ""
        default = next((key.default for key in self.table.keys if key.name == "name"), "")
        return str(self.raw.get("name", default))

    def text(self, key: Key) -> str:
        """What stands in the field: typed, or as in the file; empty where the default holds."""
        return self.typed.get(key.name, shown(self.raw.get(key.name, UNSET)))

    def type(self, key: Key, text: str) -> None:
        if text.strip() == shown(self.raw.get(key.name, UNSET)):
            self.typed.pop(key.name, None)
        else:
            self.typed[key.name] = text

    @property
    def is_changed(self) -> bool:
        return bool(self.typed) or self.is_new or self.is_dropped

    def where(self, key: str) -> list[str | int]:
        return [self.table.name, key] if self.index is None else [self.table.name, self.index, key]


class SettingsDraft:
    """`raw` is the file as plain values, as the command `configure` gives it."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.sections: list[Section] = []
        for table in TABLES:
            found = raw.get(table.name)
            if not table.array:
                self.sections.append(Section(table, found if isinstance(found, Mapping) else {}))
                continue
            blocks = found if isinstance(found, list) and found else [{}]
            self.sections += [Section(table, block, index) for index, block in enumerate(blocks)]

    def of(self, table: str) -> list[Section]:
        return [section for section in self.sections if section.table.name == table]

    def names(self, table: str) -> list[str]:
        """Names of the blocks that will be there."""
        return [section.name for section in self.of(table) if not section.is_dropped]

    def add(self, table: str, name: str) -> Section:
        """A new block behind those of its table."""
        found = next(each for each in TABLES if each.name == table)
        values: dict[str, Any] = {"name": name}
        section = Section(found, values, is_new=True)
        self.sections.insert(1 + max(map(self.sections.index, self.of(table))), section)
        return section

    def drop(self, section: Section) -> bool:
        """Takes a block away, at once where it is new. False where it is the last one of its table."""
        if len(self.names(section.table.name)) <= 1:
            return False
        if section.is_new:
            self.sections.remove(section)
        else:
            section.is_dropped = True
        return True

    @property
    def is_changed(self) -> bool:
        return any(section.is_changed for section in self.sections)

    @property
    def count(self) -> int:
        """Changes, as a person counts them."""
        return sum(len(each.typed) + each.is_new + each.is_dropped for each in self.sections)

    def edits(self) -> list[list[Any]]:
        """As the command `configure` takes them."""
        return [*self._keys(), *self._added(), *self._dropped()]

    def _keys(self) -> Iterator[list[Any]]:
        for section in self.sections:
            if section.is_new or section.is_dropped:
                continue
            for name, text in section.typed.items():
                key = next(key for key in section.table.keys if key.name == name)
                value = typed(key, text)
                if value is not UNSET:
                    yield ["set", section.where(name), value]
                elif name in section.raw:
                    yield ["unset", section.where(name)]

    def _added(self) -> Iterator[list[Any]]:
        for section in self.sections:
            if section.is_new:
                values = dict(section.raw)
                for key in section.table.keys:
                    value = typed(key, section.typed.get(key.name, ""))
                    if value is not UNSET:
                        values[key.name] = value
                yield ["add", section.table.name, values]

    def _dropped(self) -> Iterator[list[Any]]:
        for section in self.sections:
            if section.is_dropped:
                yield ["drop", section.table.name, section.index]

    def find(self, where: list[str | int] | tuple[str | int, ...]) -> tuple[Section, str] | None:
        """The section, and the key in it, that a problem of the edited file names; None where there is none.

        Blocks are counted as they are after the edits.
        """
        if not where:
            return None
        sections = [each for each in self.of(str(where[0])) if not each.is_dropped]
        if not sections:
            return None
        if not sections[0].table.array:
            return sections[0], str(where[1]) if len(where) > 1 else ""
        place = where[1] if len(where) > 1 and isinstance(where[1], int) else 0
        if place >= len(sections):
            return None
        return sections[place], str(where[2]) if len(where) > 2 else ""
