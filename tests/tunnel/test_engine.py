"""Signals through a real tunnel into a real engine, set up by config.toml; and cut at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.engine import Engine
from app.engine.tunnels import tunnel as fact_of
from app.failpoint import failpoint
from app.tunnel import TunnelFacts, TunnelMemory
from app.tunnel.memory import Copied
from tests.crash.program import Program
from tests.crash.program import until as wait_until
from tests.engine.kit import make_engine, rows, settled, until, word
from tests.tunnel.kit import alive, stand_in, starts
from tests.tunnel.vps import Vps, needs_ssh, vps


def configure(home: Path, far: Vps) -> None:
    """ssh finds its known hosts in the user's home; here a script in front of it names the test's own."""
    home.mkdir(parents=True)
    program = far.folder / "ssh"
    words = " ".join(f"-o '{option}'" for option in far.options)
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F none {words} "$@"\n')
    program.chmod(0o755)
    (home / "config.toml").write_text(
        f"""
        [tunnel]
        kind = "ssh"
        program = "{program}"
        ssh_target = "me@the-server"
        ssh_remote = "127.0.0.1:{far.public_port}"
        ssh_key = "{far.key}"
        public_url = "{far.public}"
        """
    )


@contextlib.asynccontextmanager
async def reachable(home: Path, far: Vps) -> AsyncIterator[Engine]:
    """An engine that is reached from outside."""
    engine = make_engine(home)
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "account:paper") == "ready")
        await until(engine, lambda: word(engine.status(), "tunnel") == "up")
        yield engine
    finally:
        await engine.stop()


def public_hook(engine: Engine) -> str:
    found = next(each.public for each in engine.hook_addresses() if each.source == "tradingview")
    assert found is not None
    return found


async def post(url: str, key: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    body = {"symbol": "AAPL", "action": "buy", "quantity": 1, "price": 10, "key": f"key-{key}-0123456789"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=json.dumps(body), headers=headers) as response,
    ):
        return response.status, await response.json()


@needs_ssh
async def test_a_signal_through_the_tunnel_becomes_one_order(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far:
        configure(tmp_path / "home", far)
        async with reachable(tmp_path / "home", far) as engine:
            status = engine.status()
            assert status.public == far.public
            assert public_hook(engine).startswith(f"{far.public}/hook/tradingview/")
            code, answer = await post(public_hook(engine), "outside")
            assert (code, answer["status"]) == (200, "accepted")
            (order,) = await settled(engine, 1)
            assert order["state"] == "DONE"
            assert not [fact for fact in engine.status().facts if fact.level == "error"]
        with pytest.raises(aiohttp.ClientConnectorError):
            await post(f"{far.public}/hook/tradingview/x", "after the stop")


@needs_ssh
async def test_the_tunnel_cut_between_claim_and_answer_and_the_alert_sent_again_is_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender learns nothing of the first, sends it again as senders do, and is told of the first."""
    async with vps(tmp_path / "vps") as far:
        configure(tmp_path / "home", far)
        async with reachable(tmp_path / "home", far) as engine:
            cuts: list[str] = []

            def cut(name: str) -> None:
                if name == "before_200" and not cuts:
                    cuts.append(name)
                    far.cut()
                failpoint(name)

            monkeypatch.setattr("app.listener.server.failpoint", cut)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await post(public_hook(engine), "cut")
            assert cuts == ["before_200"]
            await until(engine, lambda: word(engine.status(), "tunnel") == "down")
            await until(engine, lambda: word(engine.status(), "tunnel") == "up")
            code, answer = await post(public_hook(engine), "cut")
            assert (code, answer["status"], answer["deliveries"]) == (200, "duplicate", 2)
            (order,) = await settled(engine, 1)
            assert (order["state"], order["symbol"]) == ("DONE", "AAPL")
            assert len(await rows(engine, "signals")) == 1


