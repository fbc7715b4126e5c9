"""The daily backup, retention, and what a person asks for, of a running engine and of a home at rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.clock import SECOND, ManualClock
from app.engine import CommandRefused, Engine
from app.engine import upkeep as upkeep_module
from app.engine.at_rest import at_rest
from app.engine.upkeep import Upkeep
from app.ledger import backup as backups
from app.ledger.copying import FOLDER, CopyFailed
from app.ledger.lock import AlreadyRunning
from app.secrets import Secrets
from tests.engine.kit import rows, running, send, settled, until, word

DAY = 86_400 * SECOND
HOUR = 3_600 * SECOND
EVERYTHING = {"bodies_older_than": 0, "keys_older_than": 0}


def of(engine: Engine) -> Upkeep:
    assert engine._upkeep is not None
    return engine._upkeep


async def daily(home: Path) -> list[str]:
    def names() -> list[str]:
        folder = home / FOLDER
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    return await asyncio.to_thread(names)


async def ask(engine: Engine, name: str, arguments: dict[str, Any], request_id: str = "r") -> dict[str, Any]:
    return await engine.command(name, arguments, actor="command:me", request_id=request_id)


async def trade(engine: Engine, clock: ManualClock, *keys: str) -> None:
    """Signals that state their time, filled."""
    before = len(await rows(engine, "orders"))
    for key in keys:
        assert (await send(engine, key, fired_at=clock.now() // 1000))[0] == 200
    await settled(engine, before + len(keys))


async def events(engine: Engine, *whats: str) -> list[dict[str, Any]]:
    return [row for row in reversed(await rows(engine, "events")) if row["what"] in whats]


# ------------------------------------------------------------------------------------------- every day


async def test_a_backup_a_day_and_the_oldest_go(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        for day in range(9):
            await of(engine).look()
            clock.advance(23 * HOUR)
            await of(engine).look()
            assert len(await daily(home)) == min(day + 1, 7)
            clock.advance(HOUR)
        made = await events(engine, "backup made")
    assert len(made) == 9
    assert {event["actor"] for event in made} == {"onefill"}


async def test_h23_the_event_names_the_head_that_the_files_name_carries(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        await of(engine).look()
        (event,) = await events(engine, "backup made")
        (name,) = await daily(home)
        head = f"E{int(event['id'][1:]) - 1}-"
        assert head in name
        assert f'"file":"{name}"' in event["detail"]
        assert f'"head":"{head}' in event["detail"]


async def test_a_new_start_on_the_same_day_makes_none(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    for _ in range(2):
        async with running(home, clock) as engine:
            await of(engine).look()
        clock.advance(HOUR)
    assert len(await daily(home)) == 1


async def test_the_first_look_is_a_minute_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "BEAT", 0.001)
    home, clock = tmp_path / "home", ManualClock()
    looked = asyncio.Event()

    async def look(_self: Upkeep) -> None:
        looked.set()

    monkeypatch.setattr(Upkeep, "look", look)
    async with running(home, clock):
        clock.advance(59 * SECOND)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not looked.is_set()
        clock.advance(SECOND)
        async with asyncio.timeout(30):
            await looked.wait()


async def test_a_clock_set_back_makes_one_backup_a_day_and_not_one_a_look(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await of(engine).look()
        clock.step(-400 * DAY)
        for _ in range(3):
            clock.advance(HOUR)
            await of(engine).look()
        assert len(await daily(home)) == 1
        clock.advance(DAY)
        await of(engine).look()
        await of(engine).look()
        assert len(await daily(home)) == 2


async def test_a_backup_that_fails_is_a_fact_until_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, clock = tmp_path / "home", ManualClock()

    def full(*_arguments: Any, **_named: Any) -> Any:
        raise CopyFailed("the disk is full")

    async with running(home, clock) as engine:
        with monkeypatch.context() as broken:
            broken.setattr(backups, "copy_ledger", full)
            await of(engine).look()
        (fact,) = (fact for fact in engine.status().facts if fact.name == "backup")
        assert (fact.word, fact.level) == ("failing", "warning")
        assert "the disk is full" in fact.reason
        assert (await send(engine, "goes on"))[0] == 200
        await of(engine).look()
        assert word(engine.status(), "backup") == ""


async def test_a_stop_breaks_a_copy_off_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        of(engine)._stopping.set()
        with pytest.raises(CommandRefused, match="stopping"):
            await ask(engine, "backup", {"file": str(tmp_path / "copy.sqlite3")})
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]


async def test_bodies_go_by_themselves_after_their_time_and_keys_never(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one", "two")
        clock.advance(89 * DAY)
        await trade(engine, clock, "young")
        await of(engine).look()
        assert await events(engine, "purge begun") == []
        clock.advance(2 * DAY)
        await of(engine).look()
        await of(engine).look()
        begun, purged = await events(engine, "purge begun", "purged")
        assert (begun["actor"], purged["actor"]) == ("onefill", "onefill")
        assert purged["detail"] == '{"bodies":2,"keys":0}'
        left = await engine.reader.rows("SELECT delivery_id FROM bodies")
        assert [row["delivery_id"] for row in left] == [3]
        assert (await send(engine, "one", fired_at=clock.now() // 1000))[1]["status"] != "accepted"


async def test_keys_go_by_themselves_where_the_settings_say_so(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    home.mkdir()
    (home / "config.toml").write_text('[retention]\nbodies = "forever"\nkeys = "32d"\n')
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        clock.advance(33 * DAY)
        await of(engine).look()
        (purged,) = await events(engine, "purged")
        assert purged["detail"] == '{"bodies":0,"keys":1}'


@pytest.mark.parametrize("step", [400 * DAY, -400 * DAY])
async def test_h32_a_clock_that_stepped_purges_nothing_by_itself(tmp_path: Path, step: int) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        watch = engine._watch
        assert watch is not None
        clock.step(step)
        watch._look_at_clock()
        assert watch.jump
        await of(engine).look()
        assert await events(engine, "purge begun") == []


# ------------------------------------------------------------------------------------- as a person asks


async def test_a_dry_run_counts_what_the_purge_then_takes(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one", "two")
        await send(engine, "no time")
        await settled(engine, 3)
        await send(engine, "resting", type="limit", limit_price=5, fired_at=clock.now() // 1000)

        async def rests() -> bool:
            return "WORKING" in [row["state"] for row in await rows(engine, "orders")]

        await until(engine, rests)
        clock.advance(HOUR)
        counted = await ask(engine, "purge", {**EVERYTHING, "dry_run": True})
        assert await events(engine, "purge begun") == []
        done = await ask(engine, "purge", {**EVERYTHING, "why": "room"})
    assert done == {**counted, "dry_run": False}
    assert (done["bodies"], done["bodies_kept"], done["keys"], done["keys_kept"]) == (3, 1, 2, 2)
    assert done["keys_by_source"] == {"test": 2}


async def test_the_settings_say_how_old_bodies_may_get_where_nobody_else_does(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        clock.advance(91 * DAY)
        counted = await ask(engine, "purge", {"dry_run": True})
        assert (counted["bodies"], counted["keys"], counted["keys_before"]) == (1, 0, None)
        kept = await ask(engine, "purge", {"bodies_older_than": "forever", "dry_run": True})
        assert (kept["bodies"], kept["bodies_before"]) == (0, None)


async def test_ages_inside_the_time_in_which_signals_are_fresh_are_warned_of(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        clock.advance(HOUR)
        warned = await ask(engine, "purge", {"keys_older_than": 60 * SECOND, "dry_run": True})
        assert "on their way" in warned["warning"]
        calm = await ask(engine, "purge", {"keys_older_than": 20 * 60 * SECOND, "dry_run": True})
        assert calm["keys"] == 1
        assert "longer than that" in calm["warning"]
        clock.advance(33 * DAY)
        calm = await ask(engine, "purge", {"keys_older_than": 32 * DAY, "dry_run": True})
        assert (calm["keys"], calm["warning"]) == (1, "")


async def test_h26_the_same_purge_again_is_the_same_answer(tmp_path: Path) -> None:
    home, clock = tmp_path / "home", ManualClock()
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        clock.advance(HOUR)
        both = await asyncio.gather(
            *(ask(engine, "purge", {**EVERYTHING, "why": "room"}, "same") for _ in range(2))
        )
        clock.advance(SECOND)
        await trade(engine, clock, "two")
        clock.advance(HOUR)
        third = await ask(engine, "purge", {**EVERYTHING, "why": "room"}, "same")
        assert both[0] == both[1] == third
        assert third["keys"] == 1
        with pytest.raises(CommandRefused, match="already used"):
            await ask(engine, "purge", {**EVERYTHING, "why": "another"}, "same")
        assert len(await events(engine, "purged")) == 1


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("purge", {}, "needs a reason"),
        ("purge", {"why": "  "}, "needs a reason"),
        ("purge", {"why": "x", "keys_older_than": -1}, "not negative"),
        ("purge", {"why": "x", "bodies_older_than": "90d"}, "not a request"),
        ("purge", {"why": "x", "orders": 1}, "not a request"),
        ("backup", {"file": "somewhere.sqlite3"}, "whole path"),
        ("backup", {}, "not a request"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, name: str, arguments: dict[str, Any], reason: str
) -> None:
    async with running(tmp_path / "home", ManualClock()) as engine:
        with pytest.raises(CommandRefused, match=reason):
            await ask(engine, name, arguments)


async def test_a_backup_into_a_file_is_made_once_a_request(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "copy.sqlite3"
    async with running(home, clock) as engine:
        await trade(engine, clock, "one")
        made = await ask(engine, "backup", {"file": str(file)}, "b")
        assert (made["signals"], made["orders"]) == (1, 1)
        assert await ask(engine, "backup", {"file": str(file)}, "b") == made
        with pytest.raises(CommandRefused, match="there already"):
            await ask(engine, "backup", {"file": str(file)}, "c")
        assert len(await events(engine, "backup made")) == 1


# ------------------------------------------------------------------------------------------- at rest


def command_at_rest(home: Path, clock: ManualClock, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return at_rest(
        home,
        name,
        arguments,
        actor="command:me",
        request_id=f"{name} at rest",
        clock=clock,
        make_secrets=lambda: Secrets(home, {}, keyring=None),
    )


async def test_the_same_commands_at_rest(tmp_path: Path) -> None:
    home, clock, file = tmp_path / "home", ManualClock(), tmp_path / "copy.sqlite3"
    async with running(home, clock) as engine:
        await trade(engine, clock, "one", "two")
        with pytest.raises(AlreadyRunning):
            await asyncio.to_thread(command_at_rest, home, clock, "purge", {**EVERYTHING, "why": "room"})
    clock.advance(HOUR)
    made = await asyncio.to_thread(command_at_rest, home, clock, "backup", {"file": str(file)})
    assert (made["signals"], file.exists()) == (2, True)
    for _ in range(2):
        done = await asyncio.to_thread(command_at_rest, home, clock, "purge", {**EVERYTHING, "why": "room"})
        assert (done["bodies"], done["keys"]) == (2, 2)
    async with running(home, clock) as engine:
        assert len(await events(engine, "purged")) == 1
        assert (await send(engine, "one", fired_at=(clock.now() - HOUR) // 1000))[0] == 422


async def test_at_rest_there_must_be_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(CommandRefused, match="start Onefill first"):
        await asyncio.to_thread(command_at_rest, tmp_path / "new", ManualClock(), "purge", {"why": "x"})
    assert not (tmp_path / "new").exists()
