"""Keeping house of the real program: over its control channel, under traffic, killed in the middle (H40)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.clock import SECOND, ManualClock, SystemClock
from tests.cli.kit import refused, run
from tests.crash.program import Program, alert, until
from tests.engine.kit import make_engine, settled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the control channel of Windows is a pipe")

DAY = 86_400 * SECOND
OLD_SIGNALS = 120
"""More than two batches of keys."""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with Program(tmp_path / "home") as running:
        running.start()
        yield running
        running.end()


def old_signals(home: Path) -> list[dict[str, Any]]:
    """A home whose program traded 100 days ago; the bodies that it was sent, as somebody captured them."""
    clock = ManualClock(SystemClock().now() - 100 * DAY)
    now = clock.now() // 1000
    sent: list[dict[str, Any]] = []

    async def trade() -> None:
        engine = make_engine(home, clock)
        await engine.start()
        try:
            for number in range(OLD_SIGNALS):
                body = alert(f"old-{number}", fired_at=now, bar_time=now // 60_000 * 60_000, interval="1")
                sent.append(body)
                assert (await engine.send_sample(msgspec.json.encode(body))).status == 200
            await settled(engine, OLD_SIGNALS)
        finally:
            await engine.stop()

    asyncio.run(trade())
    return sent


def keys_left(program: Program) -> int:
    return int(program.rows("SELECT count(*) AS n FROM claims WHERE forgotten_at IS NULL")[0]["n"])


def test_h40_killed_between_two_batches_of_a_purge_nothing_gets_in_again(tmp_path: Path) -> None:
    """Every captured body is sent again, with what was forgotten, and with what was not yet."""
    home = tmp_path / "home"
    sent = old_signals(home)
    purge = ("purge", "--bodies-older-than", "forever", "--keys-older-than", "90d", "--home", home)
    with Program(home) as program:
        program.start(failpoint="between_purge_batches=2")
        placed = len(program.exchange_orders())
        died = run(*purge, "--why", "a test", "--yes")
        assert died.code == 1
        program.wait_killed()
        assert 0 < keys_left(program) < OLD_SIGNALS

        program.start()
        answers = [program.post(body, source="test") for body in sent]
        known = [answer for answer in answers if (answer.status, answer.word) == (200, "duplicate")]
        refused_ones = [answer for answer in answers if answer.body.get("reason") == "before_watermark"]
        assert len(known) == keys_left(program)
        assert len(refused_ones) == OLD_SIGNALS - len(known)
        assert {answer.status for answer in refused_ones} == {422}

        # Those that came again just now are kept.
        counted = run(*purge, "--dry-run", "--json").objects[0]
        done = run(*purge, "--why", "again", "--yes", "--json").objects[0]
        assert (counted["keys"], done["keys"], done["keys_kept"]) == (0, 0, len(known))
        again = [program.post(body, source="test") for body in sent]
        assert [(one.status, one.word) for one in again] == [(one.status, one.word) for one in answers]
        program.end()
        assert len(program.exchange_orders()) == placed


def test_h40_after_a_whole_purge_every_captured_body_is_before_the_watermark(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sent = old_signals(home)
    with Program(home) as program:
        program.start()
        placed = len(program.exchange_orders())
        arguments = ("--keys-older-than", "90d", "--home", home, "--json")
        counted = run("purge", "--dry-run", *arguments).objects[0]
        done = run("purge", "--why", "a test", "--yes", *arguments).objects[0]
        assert (counted["bodies"], counted["keys"]) == (OLD_SIGNALS, OLD_SIGNALS)
        assert done == {
            **counted,
            "dry_run": False,
            "bodies_before": done["bodies_before"],
            "keys_before": done["keys_before"],
        }
        for body in sent:
            answer = program.post(body, source="test")
            assert (answer.status, answer.body["reason"]) == (422, "before_watermark")
        # A new signal under an old key is a signal of its own, with an id of its own (HOLES H12).
        now = SystemClock().now() // 1000
        again = {**sent[0], "fired_at": now, "bar_time": now // 60_000 * 60_000}
        assert program.post(again, source="test").word == "accepted"
        orders = until(lambda: ended(program, OLD_SIGNALS + 1), "the new order")
        assert orders[-1]["state"] == "DONE"
        ids = [row["client_order_id"] for row in orders if row["client_order_id"] is not None]
        assert orders[-1]["client_order_id"] in ids
        assert len(set(ids)) == len(ids)
        program.end()
        assert len(program.exchange_orders()) == placed + 1


def ended(program: Program, count: int) -> list[dict[str, Any]] | None:
    rows = program.rows("SELECT * FROM v_orders ORDER BY number")
    return rows if len(rows) == count and rows[-1]["state"] in ("DONE", "NEEDS_OPERATOR") else None


def test_a_purge_goes_on_beside_traffic(program: Program) -> None:
    for number in range(5):
        assert program.post(alert(str(number)), source="test").status == 200
    program.settled_orders(5)
    done = run(
        "purge", "--bodies-older-than", "0s", "--why", "room", "--yes", "--home", program.home, "--json"
    )
    assert done.objects[0]["bodies"] == 5
    assert program.post(alert("after"), source="test").status == 200
    assert [row["n"] for row in program.rows("SELECT count(*) AS n FROM bodies")] == [1]


def test_a_backup_of_the_running_app_and_a_restore_that_has_to_wait(program: Program, tmp_path: Path) -> None:
    program.post(alert("one"), source="test")
    program.settled_orders(1)
    (made,) = run("backup", tmp_path / "b.sqlite3", "--home", program.home, "--json").objects
    assert (made["signals"], made["orders"]) == (1, 1)
    restore = ("restore", tmp_path / "b.sqlite3", "--why", "x", "--yes", "--home", program.home)
    assert "is running" in refused(run(*restore))
    assert run("export", tmp_path / "all.jsonl", "--home", program.home).code == 0
    program.end()
    assert run(*restore).code == 0
    program.start()
    assert program.status()["trading_state"] == "halted"
    assert program.post(alert("one"), source="test").word == "duplicate"
    assert program.post(alert("two"), source="test").body["reason"] == "before_watermark"


def test_a_token_is_rotated_without_a_restart(program: Program) -> None:
    old = run("url", "test", "--home", program.home).lines[0].split(" ")[1]
    done = run("source", "rotate", "test", "--home", program.home)
    assert "taken now" in done.out
    new = run("url", "test", "--home", program.home).lines[0].split(" ")[1]
    assert new != old
    # The kit reads the token that is kept now.
    assert program.post(alert("by the new address"), source="test").word == "accepted"
    value = "x" * 48
    assert run("secret", "set", "source.test.token", "--home", program.home, stdin=value).code == 0
    assert program.post(alert("by the one that was set"), source="test").word == "accepted"
    for line in (program.home / "onefill.log").read_text().splitlines():
        assert value not in line
        assert new.rpartition("/")[2] not in line
