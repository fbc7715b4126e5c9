"""The settings of the update check: its rows, and what contradicts what."""

from __future__ import annotations

from app.settings import model, words
from app.settings.errors import ConfigFile
from app.settings.table import Key, Table


def manifest_url(value: object) -> str | None:
    return None if value is None else words.url(value)


UPDATES = Table(
    "updates",
    model.Updates,
    array=False,
    why="Whether Onefill asks once a day if there is a newer version. It tells, and installs nothing.",
    keys=(
        Key(
            "check",
            words.flag,
            False,
            "Off: nothing is asked of anybody unless you say so. What is fetched has to be signed.",
        ),
        Key(
            "url",
            manifest_url,
            None,
            "Where the signed list of the newest version is; its signature is at the same address with .sig.",
            example="https://downloads.example.com/onefill/latest.json",
        ),
    ),
)


def check_updates(updates: model.Updates, file: ConfigFile) -> None:
    """Raises ConfigError for the first contradiction."""
    if updates.check and updates.url is None:
        problem = "[updates] check = true needs to know where"
        raise file.error(("updates", "check"), f'{problem}: add url = "https://..."')
