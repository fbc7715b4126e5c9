"""Questions and messages without a nested loop: the answer is awaited, the loop goes on, nothing is left."""

from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.gui.dialogs import ask, tell
from app.tasks import Tasks
from tests.gui.hands import click, press, until

WHY = "another Onefill runs on <b>/home/me</b>; close it first"


@pytest.fixture(autouse=True)
def no_quit_with_the_last_window(qapp: QApplication) -> None:
    """As application.py sets it: else the loop ends when a message is closed."""
    qapp.setQuitOnLastWindowClosed(False)


def box() -> QMessageBox | None:
    return next(
        (
            each
            for each in QApplication.topLevelWidgets()
            if isinstance(each, QMessageBox) and each.isVisible()
        ),
        None,
    )


async def test_a_message_is_shown_as_it_is_and_returns_when_it_is_closed(qapp: QApplication) -> None:
    tasks = Tasks()
    told = tasks.start("told", tell(None, "Onefill", "Onefill does not start.", WHY))
    await until(box)
    shown = box()
    assert shown is not None
    assert shown.informativeText() == WHY
    assert shown.textFormat() is Qt.TextFormat.PlainText
    await asyncio.sleep(0.01)
    assert not told.done()
    click(shown.button(QMessageBox.StandardButton.Close))
    await told
    await until(lambda: box() is None)


@pytest.mark.parametrize(("keys", "agreed"), [([Qt.Key.Key_Escape], False), ([Qt.Key.Key_Return], False)])
async def test_escape_and_enter_both_mean_the_safe_answer(
    qapp: QApplication, keys: list[Qt.Key], agreed: bool
) -> None:
    parent = QWidget()
    parent.show()
    tasks = Tasks()
    asked = tasks.start("asked", ask(parent, "Resume", "Resume trading?", "", "Resume", "Stay"))
    await until(box)
    shown = box()
    assert shown is not None
    for key in keys:
        press(shown, key)
    assert await asked is agreed
    parent.close()


async def test_a_question_whose_asker_goes_away_goes_too(qapp: QApplication) -> None:
    parent = QWidget()
    parent.show()
    tasks = Tasks()
    tasks.start("asked", ask(parent, "Resume", "Resume trading?", "", "Resume", "Stay"))
    await until(box)
    await tasks.stop()
    assert box() is None
    parent.close()
