"""Start and stop: what is refused with one line, what is left behind (nothing), what a restart finds."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import apsw
import pytest

from app.engine import CommandRefused, Engine, StartRefused
from app.ledger.lock import InstanceLock
from app.secrets import Secrets
from tests.engine.kit import make_engine, rows, running, send, settled, until, word


async def test_a_signal_becomes_one_filled_order_and_its_resend_a_duplicate(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        first = await send(engine, "one")
        (order,) = await settled(engine, 1)
        again = await send(engine, "one")
    assert (first[0], first[1]["status"]) == (200, "accepted")
    assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
    assert (again[0], again[1]["status"]) == (200, "duplicate")
    assert again[1]["outcome"]["orders"][0]["ord_status"] == "Filled"


async def test_the_home_is_made_for_its_user_alone(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    async with running(home):
        pass
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


async def test_a_stop_leaves_no_lock_and_no_log_to_copy(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "one")
    assert engine.status().state == "stopping"
    wal = home / "ledger.sqlite3-wal"
    assert not wal.exists() or wal.stat().st_size == 0
    lock = InstanceLock(home / "onefill.lock")
    lock.acquire()
    lock.release()


async def test_stop_may_be_called_twice_and_after_a_refused_start(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await asyncio.gather(engine.stop(), engine.stop())
    await engine.stop()
    refused = make_engine(tmp_path / "bad")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.toml").write_text("[listener]\nport = 'x'\n")
    with pytest.raises(StartRefused):
        await refused.start()
    await refused.stop()


async def test_a_second_engine_on_the_same_home_is_refused_with_one_line(tmp_path: Path) -> None:
    async with running(tmp_path / "home"):
        with pytest.raises(StartRefused, match="another Onefill is running") as refused:
            await make_engine(tmp_path / "home").start()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("[listener]\nport = 99999\n", "config.toml:2"),
        ("[nonsense]\n", "nonsense"),
        ('[[sources]]\nname = "tv"\nauth = "body"\n', "no secret"),
        ('[[sources]]\nname = "tv"\naccounts = ["none"]\n', "no account"),
        ("not toml at all", "config.toml"),
    ],
)
async def test_what_is_wrong_with_the_settings_stops_the_start_with_one_line(
    tmp_path: Path, config: str, reason: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(config)
    with pytest.raises(StartRefused) as refused:
        await make_engine(home).start()
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
    # Nothing was held back: the mistake repaired, it starts.
    (home / "config.toml").write_text("")
    async with running(home):
        pass


async def test_a_damaged_or_missing_ledger_stops_the_start_and_is_not_made_anew(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home):
        pass
    kept = (home / "ledger.sqlite3").read_bytes()
    (home / "ledger.sqlite3").unlink()
    with pytest.raises(StartRefused, match="missing"):
        await make_engine(home).start()
    assert not (home / "ledger.sqlite3").exists()
    (home / "ledger.sqlite3").write_bytes(b"not a ledger" * 1000)
    with pytest.raises(StartRefused, match="kept as it is"):
        await make_engine(home).start()
    (home / "ledger.sqlite3").write_bytes(kept)
    async with running(home):
        pass


async def test_a_port_that_is_taken_stops_the_start_and_lets_go_of_everything(tmp_path: Path) -> None:
    async with running(tmp_path / "one") as first:
        home = tmp_path / "two"
        second = Engine(home, port=first.status().port, secrets=lambda: Secrets(home, {}, keyring=None))
        with pytest.raises(StartRefused, match="taken by another program"):
            await second.start()
    async with running(home):
        pass


async def test_a_changed_source_id_stops_the_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        source_id = engine.settings.sources[0].id
    config = home / "config.toml"
    assert source_id in config.read_text()
    config.write_text(config.read_text().replace(source_id, "another"))
    with pytest.raises(StartRefused, match="id of"):
        await make_engine(home).start()


async def test_a_lost_source_id_is_filled_in_from_the_ledger(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        source_id = engine.settings.sources[0].id
    config = home / "config.toml"
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if source_id not in line))
    async with running(home) as engine:
        assert engine.settings.sources[0].id == source_id
    assert source_id in config.read_text()


async def test_a_command_before_the_start_and_after_the_stop_is_refused(tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "home")
    with pytest.raises(CommandRefused, match="starting"):
        await engine.command("halt", {}, actor="test", request_id="1")
    await engine.start()
    await engine.stop()
    with pytest.raises(CommandRefused, match="stopping"):
        await engine.command("halt", {}, actor="test", request_id="1")


async def test_request_stop_only_asks(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        engine.request_stop("window closed")
        engine.request_stop("SIGTERM")
        assert engine.stop_requested.is_set()
        assert engine.stop_reason == "window closed"
        assert (await send(engine, "one"))[0] == 200


async def test_a_stop_answers_what_still_comes_with_503(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        assert engine._door is not None
        engine._door.close_intake()
        status, body = await send(engine, "one")
        assert (status, body["reason"]) == (503, "stopping")
        assert word(engine.status(), "listener") == "stopping"


async def test_a_broken_audit_chain_is_a_red_fact_and_no_refusal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running(home) as engine:
        await send(engine, "one")
        await settled(engine, 1)
    connection = apsw.Connection(str(home / "ledger.sqlite3"))
    connection.execute("DROP TRIGGER events_fixed").fetchall()
    connection.execute("UPDATE events SET actor = 'somebody' WHERE id = 2").fetchall()
    connection.close()
    async with running(home) as engine:
        assert word(engine.status(), "ledger") == "altered"
        assert engine.status().level == "error"
        assert (await send(engine, "two"))[0] == 200
        assert len(await settled(engine, 2)) == 2


async def test_the_status_counts_what_came_in(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        await send(engine, "one")
        await send(engine, "one")
        await send(engine, "two", quantity=-1)
        await settled(engine, 1)
        await until(engine, lambda: engine.status().counts.get("refused") == 1)
        counts = engine.status().counts
        assert {name: counts[name] for name in ("signals", "duplicates", "refused", "waiting")} == {
            "signals": 1,
            "duplicates": 1,
            "refused": 1,
            "waiting": 0,
        }
        assert len(await rows(engine, "refused")) == 2


@pytest.mark.blocking_allowed("the trace of the listener's fault is printed at once here")
async def test_listeners_hear_tables_and_status_and_one_fault_does_not_stop_the_others(
    tmp_path: Path,
) -> None:
    async with running(tmp_path / "home") as engine:
        heard: set[str] = set()

        def broken(_: frozenset[str]) -> None:
            raise ValueError("a listener's own fault")

        end_broken = engine.listen(broken)
        end = engine.listen(heard.update)
        await send(engine, "one")
        await until(engine, lambda: {"claims", "orders", "fills", "status"} <= heard)
        end()
        end_broken()
        end()


async def test_addresses_hold_the_token_and_their_repr_does_not(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        addresses = engine.hook_addresses()
        assert [address.source for address in addresses] == ["tradingview", "test"]
        token = addresses[0].local.rpartition("/")[2]
        assert len(token) >= 32
        assert token not in repr(addresses)


async def test_h38_an_account_that_cannot_be_used_does_not_shut_the_door(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "paper.sqlite3").write_bytes(b"not a book" * 1000)
    engine = make_engine(home)
    await engine.start()
    try:
        assert word(engine.status(), "account:paper") == "failing"
        status, body = await send(engine, "one")
        assert (status, body["outcome"]["state"]) == (200, "PENDING")
    finally:
        await engine.stop()
    assert (home / "paper.sqlite3").read_bytes() == b"not a book" * 1000
    (home / "paper.sqlite3").unlink()
    async with running(home) as engine:
        (order,) = await settled(engine, 1)
        assert order["state"] == "DONE"


async def test_h19_a_ledger_that_cannot_be_trusted_asks_for_the_stop(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as engine:
        engine._give_up("the disk lies")
        assert engine.stop_requested.is_set()
        assert engine.fatal == "the disk lies"
        assert word(engine.status(), "program") == "stopping"
