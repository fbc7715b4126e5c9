"""The setup check in the window: beside the loop, line after line, in words, again by a button."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from app.brokers.base import LookupFailed
from app.clock import ManualClock
from app.engine import checkup_apart
from app.engine.checkup import Check, Level, Patient
from app.gui.checkup_dialog import CheckupDialog
from app.gui.theme import dark_palette
from app.gui.tool_dialog import Tools
from app.gui.window import Window
from tests.gui.hands import click, press, until
from tests.gui.kit import StandIn
from tests.gui.setup_kit import nameless, real, there

Seen = Iterator[tuple[Level, str]]


class Checks:
    """Three checks; the last waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.threads: set[str] = set()
        self.disk: tuple[Level, str] = ("error", "the disk is full: make room")

    def home(self, _patient: Patient) -> Seen:
        self.threads.add(threading.current_thread().name)
        yield "ok", "/home/somebody"

    def of_disk(self, _patient: Patient) -> Seen:
        yield self.disk
        yield "warning", "a synced write takes 300 ms"

    def slow(self, _patient: Patient) -> Seen:
        assert self.go.wait(10)
        yield "ok", "a test signal went the whole way"

    @property
    def table(self) -> tuple[Check, ...]:
        return ("home", self.home), ("disk", self.of_disk), ("signal", self.slow)


@pytest.fixture
def checks() -> Iterator[Checks]:
    made = Checks()
    yield made
    made.go.set()


def opened(window: Window, engine: StandIn, checks: Checks) -> CheckupDialog:
    tools = Tools(engine, window._tasks, window.show_thing)
    dialog = window.setup.one(CheckupDialog, lambda: CheckupDialog(tools, window, checks.table))
    dialog.open_and_start()
    return dialog


def lines(dialog: CheckupDialog) -> list[str]:
    return [label.text() for label in dialog.rows.findChildren(QLabel) if label.parent() is dialog.rows]


async def test_each_line_comes_with_a_word_and_its_remedy_and_the_window_goes_on(
    window: Window, engine: StandIn, checks: Checks
) -> None:
    dialog = opened(window, engine, checks)
    assert not dialog.isModal()
    assert not dialog.again.isEnabled()
    await until(lambda: len(dialog.findings) == 3)
    # The last check still waits, on a thread of its own; the window does not.
    assert checks.threads == {"setup check"}
    assert "3 lines so far" in dialog.summary.text()
    assert lines(dialog)[:6] == [
        "✓ OK",
        "home",
        "/home/somebody",
        "✕ Error",
        "disk",
        "the disk is full: make room",
    ]
    checks.go.set()
    await until(lambda: not dialog.is_running)
    assert dialog.summary.text() == "✕ Error: 2 of 4 lines need a look."
    assert dialog.again.isEnabled()


async def test_it_runs_again_by_its_button_and_copies_as_the_command_prints_it(
    window: Window, engine: StandIn, checks: Checks
) -> None:
    checks.go.set()
    dialog = opened(window, engine, checks)
    await until(lambda: not dialog.is_running)
    checks.disk = ("ok", "12.0 GB free")
    click(dialog.again)
    assert dialog.is_running
    await until(lambda: not dialog.is_running)
    assert [found.level for found in dialog.findings] == ["ok", "ok", "warning", "ok"]
    assert dialog.summary.text().startswith("▲ Warning: 1 of 4")
    click(dialog.copy_all)
    copied = QGuiApplication.clipboard().text().splitlines()
    assert copied[1] == "ok       disk       12.0 GB free"
    assert len(copied) == 4


async def test_closing_it_while_a_check_waits_leaves_nothing_behind(
    window: Window, engine: StandIn, checks: Checks
) -> None:
    dialog = opened(window, engine, checks)
    await until(lambda: len(dialog.findings) == 3)
    press(dialog, Qt.Key.Key_Escape)
    assert window.setup.dialogs == ()
    checks.go.set()
    await until(lambda: not any(each.name == "setup check" for each in threading.enumerate()))


