"""The ids of sources: the namespaces of their keys.

A source whose id changed would let every old signal in again; two sources with one id would swallow each
other's. So the ledger remembers them, and the start stops on a doubt (CONTRACT 4).
"""

from __future__ import annotations

import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from app.settings.errors import ConfigError, ConfigFile
from app.settings.files import config_path, read_text, write_text
from app.settings.keys import SOURCES
from app.settings.model import Settings
from app.settings.read import CONFIG_NAME, parse
from app.settings.rules import doubled
from app.settings.words import NO_ID

DEFAULT_NAME = next(key.default for key in SOURCES.keys if key.name == "name")


def check_source_ids(
    settings: Settings, known: Mapping[str, str], path: Path = Path(CONFIG_NAME), text: str = ""
) -> Settings:
    """Fills missing ids by name from `known` (what the ledger remembers: name to id). Pure.

    ConfigError on a changed id and on one that two sources have; `path` and `text` of the file give it its
    line. A source may take a new name with its old id: its keys stay claimed.
    """
    file = ConfigFile(path, text)
    filled = []
    for index, source in enumerate(settings.sources):
        remembered = known.get(source.name, "")
        if source.id and remembered and source.id != remembered:
            raise file.error(
                ("sources", index, "id"),
                f'[[sources]] id of "{source.name}" was changed, and every old signal could get in again:'
                f' write id = "{remembered}", or give this source another name',
            )
        filled.append(msgspec.structs.replace(source, id=source.id or remembered))
    seen: dict[str, str] = {}
    for index, source in enumerate(filled):
        if source.id and source.id in seen:
            raise file.error(("sources", index, "id"), doubled(source.name, seen[source.id]))
        seen[source.id] = source.name
    return msgspec.structs.replace(settings, sources=tuple(filled))


def with_source_ids(
    home: Path, settings: Settings, new_id: Callable[[], str] = lambda: uuid.uuid4().hex
) -> Settings:
    """Gives every source an id and writes those that the file lacks into it, the user's comments kept.

    Comes after `check_source_ids`. Blocking. ConfigError where the file cannot be written.
    """
    sources = tuple(
        source if source.id else msgspec.structs.replace(source, id=new_id()) for source in settings.sources
    )
    path = config_path(home)
    text = read_text(path) or ""
    written = insert_ids(text, {source.name: source.id for source in sources}, path)
    if written != text:
        write_text(path, written)
    return msgspec.structs.replace(settings, sources=sources)


def insert_ids(text: str, ids: Mapping[str, str], path: Path = Path(CONFIG_NAME)) -> str:
    """`text` with the ids of the sources that have none there; nothing else of it is changed. Pure."""
    wanted = parse(text, path)
    if not wanted.get("sources"):
        # The default source gets a block, to hold its id.
        wanted["sources"] = [{"name": name} for name in ids]
    missing = [_name(block) if block.get("id", "") in NO_ID else None for block in wanted["sources"]]
    if not any(name in ids for name in missing):
        return text
    for block, name in zip(wanted["sources"], missing, strict=True):
        if name is not None and name in ids:
            block["id"] = ids[name]
    try:
        written = _edited(text, [ids.get(name or "") for name in missing], wanted["sources"])
        good = tomllib.loads(written, parse_float=Decimal) == wanted
    except (TOMLKitError, tomllib.TOMLDecodeError):
        good, written = False, text
    if good:
        return written
    by_hand = ", ".join(f'id = "{source_id}" in "{name}"' for name, source_id in ids.items())
    raise ConfigError(path, None, f"the ids of its sources could not be written into it: write {by_hand}")


def _name(block: Mapping[str, Any]) -> str:
    return str(block.get("name", DEFAULT_NAME))


def _edited(text: str, new: Sequence[str | None], blocks: Sequence[Mapping[str, Any]]) -> str:
    document: Any = tomlkit.parse(text)
    if not document.get("sources"):
        document.pop("sources", None)
        document["sources"] = [dict(block) for block in blocks]
        return tomlkit.dumps(document)
    for block, source_id in zip(document["sources"], new, strict=True):
        if source_id is not None:
            _set_id(block, source_id, "\r\n" if "\r\n" in text else "\n")
    return tomlkit.dumps(document)


def _set_id(block: Any, source_id: str, newline: str) -> None:
    """Beside the name, not at the end of the block: there it would stand below the next block's comment."""
    if "id" in block or "name" not in block or not isinstance(block, Table):
        block["id"] = source_id
        return
    item = tomlkit.string(source_id)
    item.trivia.indent = block["name"].trivia.indent
    item.trivia.trail = newline
    block.value._insert_after("name", "id", item)
