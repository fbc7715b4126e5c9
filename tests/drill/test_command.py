"""`onefill drill`: what it prints, that a sceptic can follow it, and that it fails where one is doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from app.cli import onefill
from app.drill import stories
from app.drill.house import KEYS
from app.drill.story import Drill, Story
from tests.crash.program import until

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", "drill", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_the_list_names_what_there_is() -> None:
    told = CliRunner().invoke(onefill, ["drill", "--list", "--json"])
    rows = [json.loads(line) for line in told.output.splitlines()]
    assert [row["name"] for row in rows] == [story.name for story in stories.STORIES]
    assert sum(row["default"] for row in rows) == 12


def test_a_name_that_is_none_is_refused() -> None:
    told = CliRunner().invoke(onefill, ["drill", "nonsense"])
    assert told.exit_code == 2
    assert "--list" in told.output


@pytest.mark.timeout(120)
def test_a_drill_tells_what_happened_and_the_proof() -> None:
    told = run("response-lost")
    assert told.returncode == 0, told.stdout + told.stderr
    for words in (
        "ok    response-lost",
        "by wire: buy AAPL filled, 10 of 10 filled",
        "PENDING > SUBMITTING > AMBIGUOUS > WORKING > DONE, Filled",
        "1 order under 1 client order id, 10 filled",
        "0 orders doubled, lost or made up",
    ):
        assert words in told.stdout


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_drill_ends_as_it_has_to() -> None:
    told = run("--all", "--json")
    rows: list[dict[str, Any]] = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["name"] for row in rows] == [story.name for story in stories.STORIES]
    assert [(row["name"], row["wrong"], row["doubled"]) for row in rows if not row["ok"]] == []
    assert told.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C as a signal")
@pytest.mark.timeout(120)
def test_ctrl_c_ends_it_and_leaves_no_program_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app", "drill", "request-lost", "shown-late"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: len(list(tmp_path.glob("*/home/ledger.sqlite3"))) == 2, "two programs")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


async def _two_by_wire(d: Drill) -> None:
    """What a program that sends twice would do, at a venue that takes it."""
    d.exchange.rules.id_class = "E"
    await d.house.start()
    await d.buy()
    (order,) = await d.ended()
    headers = {"APCA-API-KEY-ID": KEYS["KEY_ID"], "APCA-API-SECRET-KEY": KEYS["SECRET_KEY"]}
    body = {"symbol": "AAPL", "side": "buy", "type": "market", "time_in_force": "day", "qty": "10"}
    body["client_order_id"] = order["client_order_id"]
    url = f"{d.exchange.url}/v2/orders"
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as answer:
        assert answer.status == 200


@pytest.mark.timeout(120)
def test_a_doubled_order_is_seen_named_and_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "STORIES", (Story("twice", "Sent twice", _two_by_wire),))
    told = CliRunner().invoke(onefill, ["drill"])
    assert told.exit_code == 1
    assert "FAIL  twice" in told.output
    assert "DOUBLED" in told.output
    assert "2 orders under 1 client order id" in told.output
