"""One error for everything that is wrong with the settings, and where in the file it stands.

An error is one line for a person: file, line, key, what is wrong, what to do. It never repeats a secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

Where = tuple[str | int, ...]
"""The way to a key: ("risk", "cooldown"), or ("sources", 0, "name") in the first [[sources]]."""

_KEY = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*""")


class ConfigError(Exception):
    """The start stops here. `line` counts from 1; None where no line of the file is to blame.

    `where` is the way to the key or table that is wrong; empty where the text is no TOML, or no key is wrong.
    """

    def __init__(self, path: Path, line: int | None, message: str, where: Where = ()) -> None:
        self.path = path
        self.line = line
        self.where = where
        self.message = " ".join(message.split())
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {self.message}")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The text of config.toml, to name lines from. `text` must be TOML that tomllib has accepted."""

    path: Path
    text: str
    _lines: dict[Where, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def line(self, where: Where) -> int | None:
        """The line on which that key stands, or else the nearest table around it; None if neither does."""
        if not self._lines and self.text:
            self._lines.update(key_lines(self.text))
        for end in range(len(where), 0, -1):
            if where[:end] in self._lines:
                return self._lines[where[:end]]
        return None

    def error(self, where: Where, message: str) -> ConfigError:
        return ConfigError(self.path, self.line(where), message, where)


def key_lines(text: str) -> dict[Where, int]:
    """The first line of every table and key of a valid TOML text. Keys inside inline tables have none."""
    found: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    table: Where = ()
    inside = _Value()
    for number, line in enumerate(text.split("\n"), 1):
        if inside.open:
            inside.read(line, 0)
            continue
        start = len(line) - len(line.lstrip(" \t"))
        if line.startswith("[[", start):
            names, _ = _dotted(line, start + 2)
            parent = _numbered(names[:-1], counts)
            array = (*parent, *names[-1:])
            counts[array] = counts.get(array, -1) + 1
            table = (*array, counts[array])
            found.setdefault(array, number)
            found[table] = number
        elif line.startswith("[", start):
            names, _ = _dotted(line, start + 1)
            table = _numbered(names, counts)
            found.setdefault(table, number)
        else:
            names, end = _dotted(line, start)
            for length in range(1, len(names) + 1):
                found.setdefault((*table, *names[:length]), number)
            if names:
                inside.read(line, end)
    return found


def _dotted(line: str, start: int) -> tuple[list[str], int]:
    """The names of a dotted key, and where the key ends."""
    names: list[str] = []
    while match := _KEY.match(line, start):
        names.append(next(group for group in match.groups() if group is not None))
        start = match.end()
        if not line.startswith(".", start):
            break
        start += 1
    return names, start


def _numbered(names: list[str], counts: dict[Where, int]) -> Where:
    """The way to a table whose parents may be arrays: the last element of each is meant."""
    way: Where = ()
    for name in names:
        way = (*way, name)
        if way in counts:
            way = (*way, counts[way])
    return way


class _Value:
    """Reads over a value and knows whether it goes on in the next line."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""

    @property
    def open(self) -> bool:
        return self._depth > 0 or bool(self._quote)

    def read(self, line: str, at: int) -> None:
        while at < len(line):
            at = self._in_string(line, at) if self._quote else self._outside(line, at)
        if len(self._quote) == 1:
            self._quote = ""

    def _in_string(self, line: str, at: int) -> int:
        if line[at] == "\\" and self._quote[0] == '"':
            return at + 2
        if not line.startswith(self._quote, at):
            return at + 1
        at += len(self._quote)
        if len(self._quote) == 3:
            # Up to two more quotes belong to the text: """"four""""
            while line.startswith(self._quote[0], at):
                at += 1
        self._quote = ""
        return at

    def _outside(self, line: str, at: int) -> int:
        character = line[at]
        if character == "#":
            return len(line)
        if character in "\"'":
            self._quote = character * 3 if line.startswith(character * 3, at) else character
            return at + len(self._quote)
        self._depth += (character in "[{") - (character in "]}")
        return at + 1
