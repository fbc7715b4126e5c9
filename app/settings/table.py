"""What a row of the table of settings is. Plain data; the rows are in `keys.py` and `tunnel.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from app.settings import words


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    read: words.Reader
    default: Any
    """As it is written in TOML; None where nothing is written."""
    why: str
    """What it does and why the default is this one."""
    written: bool = True
    """False: the first file only mentions it, because where money is traded a person has to say it."""
    example: Any = ""
    """Shown in the first file where there is no default."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    type: type[msgspec.Struct]
    array: bool
    why: str
    keys: tuple[Key, ...]

    @property
    def title(self) -> str:
        return f"[[{self.name}]]" if self.array else f"[{self.name}]"
