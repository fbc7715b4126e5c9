"""secrets.toml in the home: plain text, so 0600 or not at all.

Written whole or not at all, a person's comments kept. Its text is never part of an error or its cause.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.secrets.names import SecretsError, one_line
from app.settings import write_private

SECRETS_NAME = "secrets.toml"
_HEAD = (
    "# Secrets of Onefill, readable by you alone. The environment and the keyring come before this file.\n"
)


class SecretsFile:
    """All methods raise SecretsError for a file that others can read, or that is not readable as TOML."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """Every secret in it by its dotted name; empty if there is no file."""
        return self._entries(self._text())

    def write(self, name: str, value: str | None) -> bool:
        """Sets one, or removes it (None); whether anything had to change."""
        text = self._text()
        entries = self._entries(text)
        wanted = {key: entry for key, entry in entries.items() if key != name}
        if value is not None:
            wanted[name] = value
        if wanted == entries:
            return False
        written = _edited(text or _HEAD, name, value)
        if written is None or self._entries(written) != wanted:
            written = _HEAD + tomlkit.dumps(wanted)
        try:
            write_private(self.path, written)
        except OSError as error:
            raise SecretsError(f"{self.path}: cannot be written ({one_line(error)}): allow it") from None
        return True

    def _text(self) -> str:
        try:
            with self.path.open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if os.name == "posix" and mode & 0o077:
                    raise SecretsError(
                        f"{self.path} can be read by others (mode {mode:04o}) and is not used:"
                        f" chmod 600 {self.path}, and change the secrets that are in it"
                    )
                return file.read().decode("utf-8-sig")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            pass
        except OSError as error:
            raise SecretsError(f"{self.path}: cannot be read ({one_line(error)}): allow it") from None
        # Outside, so that no cause carries the bytes.
        raise SecretsError(f"{self.path}: is not UTF-8: save it as UTF-8")

    def _entries(self, text: str) -> dict[str, str]:
        try:
            return self._flat(tomllib.loads(text))
        except (ValueError, RecursionError) as error:
            place = re.search(r"at line \d+|at end of document", str(error))
        # Outside, so that no cause carries the text.
        raise SecretsError(f"{self.path}: not readable as TOML ({place[0] if place else '?'}): check quotes")

    def _flat(self, document: Mapping[str, Any], above: str = "") -> dict[str, str]:
        """By dotted name, however the file nests them."""
        flat: dict[str, str] = {}
        for key, value in document.items():
            if isinstance(value, Mapping):
                flat.update(self._flat(value, f"{above}{key}."))
            elif isinstance(value, str):
                flat[above + key] = value
            else:
                raise SecretsError(f"{self.path}: {above}{key} must be a text in quotes")
        return flat


def _edited(text: str, name: str, value: str | None) -> str | None:
    """The text with one name set or removed, everything else as it was; None if that cannot be done."""
    try:
        document: Any = tomlkit.parse(text)
        _remove(document, name)
        if value is not None:
            document[name] = value
        return tomlkit.dumps(document)
    except TOMLKitError:
        return None


def _remove(table: Any, name: str) -> None:
    """Removes `a.b.c` where it is written: as one quoted name, in tables, or anything between."""
    if name in table:
        del table[name]
    parts = name.split(".")
    for split in range(1, len(parts)):
        inner = table.get(".".join(parts[:split]))
        if isinstance(inner, Mapping):
            _remove(inner, ".".join(parts[split:]))
