"""A person's decisions through the engine: one path for buttons and commands, with an app and without."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from app.clock import SystemClock
from app.domain.order import State
from app.engine import CommandRefused, Engine
from app.engine.operator_at_rest import ask_the_broker
from app.engine.operator_commands import COMMANDS
from app.ledger import orders
from app.ledger.needs import needs
from app.secrets import Secrets
from tests.engine.kit import make_engine, rows, running, send, settled, until


async def do(engine: Engine, name: str, request_id: str = "1", **arguments: Any) -> dict[str, Any]:
    arguments = {"why": "I looked", **arguments}
    return await engine.command(name, arguments, actor="button", request_id=request_id)


async def resting(engine: Engine, key: str = "resting") -> None:
    await send(engine, key, type="limit", limit_price=5, price=10)
    await until(engine, lambda: _states(engine, ["WORKING"]))


async def _states(engine: Engine, wanted: list[str]) -> bool:
    return [row["state"] for row in await rows(engine, "orders")] == wanted


async def to_a_person(engine: Engine, number: int = 1) -> None:
    """As if the broker had shown something that only a person can judge."""
    assert engine._writer is not None
    await engine._writer.run(
        lambda tx: orders.move(
            tx, orders.get(tx, number), State.NEEDS_OPERATOR, at=1, actor="test", reason="TEST"
        )
    )


def exchange(home: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{home / 'paper.sqlite3'}?mode=ro", uri=True)
    try:
        return [f"{side} {status}" for side, status in connection.execute("SELECT side, status FROM orders")]
    finally:
        connection.close()


async def at_rest(home: Path, name: str, request_id: str = "1", **arguments: Any) -> dict[str, Any]:
    """The command with no app running, on a thread as the command line has it."""

    def ask() -> dict[str, Any]:
        return ask_the_broker(
            home,
            name,
            arguments,
            actor="command:me",
            request_id=request_id,
            clock=SystemClock(),
            make_secrets=lambda: Secrets(home, {}, keyring=None),
        )

    return await asyncio.get_running_loop().run_in_executor(None, ask)


# --------------------------------------------------------------------------------------------- with an app


async def test_h26_a_press_acts_once_also_over_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "in")
        await settled(engine, 1)
        answers = await asyncio.gather(
            *(do(engine, "close", account="paper", symbol="AAPL") for _ in range(4))
        )
        assert answers == [answers[0]] * 4
        assert [one["order"] for one in answers[0]["orders"]] == ["O2"]
        await settled(engine, 2)
    async with running(home) as engine:
        assert await do(engine, "close", account="paper", symbol="AAPL") == answers[0]
        with pytest.raises(CommandRefused, match="already used"):
            await do(engine, "close", account="paper", symbol="MSFT")
        with pytest.raises(CommandRefused, match="already used"):
            await do(engine, "flatten", account="paper")
    assert exchange(home) == ["buy Filled", "sell Filled"]


async def test_h26_what_was_seen_may_differ_when_a_press_comes_again(tmp_path: Path) -> None:
    """Whoever asks again sees what the first time has done, and still gets its answer."""
    async with running(tmp_path / "home") as engine:
        await resting(engine)
        first = await do(engine, "cancel", order="O1", seen="WORKING")
        await settled(engine, 1)
        assert await do(engine, "cancel", order="O1", seen="DONE") == first


async def test_h26_a_refused_press_is_not_kept_and_may_come_again(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        with pytest.raises(CommandRefused, match="nothing of ours is open on AAPL"):
            await do(engine, "close", account="paper", symbol="AAPL")
        await send(engine, "in")
        await settled(engine, 1)
        answer = await do(engine, "close", account="paper", symbol="AAPL")
        assert len(answer["orders"]) == 1


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_every_decision_refuses_what_it_does_not_know_in_one_line(tmp_path: Path, name: str) -> None:
    async with running(tmp_path / "home") as engine:
        with pytest.raises(CommandRefused, match="not a request of this command") as refused:
            await do(engine, name, nonsense=True)
        assert "\n" not in str(refused.value)


async def test_what_needs_a_person_is_counted_in_the_status(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await send(engine, "in")
        await settled(engine, 1)
        await engine.command("halt", {}, actor="button", request_id="halt")
        await send(engine, "out", action="exit")
        await until(engine, lambda: engine.status().counts["needs"] == 1)
        await do(engine, "dismiss", "put away", ids=["O2"])
        await until(engine, lambda: engine.status().counts["needs"] == 0)


@pytest.mark.parametrize(
    ("body", "is_exit"),
    [
        (b'{"symbol": "AAPL", "action": "exit", "leverage": 5}', True),
        (b'{"symbol": "AAPL", "action": "exit", "key": ,}', True),
        (b'[{"symbol": "AAPL", "action": "exit"}]', True),
        (b"order sell @ 1 filled on AAPL. New strategy position is 0", True),
        (b'{"symbol": "AAPL", "action": "buy", "close": 10, "leverage": 5}', False),
        (b'{"symbol": "AAPL", "action": "buy", "close": 10, }', False),
        (b"order buy @ 1 filled on AAPL. New strategy position is 0.5", False),
    ],
)
async def test_an_alert_that_was_refused_and_reads_as_an_exit_needs_a_person(
    tmp_path: Path, body: bytes, is_exit: bool
) -> None:
    async with running(tmp_path / "home") as engine:
        answer = await engine.send_sample(body)
        assert answer.status == 400
        now = engine.clock.now()
        found = await engine.reader.call(lambda db: needs(db, now))
        assert [(need.severity, need.kind, need.subject) for need in found] == (
            [("critical", "exit_refused", "D1")] if is_exit else []
        )


# ---------------------------------------------------------------------------------------- with no app running


async def test_h28_with_no_app_running_the_broker_is_asked_and_nothing_is_sent(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await resting(engine)
        await to_a_person(engine)
        await do(engine, "cancel", "0", order="O1", seen="NEEDS_OPERATOR")
        await send(engine, "out", action="exit")
        await until(engine, lambda: _states(engine, ["PENDING", "NEEDS_OPERATOR"]))
    found = await at_rest(home, "resolve", order="O1", answer="look_again", why="I looked")
    assert (found["was"], found["state"]) == ("NEEDS_OPERATOR", "WORKING")
    again = await at_rest(home, "resolve", order="O1", answer="look_again", why="I looked")
    assert again == found
    # The exit still waits, and the cancel that was asked for was not carried out from here.
    assert exchange(home) == ["buy New"]
    async with running(home) as engine:
        await settled(engine, 2)
        assert exchange(home) == ["buy Canceled"]
        assert await do(engine, "resolve", "1", order="O1", answer="look_again") == found


async def test_reconcile_with_no_app_running_is_a_whole_report(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "in")
        await settled(engine, 1)
    found = await at_rest(home, "reconcile", account=None)
    (report,) = found["reports"]
    assert (report["result"], report["cause"]) == ("OK", "button")
    assert report["positions"] == [{"symbol": "AAPL", "expected": "1", "broker": "1", "drift": "none"}]
    assert await at_rest(home, "reconcile", account=None) == found


@pytest.mark.parametrize("name", sorted({*COMMANDS, "halt"} - {"resolve"}))
async def test_h28_nothing_else_is_done_with_no_app_running(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    async with running(home):
        pass
    with pytest.raises(CommandRefused, match=f"{name} needs one"):
        await at_rest(home, name)


async def test_a_home_without_a_ledger_is_not_made_for_a_question(tmp_path: Path) -> None:
    with pytest.raises(CommandRefused, match="no ledger"):
        await at_rest(tmp_path / "home", "reconcile", account=None)
    assert not (tmp_path / "home").exists()


async def test_while_an_app_runs_no_second_engine_asks(tmp_path: Path) -> None:
    from app.engine import StartRefused

    home = tmp_path / "home"
    async with running(home):
        with pytest.raises(StartRefused):
            await at_rest(home, "reconcile", account=None)


async def test_an_engine_that_does_not_send_has_no_door(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home):
        pass
    engine = Engine(home, secrets=lambda: Secrets(home, {}, keyring=None), sends=False)
    await engine.start()
    try:
        status = engine.status()
        assert (status.state, status.port) == ("running", None)
        assert engine.hook_addresses() == []
    finally:
        await engine.stop()
    # A real start afterwards finds everything as it was.
    again = make_engine(home)
    await again.start()
    await again.stop()
