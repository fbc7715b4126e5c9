"""The public address in the window: copied whole, remembered as taken, and shouted once it is another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.engine import HookAddress
from app.gui.hook_bar import HookBar

LOCAL = "http://127.0.0.1:8787/hook/tradingview/tok"
PUBLIC = "https://new.example.com/hook/tradingview/tok"


@pytest.fixture
def bar(qapp: QApplication) -> HookBar:
    made = HookBar()
    made.show()
    return made


def test_the_public_address_is_shown_and_copied_and_only_that_counts_as_taken(bar: HookBar) -> None:
    taken: list[None] = []
    bar.keep_copies(lambda: taken.append(None))
    bar.show_addresses([HookAddress("tradingview", LOCAL)])
    bar.copy()
    assert QApplication.clipboard().text() == LOCAL
    assert taken == []
    bar.show_addresses([HookAddress("tradingview", LOCAL, PUBLIC)])
    assert bar.address.text().startswith("https://new.example.com/hook/tradingview/")
    assert "/tok" not in bar.address.text()
    bar.copy()
    assert QApplication.clipboard().text() == PUBLIC
    assert len(taken) == 1


def test_another_address_than_the_one_that_was_taken_is_loud_until_it_is_copied(bar: HookBar) -> None:
    bar.show_addresses([HookAddress("tradingview", LOCAL, PUBLIC)])
    assert bar.alarm.isHidden()
    bar.show_addresses([HookAddress("tradingview", LOCAL, PUBLIC, "https://old.example.com")])
    assert not bar.alarm.isHidden()
    assert "https://old.example.com" in bar.alarm.label.text()
    assert bar.alarm.accessibleName() == bar.alarm.label.text()
    bar.show_addresses([HookAddress("tradingview", LOCAL, PUBLIC)])
    assert bar.alarm.isHidden()


PROGRAM = """
import asyncio, contextlib, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.gui.main import run

@contextlib.asynccontextmanager
async def beside(engine):
    def look():
        windows = [each for each in QApplication.topLevelWidgets() if hasattr(each, "hook_bar")]
        bar = windows[0].hook_bar if windows else None
        kept = Path(sys.argv[1], "tunnel", "copied.json")
        if bar is None or engine.status().public is None:
            pass
        elif "old.example.com" in kept.read_text():
            if not bar.alarm.isHidden():
                print("loud", flush=True)
                bar.copy()
        elif bar.alarm.isHidden():
            print("quiet", flush=True)
            return QApplication.quit()
        asyncio.get_running_loop().call_later(0.1, look)
    look()
    yield

sys.exit(run(Path(sys.argv[1]), 0, beside))
"""


def test_in_the_whole_program_a_copy_silences_the_alarm_and_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "tunnel"
    folder.mkdir()
    (folder / "copied.json").write_text(json.dumps({"address": "https://old.example.com", "at": 1}))
    # Port 9 answers nobody: what is said about the address does not depend on its being reached.
    (tmp_path / "config.toml").write_text('[tunnel]\nkind = "own"\npublic_url = "http://127.0.0.1:9"\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=40,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line in ("loud", "quiet")]
    assert list(dict.fromkeys(said)) == ["loud", "quiet"]
    assert json.loads((folder / "copied.json").read_text())["address"] == "http://127.0.0.1:9"
