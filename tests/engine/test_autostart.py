"""Start at login on each system: what is written, that there is one only, and that off leaves nothing."""

from __future__ import annotations

import configparser
import plistlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.engine.autostart import (
    APPROVED,
    NAME,
    RUN,
    Autostart,
    AutostartFailed,
    autostart,
    command,
    exec_line,
)
from app.settings import home_folder

ARGV = ("/opt/one fill/onefill", "--home", '/home/me/100% "real" $money`\\', "--minimized")


class FakeRegistry:
    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str | bytes] = {}
        self.refuses = False

    def get(self, key: str, name: str) -> str | bytes | None:
        return self.values.get((key, name))

    def set(self, key: str, name: str, value: str) -> None:
        if self.refuses:
            raise PermissionError(13, "Access is denied")
        self.values[key, name] = value

    def delete(self, key: str, name: str) -> None:
        del self.values[key, name]


def made(system: str, tmp_path: Path, registry: FakeRegistry, argv: tuple[str, ...] = ARGV) -> Autostart:
    return autostart(argv, system=system, user_home=tmp_path, environ={}, registry=registry)


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_on_off_and_what_is_said(system: str, tmp_path: Path) -> None:
    registry = FakeRegistry()
    here = made(system, tmp_path, registry)
    assert here.status().word == "off"
    assert here.off().word == "off"
    assert here.on().word == "on"
    assert here.on().word == "on", "twice is once"
    another = made(system, tmp_path, registry, ("/old/onefill", "--minimized"))
    assert another.status().word == "another"
    assert another.on().word == "on"
    assert here.status().word == "another"
    assert here.on().word == "on"
    assert here.off().word == "off"
    assert not registry.values
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_linux_writes_an_entry_that_a_desktop_reads_as_meant(tmp_path: Path) -> None:
    made("linux", tmp_path, FakeRegistry()).on()
    file = tmp_path / ".config" / "autostart" / "onefill.desktop"
    entry = configparser.RawConfigParser(interpolation=None)
    entry.optionxform = str  # type: ignore[assignment,method-assign]
    entry.read_string(file.read_text())
    said = entry["Desktop Entry"]
    assert (said["Type"], said["Name"], said["Terminal"]) == ("Application", "Onefill", "false")
    # Read as the specifications say: the value's own escapes, then the quotes, then %%.
    unescaped = said["Exec"].replace("\\\\", "\\")
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', unescaped)
    read = tuple(re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in words)
    assert tuple(word.replace("%%", "%") for word in read) == ARGV


def test_linux_obeys_the_desktops_own_switch_and_where_configuration_is(tmp_path: Path) -> None:
    here = autostart(
        ARGV, system="linux", user_home=tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "c")}
    )
    here.on()
    file = tmp_path / "c" / "autostart" / "onefill.desktop"
    text = file.read_text()
    for switched_off in (f"{text}Hidden=true\n", text.replace("enabled=true", "enabled=false")):
        file.write_text(switched_off)
        assert here.status().word == "off"
    assert here.on().word == "on"


def test_macos_runs_it_once_at_login_and_never_again_by_itself(tmp_path: Path) -> None:
    made("darwin", tmp_path, FakeRegistry()).on()
    (file,) = (tmp_path / "Library" / "LaunchAgents").iterdir()
    agent = plistlib.loads(file.read_bytes())
    assert (agent["ProgramArguments"], agent["RunAtLoad"]) == (list(ARGV), True)
    assert "KeepAlive" not in agent
    file.write_text("no plist")
    assert made("darwin", tmp_path, FakeRegistry()).status().word == "another"


def test_windows_quotes_it_and_obeys_the_task_manager(tmp_path: Path) -> None:
    registry = FakeRegistry()
    here = made("win32", tmp_path, registry)
    here.on()
    assert registry.values[RUN, NAME] == subprocess.list2cmdline(ARGV)
    registry.values[APPROVED, NAME] = bytes([3]) + bytes(11)
    assert here.status().word == "off"
    assert "task manager" in here.status().said
    registry.values[APPROVED, NAME] = bytes([2]) + bytes(11)
    assert here.status().word == "on"
    registry.values[APPROVED, NAME] = bytes([3]) + bytes(11)
    assert here.on().word == "on", "whoever asks for it here takes it back"


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    registry = FakeRegistry()
    registry.refuses = True
    with pytest.raises(AutostartFailed, match="Access is denied"):
        made("win32", tmp_path, registry).on()
    (tmp_path / ".config").write_text("a file in its place")
    with pytest.raises(AutostartFailed, match="cannot be"):
        made("linux", tmp_path, registry).on()


def test_the_program_is_this_one_with_its_home_and_hidden(tmp_path: Path) -> None:
    environ = {"ONEFILL_HOME": str(tmp_path)}
    assert command(tmp_path, environ, "linux") == (
        *(sys.executable, "-m", "app", "--home", str(tmp_path)),
        "--minimized",
    )
    assert "--home" not in command(home_folder(None, {}), {}, "linux"), "the usual home needs no word"


def test_frozen_it_is_the_program_with_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "onefill-cli.exe"))
    assert command(home_folder(None, {}), {}, "win32") == (str(tmp_path / "onefill.exe"), "--minimized")


def test_a_plain_word_stays_plain() -> None:
    assert exec_line(("/usr/bin/onefill", "--minimized")) == "/usr/bin/onefill --minimized"
