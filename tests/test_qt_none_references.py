"""The installed PySide6 keeps its references to None.

PySide6 6.12.0 loses one with every Qt call that returns nothing; on Python 3.11 the process aborts after some
thousand webhooks ("deallocating None", PYSIDE-3474). From Python 3.12 on None is immortal.
"""

import sys

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

CALLS = 200


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal: nothing can be lost")
def test_calls_that_return_nothing_keep_none_alive(qtbot: QtBot) -> None:
    label = QLabel()
    qtbot.addWidget(label)
    label.setText("warm")
    before = sys.getrefcount(None)
    for _ in range(CALLS):
        label.setText("same")
    lost = before - sys.getrefcount(None)
    assert lost < CALLS // 2, (
        f"{lost} references to None lost in {CALLS} calls: this PySide6 aborts the process"
    )
