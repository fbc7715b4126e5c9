"""config.toml edited as a person would: one key or block at a time, every other line and comment kept.

Pure: text in, text out. What was written is read again: it says exactly what was meant, or nothing changes.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.settings.errors import ConfigError, Where, key_lines
from app.settings.keys import TABLES
from app.settings.read import CONFIG_NAME, parse


@dataclass(frozen=True, slots=True)
class Set:
    """A key gets a value, as TOML holds it. `where`: ("risk", "cooldown"), ("sources", 0, "rate")."""

    where: Where
    value: Any


@dataclass(frozen=True, slots=True)
class Unset:
    """A key goes from the file: its default holds."""

    where: Where


@dataclass(frozen=True, slots=True)
class AddBlock:
    """One more `[[sources]]` or `[[accounts]]` behind the last one."""

    table: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DropBlock:
    """A block goes, counted as the file was before all edits."""

    table: str
    index: int


Edit = Set | Unset | AddBlock | DropBlock


def edit(text: str, edits: Sequence[Edit], path: Path = Path(CONFIG_NAME)) -> str:
    """`text` with the edits made: keys first, then new blocks, then those that go.

    ConfigError where the text is no TOML, or cannot be edited so that it says what was meant; nothing is said
    of whether the settings are good (`read_settings`).
    """
    done = text
    for one in _in_order(edits):
        wanted = _meant(parse(done, path), one)
        done = _written(done, one, wanted, path)
    return done


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    """Blocks that go are taken from the end, so that the numbers of the others hold."""
    keys = [one for one in edits if isinstance(one, Set | Unset)]
    added = [one for one in edits if isinstance(one, AddBlock)]
    dropped = sorted((one for one in edits if isinstance(one, DropBlock)), key=lambda one: -one.index)
    return [*keys, *added, *dropped]


def _written(text: str, one: Edit, wanted: Mapping[str, Any], path: Path) -> str:
    """The first way that says what was meant: the tidy ones before the ones that only say it."""
    for way in _ways(one):
        try:
            found = way(text)
            if found is not None and tomllib.loads(found, parse_float=Decimal) == wanted:
                return found
        except (TOMLKitError, tomllib.TOMLDecodeError, KeyError, IndexError, TypeError):
            continue
    raise ConfigError(path, None, f"{_named(one)} could not be written into it: change it in an editor")


def _named(one: Edit) -> str:
    if isinstance(one, Set | Unset):
        return ".".join(str(part) for part in one.where)
    return f"[[{one.table}]]"


def _ways(one: Edit) -> list[Callable[[str], str | None]]:
    match one:
        case Set(where, value):
            return [
                lambda text: _replaced(text, where, value),
                lambda text: _uncommented(text, where, value),
                lambda text: _inserted(text, where, value),
                lambda text: _with_table(text, where, value),
                lambda text: _by_tomlkit(text, where, value),
            ]
        case Unset(where):
            return [lambda text: _removed(text, where)]
        case AddBlock(table, values):
            return [
                lambda text: _block_added(text, table, values),
                lambda text: _block_appended(text, table, values),
            ]
        case DropBlock(table, index):
            return [
                lambda text: _block_cut(text, table, index),
                lambda text: _block_removed(text, table, index),
            ]


# ----------------------------------------------------------------------------------------- what is meant


def _meant(raw: dict[str, Any], one: Edit) -> dict[str, Any]:
    """What the file has to say after the edit, as plain values."""
    wanted = copy.deepcopy(raw)
    match one:
        case Set(where, value):
            _table_of(wanted, where)[where[-1]] = value
        case Unset(where):
            place: Any = wanted
            for part in where[:-1]:
                place = place[part]
            del place[where[-1]]
        case AddBlock(table, values):
            wanted.setdefault(table, _defaults(table)).append(dict(values))
        case DropBlock(table, index):
            del wanted[table][index]
            if not wanted[table]:
                del wanted[table]
    return wanted


def _table_of(wanted: dict[str, Any], where: Where) -> Any:
    place: Any = wanted
    for depth, part in enumerate(where[:-1]):
        if isinstance(part, int):
            place = place[part]
        else:
            array = isinstance(where[depth + 1], int)
            place = place.setdefault(part, _defaults(part) if array else {})
    return place


def _defaults(table: str) -> list[dict[str, Any]]:
    """The block that counts where the file has none: it has to be written before a second one can be."""
    return [{"name": _default_name(table)}]


def _default_name(table: str) -> Any:
    keys = next(each.keys for each in TABLES if each.name == table)
    return next(key.default for key in keys if key.name == "name")


# ------------------------------------------------------------------------------------------------- a key


def _replaced(text: str, where: Where, value: Any) -> str | None:
    """The value of a key that is there; the comment behind it stays."""
    document: Any = tomlkit.parse(text)
    place = document
    for part in where[:-1]:
        place = place[part]
    if where[-1] not in place:
        return None
    place[where[-1]] = value
    return tomlkit.dumps(document)


def _removed(text: str, where: Where) -> str:
    document: Any = tomlkit.parse(text)
    place = document
    for part in where[:-1]:
        place = place[part]
    del place[where[-1]]
    return tomlkit.dumps(document)


def _uncommented(text: str, where: Where, value: Any) -> str | None:
    """`# key = ...` in the key's own table, as the first file has them, becomes the key."""
    lines, start, end = _range_of(text, where[:-1])
    pattern = re.compile(rf"#\s*{re.escape(str(where[-1]))}\s*=")
    for number in range(start, end):
        if pattern.match(lines[number]):
            lines[number] = _line(where[-1], value)
            return "\n".join(lines)
    return None


