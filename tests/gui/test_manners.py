"""The window on a desktop, with a real engine: hidden at login, told of things, found again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.clock import SECOND
from app.engine import CommandRefused, Engine
from app.engine import notices as room
from app.engine.autostart import Autostart, AutostartFailed, State, autostart
from app.gui.autostart import StartAtLogin
from app.gui.manners import Manners
from app.gui.tray_icon import TrayState
from app.gui.window import Window
from app.notify import Pace
from app.notify.outbox import Times
from app.secrets import Secrets
from app.settings import create_home
from app.tasks import Tasks
from tests.crash.program import until as until_polled
from tests.engine.kit import send
from tests.gui.hands import until
from tests.gui.test_tray import FakeIcon

QUICK = Pace(beat=0.02, times=Times(batch=SECOND // 20, gap=SECOND // 20, patience=0))


@contextlib.asynccontextmanager
async def desktop(
    home: Path, *, has_tray: bool, minimized: bool = False
) -> AsyncIterator[tuple[Engine, Window, Manners]]:
    engine = Engine(home, port=0, secrets=lambda: Secrets(home, {}, keyring=None))
    await engine.start()
    window = Window(engine)
    manners = Manners(window, engine, is_there=lambda: has_tray)
    manners.show(minimized=minimized)
    try:
        yield engine, window, manners
    finally:
        window.say_stopping()
        await engine.stop()
        await manners.stop()
        await window.shut()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.notify.notifier.Pace", lambda: QUICK)
    monkeypatch.setattr(room, "LOOK_EVERY", SECOND // 20)
    monkeypatch.setattr("app.gui.tray.QSystemTrayIcon", _icon_class())


def _icon_class() -> type[FakeIcon]:
    class Icon(FakeIcon):
        def __init__(self, _parent: object = None) -> None:
            super().__init__()

    return Icon


async def test_at_login_only_the_icon_is_there_and_a_refused_exit_is_told_beside_it(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with desktop(tmp_path / "home", has_tray=True, minimized=True) as (engine, window, manners):
        assert not window.isVisible()
        icon = manners.tray.icon
        assert isinstance(icon, FakeIcon)
        status, _ = await send(engine, "lost", action="exit", trailing_stop=5)
        assert status == 400
        await until(lambda: icon.said)
        assert icon.said[0][0] == "Onefill needs you now"
        assert "reads as an exit" in icon.said[0][1]
        await until(lambda: manners.tray.state is TrayState.ATTENTION)
        assert not window.isVisible(), "it never takes the focus"
        icon.messageClicked.emit()
        assert window.isVisible()
        await until(lambda: window.needs.model.rowCount() == 1)
        window.close()
        assert not window.isVisible()
        assert icon.said[-1][0] == "Onefill goes on"


async def test_at_login_without_a_tray_the_window_waits_in_the_bar(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with desktop(tmp_path / "home", has_tray=False, minimized=True) as (_engine, window, _manners):
        assert window.isMinimized()


async def test_the_running_one_is_brought_up_by_who_starts_it_again(
    qapp: QApplication, tmp_path: Path
) -> None:
    async with desktop(tmp_path / "home", has_tray=True) as (engine, window, manners):
        window.close()
        assert not window.isVisible()
        answer = await engine.command("show window", {}, actor="test", request_id="1")
        assert answer == {"shown": True}
        assert window.isVisible()
        await manners.stop()
        with pytest.raises(CommandRefused, match="without a window"):
            await engine.command("show window", {}, actor="test", request_id="2")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_second_start_on_the_same_home_shows_the_first_and_ends_well(tmp_path: Path) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    home = tmp_path / "home"
    create_home(home)
    (home / "config.toml").write_text("[listener]\nport = 0\n")
    line = [sys.executable, "-m", "app", "--home", str(home)]
    first = subprocess.Popen([*line, "--minimized"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        status = [*line, "status", "--json"]

        def is_running() -> bool:
            done = subprocess.run(status, env=environment, capture_output=True, text=True, check=False)
            return done.returncode == 0 and json.loads(done.stdout)["state"] == "running"

        until_polled(is_running, "the first one", 40)
        second = subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=40, check=False
        )
        assert (second.returncode, second.stdout) == (0, "")
        assert "it runs already, and its window is shown" in second.stderr
        first.send_signal(signal.SIGTERM)
        assert first.wait(40) == 0, "a signal stops in order, without a question"
    finally:
        first.kill()
        first.communicate()


# -------------------------------------------------------------------------------------------- start at login


class Login:
    def __init__(self, window: Window, made: Autostart) -> None:
        self.tasks = Tasks()
        self.item = StartAtLogin(lambda: made, self.tasks, window.notice)
        self.window = window

    async def done(self) -> None:
        await until(lambda: len(self.tasks) == 0)


async def test_the_menu_shows_and_changes_whether_it_starts_at_login(window: Window, tmp_path: Path) -> None:
    here = autostart(("/usr/bin/onefill", "--minimized"), system="linux", user_home=tmp_path, environ={})
    login = Login(window, here)
    login.item.look()
    await login.done()
    assert not login.item.action.isChecked()
    login.item.action.trigger()
    await login.done()
    assert login.item.action.isChecked()
    assert "starts at login" in window.notice.text
    assert await asyncio.to_thread((tmp_path / ".config/autostart/onefill.desktop").exists)
    login.item.action.trigger()
    await login.done()
    assert not login.item.action.isChecked()
    assert "does not start" in window.notice.text


async def test_what_cannot_be_changed_is_said_and_the_tick_goes_back(window: Window) -> None:
    class Refusing:
        def status(self) -> State:
            return State("off", "")

        def on(self) -> State:
            raise AutostartFailed("the folder cannot be written (Permission denied)")

        def off(self) -> State:
            return State("off", "")

    login = Login(window, Refusing())
    login.item.action.trigger()
    await login.done()
    assert not login.item.action.isChecked()
    assert "Permission denied" in window.notice.text
    assert window.notice.level == "error"
