"""config.toml into Settings: every key is known, readable and free of contradiction, or nothing starts.

Pure: text in, Settings or ConfigError out. No value is ever replaced by a default because it was wrong.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.settings.errors import ConfigError, ConfigFile, Where
from app.settings.keys import SECRET_WORDS, SOURCES, TABLES
from app.settings.model import BROKERS, TEST_SOURCE, Account, Settings, Source
from app.settings.notices import check_notices
from app.settings.rules import check
from app.settings.table import Key, Table
from app.settings.tunnel import check_tunnel
from app.settings.updates import check_updates

CONFIG_NAME = "config.toml"


def read_settings(text: str, path: Path = Path(CONFIG_NAME)) -> Settings:
    """The settings that `text` states, defaults for the rest. ConfigError with line and reason otherwise.

    An `id` that is missing stays empty (`with_source_ids` makes it).
    """
    file = ConfigFile(path, text)
    raw = parse(text, path)
    known = [table.name for table in TABLES]
    for name in raw:
        if name not in known:
            raise file.error((name,), _unknown(name, known, None))
    parts: dict[str, Any] = {table.name: _read(table, raw, file) for table in TABLES}
    accounts: tuple[Account, ...] = parts["accounts"]
    check(parts["sources"], accounts, raw, file)
    check_tunnel(parts["tunnel"], file)
    check_updates(parts["updates"], file)
    check_notices(parts["notices"], file)
    return Settings(**parts, test_source=_built_in_test_source(accounts, file))


def parse(text: str, path: Path) -> dict[str, Any]:
    """The TOML as plain values, numbers with a point as Decimals. ConfigError where it is no TOML."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except (ValueError, ArithmeticError, RecursionError):
        # Python's own limits: digits of a number, exponents, nesting. None of them tells the place.
        raise ConfigError(path, None, "a number or a nesting in it is far too large: correct it") from None
    place = re.search(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    what = message[: place.start()] if place else message
    line = int(place[1]) if place and place[1] else text.rstrip("\n").count("\n") + 1
    column = f" in column {place[2]}" if place and place[2] else ""
    remedy = "check quotes and brackets"
    if what.startswith("Cannot"):
        remedy = "a key or table is there a second time: remove one"
    raise ConfigError(path, line, f"not readable as TOML{column} ({what}): {remedy}")


def _read(table: Table, raw: Mapping[str, Any], file: ConfigFile) -> Any:
    """One table, or all blocks of an array; without any block there is one, all defaults (CONTRACT 4)."""
    value = raw.get(table.name, [] if table.array else {})
    if not table.array:
        if not isinstance(value, dict):
            raise file.error((table.name,), f"{table.name} is a table: write it as {table.title}")
        return _read_table(table, value, (table.name,), file)
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise file.error((table.name,), f"{table.name} is a list of tables: write each as {table.title}")
    return tuple(
        _read_table(table, block, (table.name, index), file) for index, block in enumerate(value or [{}])
    )


def _read_table(table: Table, raw: Mapping[str, Any], where: Where, file: ConfigFile) -> Any:
    names = [key.name for key in table.keys]
    for name in raw:
        if name not in names:
            raise file.error((*where, name), _unknown(name, names, table))
    return table.type(**{key.name: _read_key(table, key, raw, where, file) for key in table.keys})


def _read_key(table: Table, key: Key, raw: Mapping[str, Any], where: Where, file: ConfigFile) -> Any:
    try:
        return key.read(raw.get(key.name, key.default))
    except ValueError as error:
        # An address may hold a password.
        said = "" if key.name.endswith("_url") or key.name == "to" else f" = {_shown(raw[key.name])}"
        raise file.error((*where, key.name), f"{table.title} {key.name}{said}: {error}") from None


def _built_in_test_source(accounts: tuple[Account, ...], file: ConfigFile) -> Source | None:
    """The source `test` (HOLES H29): it reaches one account without money, simulated if there is one."""
    moneyless = [account for account in accounts if not account.live]
    moneyless.sort(key=lambda account: not BROKERS[account.broker].simulated)
    if not moneyless:
        return None
    raw = {"name": TEST_SOURCE, "id": TEST_SOURCE, "accounts": [moneyless[0].name]}
    source: Source = _read_table(SOURCES, raw, (TEST_SOURCE,), file)
    return source


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{...}"
    plain = f'"{value}"' if isinstance(value, str) else repr(value)
    return plain if len(plain) <= 40 else f"{plain[:37]}..."


def _unknown(name: str, known: list[str], table: Table | None) -> str:
    """What to say of a key or table that nobody knows. Its value is not repeated."""
    called = f"{table.title} {name}" if table is not None else name
    if any(word in name.lower() for word in SECRET_WORDS):
        return f"{called}: secrets are never in this file: remove it and use `onefill secret set NAME`"
    if close := difflib.get_close_matches(name.lower(), known, n=1):
        return f"{called} is unknown: did you mean {close[0]}?"
    if homes := [other.title for other in TABLES if name in (key.name for key in other.keys)]:
        return f"{called} is unknown here: it belongs in {' or '.join(homes)}"
    return f"{called} is unknown: remove it; known here: {', '.join(known)}"
