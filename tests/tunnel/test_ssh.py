"""`ssh -R` for real: the system's own client, a server in the test, a wire between them that can freeze."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import asyncssh

from app.clock import SECOND
from app.tunnel.ssh import Ssh
from tests.tunnel.kit import QUICK, heard_door, paced, watched
from tests.tunnel.vps import Vps, free_port, needs_ssh, trust, vps, wire_to

pytestmark = needs_ssh

PATIENT = replace(QUICK, public=3_600 * SECOND, most_wait=SECOND // 5)


def to(far: Vps, **changes: Any) -> Ssh:
    values: dict[str, Any] = {
        "program": None,
        "target": "me@the-server",
        "port": None,
        "remote": f"127.0.0.1:{far.public_port}",
        "key": str(far.key),
        "address": far.public,
        "alive": 1,
        "options": far.options,
    }
    return Ssh(**(values | changes))


async def get(url: str, headers: dict[str, str] | None = None) -> int:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status


async def test_a_request_from_outside_arrives_and_comes_back(tmp_path: Path) -> None:
    async with (
        vps(tmp_path / "vps") as far,
        heard_door() as door,
        watched(to(far), tmp_path, door, pace=PATIENT) as tunnel,
    ):
        facts = await tunnel.until_word("up")
        assert (facts.address, facts.starts) == (far.public, 1)
        assert facts.knocked_at is not None
        assert await get(f"{far.public}/healthz") == 200
        # What ssh says at this level is much; little of it is kept.
        assert not [line for line in facts.lines if line.startswith("debug")]


async def test_a_connection_that_is_cut_is_made_anew(tmp_path: Path) -> None:
    async with (
        vps(tmp_path / "vps") as far,
        heard_door() as door,
        watched(to(far), tmp_path, door, pace=PATIENT) as tunnel,
    ):
        await tunnel.until_word("up")
        far.cut()
        facts = await tunnel.until_word("down")
        assert "closed the connection" in facts.reason
        facts = await tunnel.until_word("up")
        assert facts.starts >= 2
        assert await get(f"{far.public}/healthz") == 200


async def test_a_frozen_tunnel_is_noticed_by_a_knock_and_then_given_up_by_ssh(tmp_path: Path) -> None:
    async with (
        vps(tmp_path / "vps") as far,
        wire_to(far.port) as wire,
        heard_door(patience=0.5) as door,
    ):
        options = tuple(each if not each.startswith("Port=") else f"Port={wire.port}" for each in far.options)
        pace = paced(public=SECOND // 5, suspicions=1_000)
        async with watched(to(far, options=options), tmp_path, door, pace=pace) as tunnel:
            await tunnel.until_word("up")
            wire.freeze()
            facts = await tunnel.until_word("degraded")
            assert "no answer within 0.5 s" in facts.reason
            facts = await tunnel.until_word("down")
            assert "froze" in facts.reason
            wire.thaw()
            await tunnel.until_word("up")


async def test_a_server_whose_key_is_another_than_before_is_not_trusted(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far, heard_door() as door:
        trust(far, asyncssh.generate_private_key("ssh-ed25519"))
        async with watched(to(far), tmp_path, door) as tunnel:
            facts = await tunnel.until_word("down")
            assert "key is not known, or is another one" in facts.reason
            assert "next try in 5 min" in facts.reason
            assert far.conns == [] or not far.conns[-1].get_extra_info("username")


async def test_a_key_that_the_server_does_not_accept_is_said(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far, heard_door() as door:
        other = asyncssh.generate_private_key("ssh-ed25519")
        other.write_private_key(str(tmp_path / "other"))
        (tmp_path / "other").chmod(0o600)
        async with watched(to(far, key=str(tmp_path / "other")), tmp_path, door) as tunnel:
            facts = await tunnel.until_word("down")
            assert "does not accept the key" in facts.reason


async def test_a_port_that_is_taken_is_said_and_tried_until_it_is_free(tmp_path: Path) -> None:
    async with (
        vps(tmp_path / "vps") as far,
        heard_door() as first,
        heard_door() as second,
        watched(to(far), tmp_path / "one", first, pace=PATIENT) as one,
    ):
        await one.until_word("up")
        async with watched(to(far), tmp_path / "two", second, pace=PATIENT) as two:
            facts = await two.until_word("down")
            assert "port is taken" in facts.reason
            await one.supervisor.stop()
            await two.until_word("up")


async def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far, heard_door() as door:
        far.port = free_port()
        async with watched(to(far), tmp_path, door) as tunnel:
            facts = await tunnel.until_word("down")
            assert "refuses the connection" in facts.reason


async def test_a_service_says_its_address_itself(tmp_path: Path) -> None:
    greeting = (
        "Welcome to localhost.run! Visit https://admin.localhost.run/ and https://localhost.run/docs/\r\n"
        "e3f1a2.lhr.life tunneled with tls termination, https://e3f1a2.lhr.life\r\n"
    )
    async with vps(tmp_path / "vps", greeting) as far, heard_door() as door:
        far.open_to_all = True
        kind = to(far, target="nokey@localhost.run", remote="0", address=None, key=None)
        assert not kind.keeps_address
        # No knock: that name is out in the world.
        pace = paced(first_tries=(3_600 * SECOND,))
        async with watched(kind, tmp_path, door, pace=pace) as tunnel:
            facts = await tunnel.until(lambda facts: facts.address is not None)
            assert facts.address == "https://e3f1a2.lhr.life"


async def test_it_goes_with_the_supervisor(tmp_path: Path) -> None:
    async with vps(tmp_path / "vps") as far, heard_door() as door:
        async with watched(to(far), tmp_path, door, pace=PATIENT) as tunnel:
            await tunnel.until_word("up")
        await far.conns[-1].wait_closed()
        try:
            await get(f"{far.public}/healthz")
        except aiohttp.ClientConnectorError:
            return
        raise AssertionError("the forward is still there")
