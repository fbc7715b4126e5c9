"""The config.toml of a first start: every setting with what it does and why its default is what it is.

Made from the table in `keys.py`, so that it cannot say anything else than what holds.
"""

from __future__ import annotations

import textwrap
from typing import Any

from app.settings.keys import TABLES
from app.settings.table import Key, Table

_HEAD = """\
# Onefill's settings, read when it starts. A mistake stops the start and is named with its line.
# A line that is left out has the default that stands here. Times: "90s", "15m", "24h", "90d".
# Money and quantities stand in quotes, so that every digit is kept.
# Secrets are never in this file: `onefill secret set NAME`, or ONEFILL_SECRET_<NAME> in the environment.
"""


def default_text() -> str:
    return "\n".join([_HEAD, *(_table(table) for table in TABLES)])


def _table(table: Table) -> str:
    lines = [*_comment(table.why), table.title]
    for key in table.keys:
        lines += [*_comment(key.why), _line(key)]
    return "\n".join(lines) + "\n"


def _comment(why: str) -> list[str]:
    return textwrap.wrap(why, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _line(key: Key) -> str:
    line = f"{key.name} = {_toml(key.default if key.default is not None else key.example)}"
    return line if key.written and key.default is not None else f"# {line}"


def _toml(value: Any) -> str:
    """The few kinds of value that stand in the table of keys."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
