"""The home folder, and files in it that are written whole or not at all.

Blocking: run at the start or in a thread. Every failure is one line for a person.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from app.settings.errors import ConfigError
from app.settings.model import Settings
from app.settings.read import CONFIG_NAME, read_settings
from app.settings.text import default_text


def home_folder(argument: str | None, environ: Mapping[str, str]) -> Path:
    """Where everything that Onefill writes is: `--home`, else ONEFILL_HOME, else the user's data folder.

    Absolute. ConfigError for an empty `--home`: a script with an unset variable must not reach the real home.
    """
    if argument is not None and not argument.strip():
        raise ConfigError(Path("--home"), None, "is empty: name a folder, or leave --home out")
    chosen = argument or environ.get("ONEFILL_HOME", "")
    if not chosen:
        return Path(platformdirs.user_data_dir("onefill", appauthor=False)).absolute()
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError:
        raise ConfigError(Path(chosen), None, "whose home is this? Write the folder without ~") from None


def config_path(home: Path) -> Path:
    return home / CONFIG_NAME


def create_home(home: Path) -> None:
    """Makes the folder, for its user alone (0700); one that is there stays as it is."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            home, None, f"cannot be made a folder ({_reason(error)}): allow it, or choose another with --home"
        ) from None


def load_or_create(home: Path) -> Settings:
    """Reads config.toml of this home; on first start makes the home and writes the file with its comments.

    ConfigError for all that is wrong with folder, file or settings.
    """
    create_home(home)
    path = config_path(home)
    text = read_text(path)
    if text is None:
        text = default_text()
        write_text(path, text)
    return read_settings(text, path)


def read_text(path: Path) -> str | None:
    """The file's text without a byte order mark; None if there is no such file. ConfigError otherwise."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            path, None, f"cannot be read ({_reason(error)}): allow it, or move it away"
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(path, line, "is not UTF-8: save it as UTF-8 in your editor") from None


def write_text(path: Path, text: str) -> None:
    """`write_private` with a ConfigError for what can go wrong."""
    try:
        write_private(path, text)
    except OSError as error:
        raise ConfigError(
            path,
            None,
            f"cannot be written ({_reason(error)}): allow it, or choose another folder with --home",
        ) from None


def write_private(path: Path, text: str) -> None:
    """Puts `text` in the place of the file, durably and whole, readable by its user alone (0600).

    A symbolic link stays one: the file that it names is replaced. OSError leaves the old file as it was.
    """
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name durable too. Some network file systems refuse that: the file itself is safe."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
