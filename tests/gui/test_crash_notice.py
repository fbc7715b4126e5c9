"""An error that nobody handled is shown once, beside everything else, and says what it means for signals."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QPushButton

from app.engine.crashes import Crashes, watching
from app.engine.status import Fact
from app.gui import crashes as gui_crashes
from app.gui.crash_notice import CrashNotice
from app.gui.crash_words import signals_now
from app.gui.window import Window
from app.tasks import Tasks
from tests.gui.hands import click, press, until
from tests.gui.kit import TOKEN, StandIn
from tests.gui.setup_kit import nameless, there

# The console of the test runner is written to as a log would be.
pytestmark = pytest.mark.blocking_allowed(reason="pytest notes log lines as they come")


@pytest.fixture
def crashes(window: Window) -> Iterator[Crashes]:
    with watching(crashes=window.setup.helping.crashes) as watched:
        yield watched


def broken(what: str = "gone wrong") -> None:
    raise ValueError(what)


def notice_of(window: Window) -> CrashNotice | None:
    return next((each for each in window.setup.dialogs if isinstance(each, CrashNotice)), None)


async def test_an_error_of_a_slot_is_shown_once_and_then_only_counted(
    window: Window, crashes: Crashes
) -> None:
    assert notice_of(window) is None
    assert not window.setup.helping.mark.isVisible()
    places = [each.geometry() for each in (window.tabs, window.strip, window.trading_bar)]
    QTimer.singleShot(0, broken)
    await until(lambda: notice_of(window))
    notice = there(notice_of(window))
    assert notice.isVisible()
    assert not notice.isModal()
    # It takes no focus and moves nothing.
    assert notice.testAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
    assert [each.geometry() for each in (window.tabs, window.strip, window.trading_bar)] == places
    assert notice.state.text() == "✓ Signals are being taken, and orders are placed."
    assert "ValueError: gone wrong" in notice.what.text()
    assert "in broken" in notice.story.toPlainText()
    QTimer.singleShot(0, broken)
    await until(lambda: "2 times" in notice.story.toPlainText())
    assert "(2 times in all, 1 different)" in notice.what.text()
    assert window.setup.helping.mark.text() == "✕ 2 errors"
    press(notice, Qt.Key.Key_Escape)
    assert notice_of(window) is None
    QTimer.singleShot(0, lambda: broken("another"))
    await until(lambda: window.setup.helping.mark.text() == "✕ 3 errors")
    # It does not come again by itself, and is there for who asks.
    assert notice_of(window) is None
    click(window.setup.helping.mark)
    assert "another" in there(notice_of(window)).what.text()


async def test_errors_of_threads_and_tasks_reach_the_window_too(window: Window, crashes: Crashes) -> None:
    async def work() -> None:
        broken("in a task")

    thread = threading.Thread(target=lambda: broken("in a thread"), name="reader")
    thread.start()
    thread.join()
    Tasks().start("window: reads", work())
    await until(lambda: crashes.count == 2 and notice_of(window))
    await until(lambda: "task window: reads" in there(notice_of(window)).story.toPlainText())
    assert "thread reader" in there(notice_of(window)).story.toPlainText()


async def test_the_word_on_signals_follows_while_it_is_open(
    window: Window, engine: StandIn, crashes: Crashes
) -> None:
    QTimer.singleShot(0, broken)
    await until(lambda: notice_of(window))
    notice = there(notice_of(window))
    engine.facts[0] = Fact("listener", "deaf", "error", "the door does not answer")
    await until(lambda: notice.state.text() == "✕ Signals are NOT being taken: the door does not answer.")


async def test_what_it_says_of_signals(window: Window, engine: StandIn) -> None:
    good = list(engine.facts)

    def said(*changed: Fact, trading: str = "active") -> str:
        names = {fact.name for fact in changed}
        engine.facts = [*changed, *(fact for fact in good if fact.name not in names)]
        engine.trading_state = trading
        level, text = signals_now(engine.status())
        return f"{level}: {text}"

    assert said() == "ok: Signals are being taken, and orders are placed."
    assert "NOT being taken: the disk is full" in said(Fact("ledger", "full", "error", "the disk is full"))
    assert "from outside do NOT reach" in said(Fact("tunnel", "down", "error", "no connection"))
    assert "taken, but a part died" in said(Fact("program", "broken", "error", "a part died"))
    assert "nothing is placed" in said(trading="halted")
    assert "entries are denied" in said(trading="exits_only")
    assert "no orders go out for paper" in said(Fact("account:paper", "failing", "error", "401"))
    assert said(Fact("tunnel", "degraded", "warning", "slow")).startswith("ok")


async def test_copy_has_versions_and_stories_and_no_token(window: Window, crashes: Crashes) -> None:
    QTimer.singleShot(0, lambda: broken(f"at http://127.0.0.1:8787/hook/tv/{TOKEN}"))
    await until(lambda: notice_of(window))
    notice = there(notice_of(window))
    assert nameless(notice) == []
    click(notice.copy_all)
    copied = QGuiApplication.clipboard().text()
    assert "onefill: 0" in copied
    assert "in broken" in copied
    assert "Signals are being taken" in copied
    assert TOKEN not in copied


async def test_errors_before_the_window_and_after_its_end(engine: StandIn) -> None:
    early = Crashes()
    early.note_story("an earlier run", "an earlier run was ended by a crash", "Segmentation fault")
    with watching(crashes=early):
        window = Window(engine)
        window.show()
        try:
            await until(lambda: notice_of(window))
            assert "an earlier run" in there(notice_of(window)).what.text()
            window.say_stopping()
            assert notice_of(window) is None
            early.note("the program", ValueError("late"))
        finally:
            await window.shut()
    assert early.count == 2


def test_qt_messages_and_errors_go_the_same_way(qapp: QApplication) -> None:
    with gui_crashes.errors_to_the_log() as crashes:
        crashes.note("the program", ValueError("seen"))
    assert crashes.count == 1


# ------------------------------------------------------------------------------------------------ bundle


def file_dialog(window: Window) -> QFileDialog | None:
    return next((each for each in window.findChildren(QFileDialog) if each.isVisible()), None)


async def save_to(window: Window, target: Path) -> None:
    await until(lambda: file_dialog(window))
    dialog = there(file_dialog(window))
    name = there(dialog.findChild(QLineEdit, "fileNameEdit"))
    # Typed letter by letter a list of proposals would pop up, which grabs the keyboard.
    name.setText(str(target))
    dialog.accept()


async def test_the_support_bundle_is_written_where_the_person_says_and_told_what_is_in_it(
    window: Window, engine: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text("[listener]\nport = 8787\n")
    target = tmp_path / "for-help.zip"
    window.setup.helping.bundle.trigger()
    await save_to(window, target)
    await until(lambda: "Wrote" in window.notice.text)
    assert "versions.json" in window.notice.text
    assert "Secrets are blanked" in window.notice.text
    with zipfile.ZipFile(target) as bundle:
        names = bundle.namelist()
        assert {"versions.json", "checks.jsonl", "status.json", "config.toml", "orders.jsonl"} <= set(names)
        assert TOKEN not in "".join(bundle.read(name).decode() for name in names)
    # The same name again is refused in words, and the first one stays.
    window.setup.helping.bundle.trigger()
    await save_to(window, target)
    await until(lambda: "name another file" in window.notice.text)
    assert zipfile.is_zipfile(target)


async def test_leaving_the_file_dialog_writes_nothing(window: Window, tmp_path: Path) -> None:
    window.setup.helping.bundle.trigger()
    await until(lambda: file_dialog(window))
    there(file_dialog(window)).reject()
    await until(window.setup.helping.bundle.isEnabled)
    assert list(tmp_path.glob("*.zip")) == []


async def test_the_bundle_by_the_button_of_the_error(
    window: Window, crashes: Crashes, tmp_path: Path
) -> None:
    QTimer.singleShot(0, broken)
    await until(lambda: notice_of(window))
    notice = there(notice_of(window))
    assert isinstance(notice.save, QPushButton)
    click(notice.save)
    await save_to(window, tmp_path / "error.zip")
    await until(lambda: "Wrote" in notice.notice.text)
    assert (tmp_path / "error.zip").exists()