async def test_names_keys_and_dark(window: Window, engine: StandIn, checks: Checks) -> None:
    checks.go.set()
    dialog = opened(window, engine, checks)
    await until(lambda: not dialog.is_running)
    assert nameless(dialog) == []
    press(dialog, Qt.Key.Key_Return)
    assert dialog.isVisible()
    before = dialog.summary.palette().color(dialog.summary.foregroundRole())
    dialog.setPalette(dark_palette())
    assert dialog.summary.palette().color(dialog.summary.foregroundRole()) != before


async def test_f1_menu_and_health_lead_to_it(window: Window) -> None:
    actions = [action.text() for action in window.setup.helping.menu_actions]
    assert [text.replace("&", "") for text in actions] == [
        "Help on what is shown",
        "Setup check…",
        "Save support bundle…",
        "Errors…",
    ]
    offers = there(window.health.offers)
    assert window.setup.helping.checkup in [action for made in offers.buttons for action in made.actions()]


@pytest.mark.long
@pytest.mark.qasync
async def test_all_checks_on_a_real_engine_are_well(tmp_path: Path) -> None:
    async with real(tmp_path / "home") as desk:
        dialog = there(desk.window.setup.helping.open_checkup())
        await until(lambda: not dialog.is_running)
        found = {each.check: each for each in dialog.findings}
        assert {"home", "disk", "app", "ledger", "listener", "login", "signal"} <= set(found)
        assert [each for each in dialog.findings if each.level == "error"] == []
        assert "answers on port" in found["listener"].seen
        assert "the whole way" in found["signal"].seen


@pytest.mark.qasync
async def test_a_real_engine_answers_what_the_check_asks_from_its_thread(tmp_path: Path) -> None:
    asked: list[str] = []

    def login(patient: Patient) -> Seen:
        assert patient.ask is not None
        asked.append(str(patient.ask("test account", {"account": "paper"})["identity"]))
        try:
            patient.ask("test account", {"account": "gone"})
        except LookupFailed as error:
            asked.append(str(error))
        yield "ok", "asked"

    async with real(tmp_path / "home") as desk:
        tools = Tools(desk.engine, desk.window._tasks, desk.window.show_thing)
        dialog = CheckupDialog(tools, desk.window, (("login", login),))
        dialog.open_and_start()
        await until(lambda: not dialog.is_running)
        dialog.end()
        assert [each.seen for each in dialog.findings] == ["asked"]
    assert asked[0]
    assert "there is no account 'gone'" in asked[1]


@pytest.mark.parametrize(
    ("program", "level", "words"),
    [
        ('print(\'{"check": "door", "ok": true, "seen": "open"}\')', "ok", "the whole way"),
        (
            'import sys; print(\'{"check": "order", "ok": false, "seen": "none"}\'); sys.exit(1)',
            "error",
            "order: none",
        ),
        ("import sys; sys.exit('no library of that name')", "error", "no library of that name"),
        ("import time; time.sleep(60)", "error", "was not through"),
    ],
)
def test_the_signal_is_sent_by_another_process_and_what_it_says_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, level: str, words: str
) -> None:
    monkeypatch.setattr(checkup_apart, "own_command", lambda *_: (sys.executable, "-c", program))
    monkeypatch.setattr(checkup_apart, "PATIENCE", 0.4 if "sleep" in program else 30)
    ((found, seen),) = checkup_apart.signal(Patient(tmp_path, ManualClock()))
    assert (found, words in seen) == (level, True), seen


def test_frozen_it_is_the_program_itself_or_its_sibling_with_a_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "onefill.exe"))
    assert checkup_apart.own_command("selftest") == (str(tmp_path / "onefill.exe"), "selftest")
    (tmp_path / "onefill-cli.exe").touch()
    assert checkup_apart.own_command("selftest") == (str(tmp_path / "onefill-cli.exe"), "selftest")


def test_the_command_is_this_program() -> None:
    done = subprocess.run(
        checkup_apart.own_command("version"), capture_output=True, text=True, timeout=30, check=True
    )
    assert "onefill" in done.stdout.lower()
