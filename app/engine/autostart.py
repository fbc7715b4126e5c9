"""Start at login, as each system has it: a file in the user's own folders, or a value in the registry.

No administrator, no service, nothing that starts again by itself. Blocking: run on a thread or in a command.
"""

from __future__ import annotations

import os
import plistlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from app.settings import ConfigError, home_folder, write_private

MINIMIZED = "--minimized"
NAME = "Onefill"
RUN = r"Software\Microsoft\Windows\CurrentVersion\Run"
APPROVED = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
LABEL = "org.onefill.Onefill"

Word = Literal["on", "off", "another"]


@dataclass(frozen=True, slots=True)
class State:
    """`another`: something else under our name is started. `said` is for a person."""

    word: Word
    said: str


class AutostartFailed(Exception):
    """It could not be changed. One line: why."""


class Registry(Protocol):
    """HKEY_CURRENT_USER. Raises OSError."""

    def get(self, key: str, name: str) -> str | bytes | None: ...

    def set(self, key: str, name: str, value: str) -> None: ...

    def delete(self, key: str, name: str) -> None: ...


def command(home: Path, environ: Mapping[str, str], system: str = sys.platform) -> tuple[str, ...]:
    """What the system is to run for this home, frozen or from source."""
    program = Path(sys.executable)
    if getattr(sys, "frozen", False):
        # On Windows the commands are a program of their own, with a console.
        argv = [str(program.with_name(program.name.replace("-cli", "")))]
    else:
        quiet = program.with_name("pythonw.exe")
        argv = [str(quiet if system == "win32" and quiet.exists() else program), "-m", "app"]
    plain = {name: value for name, value in environ.items() if name != "ONEFILL_HOME"}
    if home != home_folder(None, plain):
        argv += ["--home", str(home)]
    return (*argv, MINIMIZED)


class Autostart(Protocol):
    """Raises AutostartFailed."""

    def status(self) -> State: ...

    def on(self) -> State: ...

    def off(self) -> State: ...


def autostart(
    argv: Sequence[str],
    *,
    system: str = sys.platform,
    user_home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    registry: Registry | None = None,
) -> Autostart:
    """For this user on this system (`sys.platform`)."""
    environ, user_home = os.environ if environ is None else environ, user_home or Path.home()
    if system == "win32":
        return RegistryValue(argv, registry or _windows_registry())
    if system == "darwin":
        return LaunchAgent(argv, user_home / "Library" / "LaunchAgents" / f"{LABEL}.plist")
    config = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(config) if config.startswith("/") else user_home / ".config"
    return DesktopFile(argv, folder / "autostart" / "onefill.desktop")


class _File:
    """One file that is there or not; ours where it starts this program."""

    def __init__(self, argv: Sequence[str], path: Path) -> None:
        self._argv = tuple(argv)
        self.path = path

    def status(self) -> State:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return State("off", "Onefill does not start at login")
        except OSError as error:
            raise AutostartFailed(f"{self.path} cannot be read ({error.strerror})") from error
        return self._state(data)

    def on(self) -> State:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(self.path, self._text())
        except (OSError, ConfigError) as error:
            raise AutostartFailed(f"{self.path} cannot be written ({_why(error)})") from error
        return self.status()

    def off(self) -> State:
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise AutostartFailed(f"{self.path} cannot be removed ({error.strerror})") from error
        return self.status()

    def _text(self) -> str:
        raise NotImplementedError

    def _state(self, data: bytes) -> State:
        raise NotImplementedError

    def _is(self, found: Sequence[str] | str, ours: Sequence[str] | str) -> State:
        if found == ours:
            return State("on", f"Onefill starts at login ({self.path})")
        return State("another", f"{self.path} starts something else: on puts this program in its place")


