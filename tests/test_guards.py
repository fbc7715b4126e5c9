"""The guards of tests/guards.py bite: a small test does what no test may, and is seen to fail for it."""

import asyncio
from collections.abc import AsyncIterator

import apsw
import pytest
import qasync
import shiboken6  # noqa: F401 - imported here, or the inner runs below would import it and throw it away again
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

# Code that blocks, compiled so that it counts as code of app.
BLOCKING = """
import app, asyncio, pytest
def of_app(source):
    names = {}
    exec(compile(source, app.__path__[0] + "/imagined.py", "exec"), names)
    return names
"""


@pytest.fixture
async def plain_value() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__name__


@pytest.fixture
async def served() -> AsyncIterator[asyncio.Event]:
    closed = asyncio.Event()

    async def serve() -> None:
        await closed.wait()

    task = asyncio.Task(serve())
    yield closed
    # Set by the test on the same loop: the task ends.
    await asyncio.wait_for(task, 5)


async def test_an_async_test_and_its_fixture_share_a_plain_loop(plain_value: str) -> None:
    assert type(asyncio.get_running_loop()).__name__ == plain_value
    assert not isinstance(asyncio.get_running_loop(), qasync.QEventLoop)


async def test_an_async_fixture_is_closed_on_the_loop_of_its_test(served: asyncio.Event) -> None:
    served.set()


async def test_with_qapp_the_test_runs_on_the_qt_loop(qapp: QApplication) -> None:
    assert isinstance(asyncio.get_running_loop(), qasync.QEventLoop)


@pytest.mark.qasync
async def test_marked_qasync_the_test_runs_on_the_qt_loop() -> None:
    assert isinstance(asyncio.get_running_loop(), qasync.QEventLoop)


async def test_a_click_is_awaited_as_a_future(qtbot: QtBot, served: asyncio.Event) -> None:
    button = QPushButton("Send")
    qtbot.addWidget(button)
    clicked = asyncio.get_running_loop().create_future()
    button.clicked.connect(lambda: clicked.set_result(True))
    asyncio.get_running_loop().call_soon(button.click)
    assert await asyncio.wait_for(clicked, 5)
    served.set()


@given(number=st.integers())
@settings(max_examples=5)
async def test_generated_examples_run_on_the_loop(number: int) -> None:
    await asyncio.sleep(0)
    assert number == int(str(number))


@pytest.mark.parametrize("mark", ["", "@pytest.mark.qasync"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "asyncio.get_running_loop().create_task(asyncio.Event().wait(), name='lost')",
            "a task was left*lost*",
        ),
        ("threading.Thread(target=release.wait, name='lost').start()", "a thread was left: lost"),
        (
            "threading.Thread(target=release.wait, name='lost', daemon=True).start()",
            "a daemon thread was left: lost",
        ),
        (
            "asyncio.get_running_loop().call_soon(int, 'x')",
            "an error reached nobody but the loop*ValueError*",
        ),
        ("logging.getLogger().setLevel(10)", "the log's level was left at DEBUG"),
    ],
)
def test_what_is_left_fails_the_test(pytester: pytest.Pytester, body: str, words: str, mark: str) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.guards",)')
    pytester.makepyfile(
        f"""
        import asyncio, logging, threading, pytest
        release = threading.Event()
        {mark or "# plain"}
        async def test_leaves():
            {body}
        def test_is_not_blamed():
            release.set()
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines([words])


def test_a_task_left_by_a_fixture_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.guards",)')
    pytester.makepyfile(
        """
        import asyncio, pytest
        @pytest.fixture
        async def server():
            asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="lost")
            yield
        async def test_uses(server): pass
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["a task was left*lost*"])


def test_an_active_timer_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.guards",)')
    pytester.makepyfile(
        """
        from PySide6.QtCore import QTimer
        kept = []
        def test_leaves(qapp):
            kept.append(QTimer(objectName="lost"))
            kept[0].start(60000)
        def test_stops(qapp):
            kept[0].stop()
            timer = QTimer()
            timer.start(1000)
            timer.stop()
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["an active QTimer was left: interval 60000 ms, name 'lost'*"])


@pytest.mark.parametrize("mark", ["", "@pytest.mark.qasync"])
@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("import time\ndef block(): time.sleep(0)", "time.sleep"),
        ("import os\ndef block():\n with open(os.devnull, 'rb') as f: f.read()", "io.BufferedReader.read"),
        ("import apsw\ndef block(): apsw.Connection('').execute('select 1')", "apsw.Connection.execute"),
        ("import apsw\ndef block(): apsw.Connection('').cursor().execute('select 1')", "apsw.Cursor.execute"),
    ],
)
def test_a_blocking_call_of_app_on_the_loop_fails_the_test(
    pytester: pytest.Pytester, source: str, call: str, mark: str
) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.guards",)')
    pytester.makepyfile(
        BLOCKING
        + f"""
block = of_app({source!r})["block"]
{mark}
async def test_blocks():
    block()
{mark}
async def test_blocks_and_swallows():
    try:
        block()
    except Exception:
        pass
{mark}
async def test_blocks_a_thread():
    await asyncio.to_thread(block)
def test_blocks_without_a_loop():
    block()
@pytest.mark.blocking_allowed("shown here")
async def test_may_block():
    block()
"""
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=4, failed=1, errors=2)
    result.stdout.fnmatch_lines([f"code of app blocked the loop: {call}"])


def test_the_guard_is_taken_off_apsw_afterwards() -> None:
    assert type(apsw.Connection.execute).__name__ == "method_descriptor"
    assert type(apsw.Cursor.execute).__name__ == "method_descriptor"
