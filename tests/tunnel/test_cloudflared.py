"""cloudflared against a stand-in: what it is asked, what it says, and every bad mood of it."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

from app.clock import SECOND, ManualClock
from app.tunnel.cloudflared import Cloudflared
from app.tunnel.memory import TunnelMemory
from tests.tunnel.kit import QUICK, Watched, heard_door, paced, set_mood, stand_in, starts, until, watched

BODY = """
def address():
    try:
        with open(os.path.join(HERE, "address")) as file:
            return file.read().strip()
    except OSError:
        return ""

def answers(path):
    if path == "/ready":
        status = 503 if "unready" in mood() else 200
        return status, {"status": status, "readyConnections": int(status == 200), "connectorId": "x"}
    if path == "/quicktunnel":
        return 200, {"hostname": "" if "run" in ARGS else address()}
    return 404, {}

if "limited" in mood():
    say("ERR Error unmarshaling QuickTunnel response: error code: 1015",
        "failed to unmarshal quick Tunnel: invalid character 'e' looking for beginning of value",
        "see https://api.trycloudflare.com for more")
    sys.exit(1)
if "old" in mood():
    say("Incorrect Usage: flag provided but not defined: -token-file")
    sys.exit(1)
if "refused" in mood():
    say("ERR Provided Tunnel token is not valid.")
    sys.exit(255)
if "--token-file" in ARGS:
    with open(value("--token-file")) as file:
        note("token", file.read())
    say("INF Starting tunnel with " + open(value("--token-file")).read())
with open(value("--config")) as file:
    note("config", repr(file.read()))