class DesktopFile(_File):
    """Linux: the autostart folder of freedesktop.org (Desktop Application Autostart Specification 0.5)."""

    def _text(self) -> str:
        return (
            "[Desktop Entry]\n"
            "Type=Application\n"
            f"Name={NAME}\n"
            "Comment=One signal, one order\n"
            f"Exec={exec_line(self._argv)}\n"
            "Icon=onefill\n"
            "Terminal=false\n"
            "X-GNOME-Autostart-enabled=true\n"
        )

    def _state(self, data: bytes) -> State:
        entry = dict(
            re.findall(r"^([A-Za-z-]+)[ \t]*=[ \t]*(.*)$", data.decode("utf-8", "replace"), re.MULTILINE)
        )
        if entry.get("Hidden") == "true" or entry.get("X-GNOME-Autostart-enabled") == "false":
            return State("off", f"start at login is switched off in the desktop's own settings ({self.path})")
        return self._is(entry.get("Exec", ""), exec_line(self._argv))


class LaunchAgent(_File):
    """macOS: an agent of this user, run once at login and not again."""

    def _text(self) -> str:
        agent = {
            "Label": LABEL,
            "ProgramArguments": list(self._argv),
            "RunAtLoad": True,
            "ProcessType": "Interactive",
        }
        return plistlib.dumps(agent).decode()

    def _state(self, data: bytes) -> State:
        try:
            agent = plistlib.loads(data)
        except (plistlib.InvalidFileException, ValueError):
            agent = {}
        return self._is(agent.get("ProgramArguments", []), list(self._argv))


class RegistryValue:
    """Windows: the Run key of this user. The task manager keeps beside it what was switched off there."""

    def __init__(self, argv: Sequence[str], registry: Registry) -> None:
        self._line = subprocess.list2cmdline(argv)
        self._registry = registry

    def status(self) -> State:
        try:
            found = self._registry.get(RUN, NAME)
            approved = self._registry.get(APPROVED, NAME)
        except OSError as error:
            raise AutostartFailed(f"the registry cannot be read ({_why(error)})") from error
        if found is None:
            return State("off", "Onefill does not start at login")
        if isinstance(approved, bytes) and approved[:1] and approved[0] % 2:
            return State("off", "start at login is switched off in the task manager: switch it on there")
        if found == self._line:
            return State("on", "Onefill starts at login")
        return State(
            "another", "another program is started at login as Onefill: on puts this one in its place"
        )

    def on(self) -> State:
        try:
            self._registry.set(RUN, NAME, self._line)
            # A person who asks for it here takes back what was said there.
            if self._registry.get(APPROVED, NAME) is not None:
                self._registry.delete(APPROVED, NAME)
        except OSError as error:
            raise AutostartFailed(f"the registry cannot be written ({_why(error)})") from error
        return self.status()

    def off(self) -> State:
        try:
            if self._registry.get(RUN, NAME) is not None:
                self._registry.delete(RUN, NAME)
        except OSError as error:
            raise AutostartFailed(f"the registry cannot be written ({_why(error)})") from error
        return self.status()


def exec_line(argv: Sequence[str]) -> str:
    """As the key Exec is quoted (Desktop Entry Specification 1.5, "The Exec key")."""
    return " ".join(map(_quoted, argv))


def _quoted(word: str) -> str:
    word = word.replace("%", "%%")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", word):
        return word
    inner = re.sub(r'(["`$\\])', r"\\\1", word)
    # Once more, for values of strings are escaped by themselves.
    return '"' + inner.replace("\\", "\\\\") + '"'


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _windows_registry() -> Registry:
    import winreg

    class Windows:
        def get(self, key: str, name: str) -> str | bytes | None:
            try:
                with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key) as opened:  # type: ignore[attr-defined,unused-ignore]
                    value: str | bytes = winreg.QueryValueEx(opened, name)[0]  # type: ignore[attr-defined,unused-ignore]
                    return value
            except FileNotFoundError:
                return None

        def set(self, key: str, name: str, value: str) -> None:
            with winreg.CreateKey(winreg.HKEY_CURRENT_USER, key) as opened:  # type: ignore[attr-defined,unused-ignore]
                winreg.SetValueEx(opened, name, 0, winreg.REG_SZ, value)  # type: ignore[attr-defined,unused-ignore]

        def delete(self, key: str, name: str) -> None:
            access = winreg.KEY_SET_VALUE  # type: ignore[attr-defined,unused-ignore]
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key, 0, access) as opened:  # type: ignore[attr-defined,unused-ignore]
                winreg.DeleteValue(opened, name)  # type: ignore[attr-defined,unused-ignore]

    return Windows()
