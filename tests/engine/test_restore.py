"""Back to a backup with a real engine, exchange and door: nothing of the lost time is placed again (H39)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.clock import SECOND, ManualClock
from app.engine import CommandRefused, Engine, sample
from app.engine.at_rest import preview_restore, restore
from app.ledger.lock import AlreadyRunning
from app.ledger.needs import needs
from app.ledger.reader import open_read_only, read
from app.ledger.store import LedgerRefused
from tests.engine.kit import rows, running, send, settled, until

MINUTE = 60 * SECOND
Fields = Mapping[str, Any]


def paper_orders(home: Path) -> int:
    connection = open_read_only(home / "paper.sqlite3")
    try:
        return int(read(connection, "SELECT count(*) AS n FROM orders")[0]["n"])
    finally:
        connection.close()


def go_back(home: Path, file: Path, clock: ManualClock, request_id: str = "r1") -> dict[str, Any]:
    return restore(
        home, file, why="the disk broke", actor="command:me", request_id=request_id, now=clock.now()
    )


async def back_up(engine: Engine, file: Path) -> None:
    await engine.command("backup", {"file": str(file)}, actor="command:me", request_id=f"b {file.name}")


async def meta(engine: Engine, name: str) -> str | None:
    found = await engine.reader.rows("SELECT value FROM meta WHERE name = ?", (name,))
    return found[0]["value"] if found else None


def signals(clock: ManualClock) -> dict[str, Fields]:
    """Alerts of every kind of time and key, as they were captured at this moment."""
    now_ms, open_ms = clock.now() // 1000, (clock.now() - MINUTE) // 1000
    return {
        "fired": {"fired_at": now_ms},
        "bar": {"bar_time": open_ms // 60_000 * 60_000, "interval": "1"},
        "bar without an interval": {"bar_time": open_ms // 60_000 * 60_000},
        "no time": {},
        "no time, no key": {"key": None, "symbol": "MSFT"},
    }


async def deliver(engine: Engine, captured: Mapping[str, Fields]) -> dict[str, tuple[int, str]]:
    found = {}
    for name, fields in captured.items():
        body = {"symbol": "AAPL", "action": "buy", "quantity": 1, "price": 10, "key": f"{name} 0123456789"}
        answer = await engine.send_sample(msgspec.json.encode({**body, **fields}))
        found[name] = (answer.status, answer.body.get("reason") or answer.body["status"])
    return found


async def traded(home: Path, clock: ManualClock, file: Path) -> dict[str, Fields]:
    """A home with one trade before its backup and five after it; returns what was sent after."""
    async with running(home, clock) as engine:
        await send(engine, "before", fired_at=clock.now() // 1000)
        await settled(engine, 1)
        await back_up(engine, file)
        captured = signals(clock)
        answers = await deliver(engine, captured)
        assert set(answers.values()) == {(200, "accepted")}
        await settled(engine, 6)
    return captured


async def test_h39_backup_trade_restore_resend_all_and_nothing_new_is_placed(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    captured = await traded(home, clock, tmp_path / "backup.sqlite3")
    placed = await asyncio.to_thread(paper_orders, home)
    clock.advance(SECOND)
    answer = await asyncio.to_thread(go_back, home, tmp_path / "backup.sqlite3", clock)
    assert (answer["signals"], answer["lost"]) == (1, {"signals": 5, "orders": 5})

    async with running(home, clock) as engine:
        # Halted, and nothing of the lost time gets in: by its time, or because it states none.
        assert engine.status().trading_state == "halted"
        refused = await deliver(engine, captured)
        assert set(refused.values()) == {(422, "before_watermark")}
        # The same when trading goes on.
        resumed = await engine.command("resume", {}, actor="command:me", request_id="1")
        assert resumed["without_time"] == "refused"
        assert await deliver(engine, captured) == refused

        # A person lifts it: what states no time is claimed, and every id is looked up before its first send.
        with pytest.raises(CommandRefused, match="needs a reason"):
            await engine.command("resume", {"accept_without_time": True}, actor="me", request_id="2")
        why = {"accept_without_time": True, "why": "the sender was off"}
        lifted = await engine.command("resume", why, actor="command:me", request_id="3")
        assert "without_time" not in lifted
        again = await deliver(engine, captured)
        assert {name for name, answered in again.items() if answered == (200, "accepted")} == {
            "no time",
            "no time, no key",
        }
        orders = await settled(engine, 3)
        # A key of its own names the same claim, and so the same id; a window's new epoch is a new signal.
        (known,) = (row for row in orders if row["state"] == "NEEDS_OPERATOR")
        assert known["reason"].startswith("COLLISION")
        assert known["reason"].endswith("placed after the backup")
        assert {row["symbol"] for row in orders if row["state"] == "DONE"} == {"AAPL", "MSFT"}
    # That of the window: what names neither key nor time cannot be told apart, and a person has said that
    # none of it can come back.
    assert await asyncio.to_thread(paper_orders, home) == placed + 1


async def test_h39_what_fires_after_the_restore_trades(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    await traded(home, clock, tmp_path / "backup.sqlite3")
    clock.advance(SECOND)
    await asyncio.to_thread(go_back, home, tmp_path / "backup.sqlite3", clock)
    clock.advance(SECOND)
    async with running(home, clock) as engine:
        await engine.command("resume", {}, actor="command:me", request_id="1")
        assert (await send(engine, "new", fired_at=clock.now() // 1000))[0] == 200
        assert [row["state"] for row in await settled(engine, 2)] == ["DONE", "DONE"]


async def test_h39_a_source_that_the_backup_does_not_know_gets_nothing_of_the_lost_time_in(
    tmp_path: Path,
) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "backup.sqlite3"
    async with running(home, clock) as engine:
        await back_up(engine, file)
    config = home / "config.toml"
    config.write_text(config.read_text() + '\n[[sources]]\nname = "later"\n')
    body = {"symbol": "AAPL", "action": "buy", "quantity": 1, "price": 10, "key": "later-0123456789"}
    body = {**body, "fired_at": clock.now() // 1000}

    async def post(engine: Engine) -> tuple[int, dict[str, Any]]:
        address = next(each.local for each in engine.hook_addresses() if each.source == "later")
        answer = await sample.post(address, msgspec.json.encode(body))
        return answer.status, answer.body

    async with running(home, clock) as engine:
        assert (await post(engine))[1]["status"] == "accepted"
        await settled(engine, 1)
    clock.advance(SECOND)
    await asyncio.to_thread(go_back, home, file, clock)
    async with running(home, clock) as engine:
        await engine.command("resume", {}, actor="me", request_id="r")
        status, answer = await post(engine)
        assert (status, answer["reason"]) == (422, "before_watermark")


async def test_h39_a_replay_that_the_backup_does_not_know_is_not_sent_a_second_time(tmp_path: Path) -> None:
    """In the backup the order is denied; the lost part of the ledger replayed it, and so would a person."""
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "backup.sqlite3"
    async with running(home, clock) as engine:
        await engine.command("halt", {}, actor="me", request_id="h")
        await send(engine, "waits", fired_at=clock.now() // 1000)
        (denied,) = await settled(engine, 1)
        assert denied["state"] == "DENIED"
        await back_up(engine, file)
        await engine.command("resume", {}, actor="me", request_id="r")
        await replay(engine, 1, clock)
        await settled(engine, 2)
    placed = await asyncio.to_thread(paper_orders, home)
    assert placed == 1
    await asyncio.to_thread(go_back, home, file, clock)
    async with running(home, clock) as engine:
        await engine.command("resume", {}, actor="me", request_id="r2")
        await replay(engine, 1, clock)

        async def needs_somebody() -> bool:
            return "NEEDS_OPERATOR" in [row["state"] for row in await rows(engine, "orders")]

        await until(engine, needs_somebody)
    assert await asyncio.to_thread(paper_orders, home) == placed


async def replay(engine: Engine, generation: int, clock: ManualClock) -> None:
    """A new generation of the first order, as a person's replay makes one."""
    writer = engine._writer
    assert writer is not None
    order = await engine.reader.rows("SELECT * FROM orders WHERE generation = ?", (generation,))
    new = {name: value for name, value in order[0].items() if name != "id"}
    new |= {"generation": generation + 1, "state": "PENDING", "reason": None, "client_order_id": None}
    new |= {"side": None, "quantity": None, "ord_status": None, "broker_order_id": None}
    new |= {"not_after": clock.now() + MINUTE, "created_at": clock.now(), "updated_at": clock.now()}
    new |= {"filled_quantity": "0", "average_price": None, "purpose": "undecided"}
    await writer.run(lambda tx: tx.insert("orders", new))