serve(value("--metrics"), answers)
wait()
"""


def at(folder: Path, host: str) -> None:
    (folder / "address").write_text(host)


def quick(home: Path, program: Path) -> Cloudflared:
    return Cloudflared(TunnelMemory(home), program=str(program), protocol="auto")


def named(home: Path, program: Path, address: str, token: str = "eyJhIjoiMTIzNDU2Nzg5MCJ9") -> Cloudflared:
    async def find() -> str:
        return token

    return Cloudflared(
        TunnelMemory(home), program=str(program), protocol="http2", address=address, token=find
    )


def first(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(starts(folder)[0])
    return found


def said(tunnel: Watched, words: str) -> bool:
    return words in tunnel.facts.reason


async def test_a_quick_tunnel_says_its_address_and_leads_here(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "cloudflared", BODY)
    at(tmp_path / "bin", "words-of-four.trycloudflare.invalid")
    async with heard_door() as door, watched(quick(tmp_path, program), tmp_path, door) as tunnel:
        await tunnel.until(lambda facts: facts.address is not None)
        assert tunnel.facts.address == "https://words-of-four.trycloudflare.invalid"
        # Nobody here has that name: so it is not 'up' before a knock has come back.
        facts = await tunnel.until_word("degraded")
        assert "words-of-four.trycloudflare.invalid" in facts.reason
        args = first(tmp_path / "bin")["args"]
        assert args[:2] == ["tunnel", "--no-autoupdate"]
        assert args[args.index("--url") + 1] == f"http://127.0.0.1:{door.port}"
        assert (tmp_path / "bin" / "config").read_text() == "''\n"
        assert "debug" not in args


async def test_an_address_that_is_the_services_own_is_no_address(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "cloudflared", BODY)
    at(tmp_path / "bin", "api.trycloudflare.com")
    async with heard_door() as door, watched(quick(tmp_path, program), tmp_path, door) as tunnel:
        facts = await tunnel.until(lambda facts: "without an address" in facts.reason)
        assert (facts.word, facts.address) == ("starting", None)


async def test_a_named_tunnel_gets_its_token_by_a_file_and_nowhere_else(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TUNNEL_TOKEN", "another")
    monkeypatch.setenv("TUNNEL_LOGLEVEL", "debug")
    monkeypatch.setenv("ONEFILL_SECRET_TUNNEL_TOKEN", "ours")
    program = stand_in(tmp_path / "bin", "cloudflared", BODY)
    token = "plain-token-9876543210"
    async with heard_door() as door:
        kind = named(tmp_path, program, f"http://127.0.0.1:{door.port}", token)
        async with watched(kind, tmp_path, door) as tunnel:
            await tunnel.until_word("up")
            run = first(tmp_path / "bin")
            assert (tmp_path / "bin" / "token").read_text().strip() == token
            assert token not in " ".join(run["args"])
            assert not [name for name in run["env"] if name.startswith(("TUNNEL_", "ONEFILL_"))]
            assert token not in json.dumps(run["env"])
            assert tunnel.facts.lines
            assert token not in "\n".join(tunnel.facts.lines)
            # It has read it: no need to leave it about.
            assert not (tmp_path / "tunnel" / "cloudflared-token").exists()


async def test_too_many_starts_are_answered_by_waiting_longer_each_time(tmp_path: Path) -> None:
    folder, clock = tmp_path / "bin", ManualClock()
    program = stand_in(folder, "cloudflared", BODY, "limited")
    async with heard_door(clock) as door, watched(quick(tmp_path, program), tmp_path, door, clock) as tunnel:
        facts = await tunnel.until_word("down")
        assert "429" in facts.reason
        assert "next try in 5 min" in facts.reason
        assert facts.address is None
        for minutes in (5, 10, 20):
            before = len(starts(folder))
            clock.advance(minutes * 60 * SECOND - SECOND)
            # Some beats of the supervisor: nothing may happen in them.
            await asyncio.sleep(0.05)
            assert len(starts(folder)) == before
            clock.advance(SECOND)
            await until(partial(said, tunnel, f"next try in {2 * minutes} min"))
            assert len(starts(folder)) == before + 1


async def test_a_refused_token_and_an_old_program_are_said_and_not_hammered(tmp_path: Path) -> None:
    for mood, words in (("refused", "refuses the token"), ("old", "too old")):
        program = stand_in(tmp_path / mood, "cloudflared", BODY, mood)
        async with heard_door() as door:
            kind = named(tmp_path, program, "https://hooks.example.com")
            async with watched(kind, tmp_path, door) as tunnel:
                facts = await tunnel.until_word("down")
                assert words in facts.reason
                assert len(starts(tmp_path / mood)) == 1


async def test_one_that_dies_is_started_anew_and_a_new_address_is_shouted(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "cloudflared", BODY)
    at(folder, "first.trycloudflare.invalid")
    async with heard_door() as door, watched(quick(tmp_path, program), tmp_path, door) as tunnel:
        await tunnel.until(lambda facts: facts.address == "https://first.trycloudflare.invalid")
        tunnel.supervisor.note_copied()
        at(folder, "second.trycloudflare.invalid")
        set_mood(folder, "die")
        facts = await tunnel.until_word("down")
        assert "exit code 3" in facts.reason
        assert "it is over" in facts.reason
        # What nobody has any more is not shown as where to post to.
        assert facts.address is None
        set_mood(folder)
        facts = await tunnel.until_word("address changed")
        assert "https://first.trycloudflare.invalid" in facts.reason
        assert "https://second.trycloudflare.invalid" in facts.reason
        assert facts.starts >= 2
        tunnel.supervisor.note_copied()
        assert tunnel.facts.word != "address changed"


async def test_one_that_is_never_ready_is_started_anew_after_its_patience(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "cloudflared", BODY, "unready")
    async with heard_door() as door:
        kind = named(tmp_path, program, f"http://127.0.0.1:{door.port}")
        kind.patience = SECOND // 2
        async with watched(kind, tmp_path, door) as tunnel:
            facts = await tunnel.until(lambda facts: "no connection to Cloudflare" in facts.reason)
            assert facts.word == "starting"
            facts = await tunnel.until_word("down")
            assert "not ready for" in facts.reason
            set_mood(tmp_path / "bin")
            await tunnel.until_word("up")


async def test_a_lost_connection_is_degraded_and_knocked_anew_when_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "cloudflared", BODY)
    async with heard_door() as door:
        kind = named(tmp_path, program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door, pace=paced(public=3_600 * SECOND)) as tunnel:
            await tunnel.until_word("up")
            knocks = door.knocks
            set_mood(folder, "unready")
            await tunnel.until_word("degraded")
            assert door.knocks == knocks
            set_mood(folder)
            await tunnel.until_word("up")
            await until(lambda: door.knocks > knocks)
            assert tunnel.facts.starts == 1


async def test_one_that_says_ready_and_is_not_reached_is_started_anew_if_it_keeps_its_address(
    tmp_path: Path,
) -> None:
    program = stand_in(tmp_path / "bin", "cloudflared", BODY)
    async with heard_door() as door:
        door.status = 530
        door.hears = False
        kind = named(tmp_path, program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door) as tunnel:
            facts = await tunnel.until(lambda facts: facts.starts >= 2)
            assert "degraded" in tunnel.words
            await tunnel.until(lambda facts: "1033" in facts.reason)
            door.status, door.hears = 200, True
            await tunnel.until_word("up")
            assert facts.address == tunnel.facts.address


async def test_a_quick_one_that_is_not_reached_keeps_running_and_asks(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "cloudflared", BODY)
    at(tmp_path / "bin", "gone.invalid")
    async with heard_door() as door, watched(quick(tmp_path, program), tmp_path, door) as tunnel:
        # Longer than one that keeps its address would be left alone.
        await until(lambda: tunnel.supervisor._suspicions > QUICK.suspicions + 1)
        facts = tunnel.facts
        assert facts.word == "degraded"
        assert "A new start of Onefill" in facts.reason
        assert facts.starts == 1


async def test_a_flood_is_drained_bounded_and_the_loop_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "cloudflared", BODY, "flood")
    async with heard_door() as door:
        kind = named(tmp_path, program, f"http://127.0.0.1:{door.port}")
        async with watched(kind, tmp_path, door) as tunnel:
            await tunnel.until_word("up")
            await tunnel.until(lambda facts: any(line.startswith("flood") for line in facts.lines))
            knocks = door.knocks
            await until(lambda: door.knocks > knocks)
            assert max(map(len, tunnel.facts.lines)) <= 500


async def test_what_is_not_installed_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with heard_door() as door:
        kind = Cloudflared(TunnelMemory(tmp_path), program=None, protocol="auto")
        async with watched(kind, tmp_path, door) as tunnel:
            facts = await tunnel.until_word("down")
            assert "cloudflared is not installed" in facts.reason
            assert "releases" in facts.reason
