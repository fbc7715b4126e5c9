"""Tailscale Funnel against a stand-in: its states in words, and no route of the user's ever touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.tunnel.tailscale import Tailscale
from tests.tunnel.kit import heard_door, set_mood, stand_in, starts, watched

BODY = """
HOST = "pc.tail0000.ts.invalid"
if ARGS == ["status", "--json"]:
    state = "Stopped" if "stopped" in mood() else "Running"
    me = {"DNSName": HOST + ".", "Online": "offline" not in mood()}
    print(json.dumps({"BackendState": state, "Self": me}))
    sys.exit(0)
if ARGS == ["funnel", "status", "--json"]:
    allowed = {"AllowFunnel": {HOST + ":443": True}}
    opened = os.path.exists(os.path.join(HERE, "open"))
    other = {"AllowFunnel": {"other:443": True}}
    print(json.dumps({"Foreground": {"session": allowed}} if opened else other))
    sys.exit(0)
if "taken" in mood():
    say("error: foreground already exists under this port")
    sys.exit(1)
if "forbidden" in mood():
    say("Funnel is not enabled on your tailnet.", "To enable, visit:")
    say("https://login.tailscale.com/f/funnel?node=n1")
    wait()
note("open", "")
say("Available on the internet:", "https://" + HOST + "/", "Press Ctrl+C to exit.")
wait()
"""


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    return tmp_path / "bin"


async def test_it_is_open_in_the_foreground_and_its_name_is_the_address(tmp_path: Path, bin: Path) -> None:
    kind = Tailscale(program=str(stand_in(bin, "tailscale", BODY)))
    async with heard_door() as door, watched(kind, tmp_path, door) as tunnel:
        facts = await tunnel.until(lambda facts: "has no IPv4" in facts.reason)
        assert facts.address == "https://pc.tail0000.ts.invalid"
        runs = [json.loads(line)["args"] for line in starts(bin)]
        assert ["funnel", "--https=443", f"http://127.0.0.1:{door.port}"] in runs
        assert not [run for run in runs if "reset" in run or "--bg" in run or "off" in run]


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("stopped", "not connected (Stopped)"),
        ("offline", "no connection"),
        ("forbidden", "visit https://login.tailscale.com/f/funnel?node=n1"),
    ],
)
async def test_what_is_in_the_way_is_said(tmp_path: Path, bin: Path, mood: str, words: str) -> None:
    kind = Tailscale(program=str(stand_in(bin, "tailscale", BODY, mood)))
    async with heard_door() as door, watched(kind, tmp_path, door) as tunnel:
        facts = await tunnel.until(lambda facts: words in facts.reason)
        assert facts.word == "starting"
        set_mood(bin)


async def test_a_route_of_the_user_is_left_alone(tmp_path: Path, bin: Path) -> None:
    kind = Tailscale(program=str(stand_in(bin, "tailscale", BODY, "taken")))
    async with heard_door() as door, watched(kind, tmp_path, door) as tunnel:
        facts = await tunnel.until_word("down")
        assert "another route of yours" in facts.reason
        assert "next try in 5 min" in facts.reason