async def test_a_restore_is_refused_while_the_app_runs(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "backup.sqlite3"
    async with running(home, clock) as engine:
        await back_up(engine, file)
        with pytest.raises(AlreadyRunning):
            await asyncio.to_thread(go_back, home, file, clock)


async def test_h26_the_same_request_goes_back_once(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "backup.sqlite3"
    await traded(home, clock, file)
    first = await asyncio.to_thread(go_back, home, file, clock)
    async with running(home, clock) as engine:
        assert await meta(engine, "trading_state") == "halted"
        await engine.command("resume", {}, actor="me", request_id="1")
    again = await asyncio.to_thread(go_back, home, file, clock)
    assert again == first
    async with running(home, clock) as engine:
        assert await meta(engine, "trading_state") == "active"
    assert len(list(home.glob("ledger-replaced-*"))) == 1
    with pytest.raises(CommandRefused, match="already used"):
        await asyncio.to_thread(go_back, home, tmp_path / "other.sqlite3", clock)


async def test_a_restore_needs_a_reason_and_leaves_who_and_why(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "backup.sqlite3"
    await traded(home, clock, file)
    with pytest.raises(CommandRefused, match="needs a reason"):
        restore(home, file, why=" ", actor="me", request_id="x", now=clock.now())
    answer = await asyncio.to_thread(go_back, home, file, clock)
    async with running(home, clock) as engine:
        event = next(row for row in await rows(engine, "events") if row["what"] == "restored")
    assert event["actor"] == "command:me"
    assert '"why":"the disk broke"' in event["detail"]
    assert f'"backup":"{answer["head"]}"' in event["detail"]


async def test_a_foreign_ledger_and_the_one_in_use_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "other.sqlite3"
    async with running(home, clock):
        pass
    async with running(tmp_path / "other", clock) as engine:
        await back_up(engine, file)
    before = (home / "ledger.sqlite3").read_bytes()
    for path, reason in (
        (file, "another home"),
        (home / "ledger.sqlite3", "in use"),
        (home / "config.toml", "cannot be read as a ledger"),
    ):
        with pytest.raises(LedgerRefused, match=reason):
            await asyncio.to_thread(go_back, home, path, clock)
    with pytest.raises(LedgerRefused, match="another home"):
        await asyncio.to_thread(preview_restore, home, file)
    assert (home / "ledger.sqlite3").read_bytes() == before
    # Into a home that has none it goes.
    await asyncio.to_thread(go_back, tmp_path / "new", file, clock)
    assert (tmp_path / "new" / "ledger.sqlite3").exists()


async def test_h39_what_was_bought_in_the_lost_time_stands_in_needs_you_with_the_book_to_set(
    tmp_path: Path,
) -> None:
    """The broker holds it and the ledger does not know it: it may be ours, so nothing explains it away."""
    home, clock = tmp_path / "home", ManualClock()
    await traded(home, clock, tmp_path / "backup.sqlite3")
    await asyncio.to_thread(go_back, home, tmp_path / "backup.sqlite3", clock)
    async with running(home, clock) as engine:
        await engine.command("reconcile", {}, actor="command:me", request_id="1")
        found = await engine.reader.call(lambda connection: needs(connection, clock.now()))
        drifts = {
            need.subject: {action.command for action in need.actions}
            for need in found
            if need.kind == "drift"
        }
    assert "paper MSFT" in drifts
    assert all({"book", "reconcile"} <= offered for offered in drifts.values())
