"""A person's requests: once each, checked, audited, and the brake that works before the disk does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import apsw
import pytest

from app.clock import SystemClock
from app.engine import CommandRefused, Engine
from app.engine.commands import on_the_ledger, once
from app.ledger.lock import AlreadyRunning
from app.ledger.store import open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer
from tests.engine.kit import rows, running, send, settled, until, word


async def _events(engine: Engine) -> list[dict[str, object]]:
    return [row for row in await rows(engine, "events") if row["what"] == "trading state set"]


async def test_halt_denies_and_resume_lets_go_and_nothing_is_kept_for_it(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        answer = await engine.command("halt", {}, actor="button", request_id="1")
        assert answer == {
            "trading_state": "halted",
            "was": "active",
            "in_flight": [],
            "resting": [],
            "waiting": [],
        }
        assert word(engine.status(), "trading") == engine.status().trading_state == "halted"
        assert (await send(engine, "one"))[0] == 200
        (denied,) = await settled(engine, 1)
        assert denied["reason"].startswith("TRADING_HALTED")
        await engine.command("resume", {}, actor="button", request_id="2")
        await send(engine, "two")
        assert [row["state"] for row in await settled(engine, 2)] == ["DONE", "DENIED"]
        assert [event["actor"] for event in await _events(engine)] == ["button", "button"]


async def test_h30_the_answer_names_what_a_halt_cannot_stop(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await send(engine, "resting", type="limit", limit_price=5, price=10)

        async def is_working() -> bool:
            return [row["state"] for row in await rows(engine, "orders")] == ["WORKING"]

        await until(engine, is_working)
        answer = await engine.command("halt", {}, actor="button", request_id="1")
        assert answer["resting"] == ["O1"]


async def test_exits_only_lets_exits_out(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await send(engine, "in")
        await settled(engine, 1)
        answer = await engine.command("halt", {"exits_only": True}, actor="button", request_id="1")
        assert answer["trading_state"] == "exits_only"
        await send(engine, "more")
        await settled(engine, 2)
        await send(engine, "out", action="exit")
        states = [(row["action"], row["state"]) for row in await settled(engine, 3)]
        assert states == [("exit", "DONE"), ("buy", "DENIED"), ("buy", "DONE")]


async def test_h26_the_same_request_acts_once_and_answers_the_same(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        answers = await asyncio.gather(
            *(engine.command("halt", {}, actor="button", request_id="1") for _ in range(5))
        )
        assert answers == [answers[0]] * 5
        assert len(await _events(engine)) == 1
        await engine.command("resume", {}, actor="button", request_id="2")
        # An old request that comes again gives its old answer, and does not halt anew.
        assert await engine.command("halt", {}, actor="button", request_id="1") == answers[0]
        assert engine.status().trading_state == "active"
        assert len(await _events(engine)) == 2
    async with running(tmp_path / "home") as engine:
        assert await engine.command("halt", {}, actor="button", request_id="1") == answers[0]
        assert engine.status().trading_state == "active"


async def test_h26_an_id_is_not_used_for_two_requests(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await engine.command("halt", {}, actor="button", request_id="1")
        with pytest.raises(CommandRefused, match="already used"):
            await engine.command("resume", {}, actor="button", request_id="1")
        with pytest.raises(CommandRefused, match="already used"):
            await engine.command("halt", {"exits_only": True}, actor="button", request_id="1")
        assert engine.status().trading_state == "halted"


@pytest.mark.parametrize(
    ("name", "arguments", "request_id"),
    [
        ("sell everything", {}, "1"),
        ("halt", {"exits": True}, "1"),
        ("halt", {"exits_only": "yes"}, "1"),
        ("resume", {"exits_only": True}, "1"),
        ("halt", {}, ""),
        ("halt", {}, "x" * 201),
        ("reconcile", {"account": "nobody"}, "1"),
        ("reconcile", {"account": 7}, "1"),
        ("reconcile", {"accounts": "paper"}, "1"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, name: str, arguments: dict[str, object], request_id: str
) -> None:
    async with running(tmp_path / "home") as engine:
        with pytest.raises(CommandRefused) as refused:
            await engine.command(name, arguments, actor="button", request_id=request_id)
        assert "\n" not in str(refused.value)
        assert engine.status().trading_state == "active"


async def test_reconcile_reports_and_the_same_request_is_one_pass(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await send(engine, "one")
        await settled(engine, 1)
        first, second = await asyncio.gather(
            *(engine.command("reconcile", {}, actor="button", request_id="1") for _ in range(2))
        )
        assert first == second
        assert first == await engine.command("reconcile", {}, actor="button", request_id="1")
        (report,) = first["reports"]
        assert (report["account"], report["result"]) == ("paper", "OK")
        assert report["positions"] == [{"symbol": "AAPL", "expected": "1", "broker": "1", "drift": "none"}]
        causes = [row["cause"] for row in await rows(engine, "reconciliations")]
        assert causes == ["button", "start"]


async def test_a_halt_brakes_although_the_ledger_cannot_keep_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        blocker = apsw.Connection(str(home / "ledger.sqlite3"))
        blocker.execute("BEGIN IMMEDIATE").fetchall()
        halting = engine._door_tasks.start(
            "halting", engine.command("halt", {}, actor="button", request_id="1")
        )
        await until(engine, lambda: engine.status().trading_state == "halted")
        assert not halting.done()
        blocker.execute("ROLLBACK").fetchall()
        blocker.close()
        assert (await halting)["trading_state"] == "halted"


async def test_on_the_ledger_halts_without_an_app_and_only_without(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def halt(request_id: str) -> str:
        now = SystemClock().now()
        answer = on_the_ledger(home, "halt", {}, actor="me", request_id=request_id, now=now)
        return str(answer["trading_state"])

    loop = asyncio.get_running_loop()
    with pytest.raises(CommandRefused, match="no ledger"):
        await loop.run_in_executor(None, halt, "0")
    assert not home.exists()
    async with running(home):
        with pytest.raises(AlreadyRunning):
            await loop.run_in_executor(None, halt, "1")
    assert await loop.run_in_executor(None, halt, "2") == "halted"
    async with running(home) as engine:
        assert engine.status().trading_state == "halted"
        await engine.command("resume", {}, actor="button", request_id="3")
    # The request id counts here too.
    assert await loop.run_in_executor(None, halt, "2") == "halted"
    async with running(home) as engine:
        assert engine.status().trading_state == "active"


async def test_the_health_probe_says_halted_and_no_more(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{engine.status().port}/healthz"
        for name, expected in (("halt", "halted"), ("resume", "ok")):
            await engine.command(name, {}, actor="button", request_id=name)
            async with session.get(address) as response:
                assert await response.json() == {"status": expected}


@pytest.mark.blocking_allowed("the ledger is opened here")
async def test_h26_the_answer_is_kept_only_with_its_effect(tmp_path: Path) -> None:
    def fail(_: Transaction) -> dict[str, object]:
        raise CommandRefused("not now")

    clock = SystemClock()
    writer = Writer(open_ledger(tmp_path, clock.now()), clock, lambda _: None)
    with pytest.raises(CommandRefused):
        await writer.run(lambda tx: once(tx, "1", "halt", {}, 0, fail))
    assert await writer.run(lambda tx: once(tx, "1", "halt", {}, 0, lambda _: {"done": 1})) == {"done": 1}
    assert await writer.run(lambda tx: once(tx, "1", "halt", {}, 0, fail)) == {"done": 1}
    await writer.close()