def _inserted(text: str, where: Where, value: Any) -> str | None:
    """Behind the last line of its table that is neither empty nor a comment."""
    lines, start, end = _range_of(text, where[:-1])
    last = _last_said(lines, start - 1, end)
    lines.insert(last + 1, _line(where[-1], value))
    return "\n".join(lines)


def _with_table(text: str, where: Where, value: Any) -> str | None:
    """The table is not there yet: it comes at the end of the file."""
    if len(where) == 3:
        head = f"[[{where[0]}]]\nname = {_toml(_default_name(str(where[0])))}"
    elif len(where) == 2:
        head = f"[{where[0]}]"
    else:
        return None
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{head}\n{_line(where[-1], value)}\n"


def _by_tomlkit(text: str, where: Where, value: Any) -> str:
    document: Any = tomlkit.parse(text)
    place = document
    for part in where[:-1]:
        place = place[part]
    place[where[-1]] = value
    return tomlkit.dumps(document)


# ------------------------------------------------------------------------------------------------ blocks


def _block_added(text: str, table: str, values: Mapping[str, Any]) -> str:
    """Behind the last block of the array, before the comment that opens what follows."""
    block = "\n".join([f"[[{table}]]", *(_line(name, value) for name, value in values.items())])
    found = [way for way in key_lines(text) if len(way) == 2 and way[0] == table and isinstance(way[1], int)]
    if not found:
        default = f"[[{table}]]\nname = {_toml(_default_name(table))}"
        gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{default}\n\n{block}\n"
    lines, start, end = _range_of(text, max(found, key=lambda way: int(way[1])))
    last = _last_said(lines, start - 1, end, comments_too=True)
    lines[last + 1 : last + 1] = ["", *block.split("\n")]
    return "\n".join(lines)


def _block_appended(text: str, table: str, values: Mapping[str, Any]) -> str:
    document: Any = tomlkit.parse(text)
    document[table].append(dict(values))
    return tomlkit.dumps(document)


def _block_cut(text: str, table: str, index: int) -> str:
    """From its head to the comment that opens what follows."""
    lines, start, end = _range_of(text, (table, index))
    last = _last_said(lines, start - 1, end, comments_too=True)
    rest = lines[last + 1 :]
    above = lines[start - 2].strip() if start > 1 else ""
    following = next((line for line in rest if line.strip()), "")
    if rest and not rest[0].strip() and (not above or following.startswith(f"[[{table}]]")):
        rest = rest[1:]
    return "\n".join([*lines[: start - 1], *rest])


def _block_removed(text: str, table: str, index: int) -> str:
    document: Any = tomlkit.parse(text)
    del document[table][index]
    if not document[table]:
        del document[table]
    return tomlkit.dumps(document)


# ------------------------------------------------------------------------------------------------- the lines


def _range_of(text: str, table: Where) -> tuple[list[str], int, int]:
    """All lines, the first one behind the table's head, and the next table's head or the end.

    KeyError where the table has no head of its own. Numbers count from 0.
    """
    lines = text.split("\n")
    found = key_lines(text)
    head = found[table]
    if not lines[head - 1].lstrip().startswith("["):
        raise KeyError(table)
    heads = {number for number in found.values() if lines[number - 1].lstrip().startswith("[")}
    following = [number for number in heads if number > head]
    return lines, head, (min(following) - 1 if following else len(lines))


def _last_said(lines: Sequence[str], start: int, end: int, *, comments_too: bool = False) -> int:
    """The last line from `start` on that says something.

    `comments_too`: so does a comment, unless it stands right above the next head: that one is its own.
    """
    last = end - 1
    if comments_too and end < len(lines):
        while last > start and lines[last].startswith("#"):
            last -= 1
    while last > start:
        line = lines[last].strip()
        if line and (comments_too or not line.startswith("#")):
            break
        last -= 1
    return last


def _line(name: str | int, value: Any) -> str:
    return f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    written: str = tomlkit.item(value).as_string()
    return written
