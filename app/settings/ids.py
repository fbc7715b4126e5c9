"""The ids of sources: the namespaces of their keys.

A source whose id changed would let every old signal in again; two sources with one id would swallow each
other's. So the ledger remembers them, and the start stops on a doubt (CONTRACT 4).
"""

from __future__ import annotations

import tomllib
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import tomlkit
from tomlkit.items import AoT, String, Table

from app.settings.errors import ConfigError, ConfigFile
from app.settings.files import config_path, read_text, write_text
from app.settings.model import Settings
from app.settings.read import CONFIG_NAME
from app.settings.rules import doubled


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
    document = tomlkit.parse(text)
    blocks: Any = document.get("sources", [])
    if not blocks:
        block = tomlkit.table()
        name, source_id = next(iter(ids.items()))
        block["name"], block["id"] = name, source_id
        document.pop("sources", None)
        document["sources"] = AoT([block])
        names = [name]
    else:
        names = [str(block.get("name", "tradingview")) for block in blocks]
    for block, name in zip(document["sources"], names, strict=True):
        if name in ids and block.get("id", "") in ("", "..."):
            _set_id(block, ids[name], "\r\n" if "\r\n" in text else "\n")
    written = tomlkit.dumps(document)
    _compare(text, written, ids, path)
    return written


def _set_id(block: Any, source_id: str, newline: str) -> None:
    """Beside the name, not at the end of the block: there it would stand below the next block's comment."""
    if "id" in block or "name" not in block or not isinstance(block, Table):
        block["id"] = source_id
        return
    item = tomlkit.string(source_id)
    assert isinstance(item, String)
    item.trivia.trail = newline
    block.value._insert_after("name", "id", item)


def _compare(text: str, written: str, ids: Mapping[str, str], path: Path) -> None:
    """What is written must say what was there, and the ids, and nothing else."""
    before, after = (tomllib.loads(each, parse_float=Decimal) for each in (text, written))
    blocks = before.setdefault("sources", [])
    if not blocks:
        blocks.append({"name": next(iter(ids))})
    for block in blocks:
        name = block.get("name", "tradingview")
        if name in ids and block.get("id", "") in ("", "..."):
            block["id"] = ids[name]
    if before != after:
        named = ", ".join(f'id = "{source_id}" for "{name}"' for name, source_id in ids.items())
        raise ConfigError(path, None, f"ids could not be written into it: add them by hand: {named}")