@needs_ssh
async def test_another_address_than_the_one_that_was_copied_is_shouted(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far:
        configure(tmp_path / "home", far)
        memory = TunnelMemory(tmp_path / "home")
        await asyncio.to_thread(memory.keep_copied, Copied("https://old.example.com", 1))
        engine = make_engine(tmp_path / "home")
        await engine.start()
        try:
            await until(engine, lambda: word(engine.status(), "tunnel") == "address changed")
            fact = next(fact for fact in engine.status().facts if fact.name == "tunnel")
            assert fact.level == "error"
            assert "https://old.example.com" in fact.reason
            local = f"http://127.0.0.1:{engine.status().port}/healthz"
            async with aiohttp.ClientSession() as session, session.get(local) as response:
                assert await response.json() == {"status": "degraded"}
            engine.note_copied()
            await until(engine, lambda: word(engine.status(), "tunnel") == "up")
        finally:
            await engine.stop()
        kept = await asyncio.to_thread(memory.copied)
        assert kept is not None
        assert kept.address == far.public


async def test_without_a_tunnel_nothing_is_started_and_the_fact_says_so(tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "home")
    await engine.start()
    try:
        fact = next(fact for fact in engine.status().facts if fact.name == "tunnel")
        assert (fact.word, fact.level) == ("none", "ok")
        assert engine.status().public is None
        assert [each.public for each in engine.hook_addresses()] == [None, None]
        engine.note_copied()
        assert not (tmp_path / "home" / "tunnel").exists()
    finally:
        await engine.stop()


async def test_a_tunnel_without_its_token_says_how_to_set_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    program = tmp_path / "ngrok"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    (home / "config.toml").write_text(f'[tunnel]\nkind = "ngrok"\nprogram = "{program}"\n')
    engine = make_engine(home)
    await engine.start()
    try:
        await until(engine, lambda: word(engine.status(), "tunnel") == "down")
        fact = next(fact for fact in engine.status().facts if fact.name == "tunnel")
        assert fact.level == "error"
        assert "onefill secret set tunnel.token" in fact.reason
    finally:
        await engine.stop()


def test_a_port_that_tradingview_does_not_post_to_is_said() -> None:
    for address, level in (("https://a", "ok"), ("https://a:443", "ok"), ("https://a:8443", "warning")):
        fact = fact_of(TunnelFacts("own", "up", "why", address, None, None, True, 0))
        assert (fact.level, "8443" in fact.reason) == (level, level == "warning")


@pytest.mark.parametrize(
    ("word", "reached", "level"),
    [
        ("up", True, "ok"),
        ("starting", None, "warning"),
        ("degraded", None, "warning"),
        ("degraded", True, "warning"),
        ("degraded", False, "error"),
        ("down", None, "error"),
        ("address changed", True, "error"),
    ],
)
def test_what_loses_alerts_is_an_error(word: Any, reached: bool | None, level: str) -> None:
    fact = fact_of(TunnelFacts("ssh", word, "why", "https://a", None, None, reached, 1))
    assert (fact.word, fact.level, fact.reason) == (word, level, "ssh: why")


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_killed_program_takes_its_tunnel_with_it_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "cloudflared", "say('INF hello'); wait()")
    with Program(tmp_path / "home") as running:
        running.write_config(f'[tunnel]\nkind = "cloudflared-quick"\nprogram = "{program}"\n')
        running.start()
        first = await_start(folder, 1)
        assert alive(first)
        assert running.fact("tunnel") == "starting"
        running.end(signal.SIGKILL)
        wait_until(lambda: not alive(first) or None, "the tunnel to go")
        running.start()
        second = await_start(folder, 2)
        assert second != first
        assert running.end() < 5
        wait_until(lambda: not alive(second) or None, "the tunnel to go")


def await_start(folder: Path, number: int) -> int:
    found = wait_until(lambda: starts(folder) if len(starts(folder)) == number else None, "a start")
    return int(json.loads(found[-1])["pid"])
