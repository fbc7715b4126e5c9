"""ngrok against a stand-in: both shapes of its agent API, its errors by number, a lost session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.clock import SECOND
from app.tunnel.memory import TunnelMemory
from app.tunnel.ngrok import Ngrok
from tests.tunnel.kit import heard_door, paced, set_mood, stand_in, starts, watched

TOKEN = "2aBcDeFgHiJkLmNoPqRsTuVwXyZ_1234567890abcdefgh"

BODY = """
config = json.load(open(value("--config")))
note("config", json.dumps(config))
upstream = next(arg for arg in ARGS if arg.startswith("http://"))

def public():
    try:
        return open(os.path.join(HERE, "address")).read().strip()
    except OSError:
        return ""

def answers(path):
    other = {"url": "https://other.ngrok-free.dev", "upstream": {"url": "http://127.0.0.1:1"}}
    if path == "/api/endpoints" and "legacy" not in mood():
        mine = {"url": public(), "upstream": {"url": upstream}}
        return 200, {"endpoints": [other, mine] if public() else [other]}
    if path == "/api/tunnels":
        return 200, {"tunnels": [{"public_url": public(), "proto": "https", "config": {"addr": upstream}}]}
    return 404, {"error_code": 100}

if "old" in mood():
    say("ERROR:  unknown flag: --url")
    sys.exit(1)
for word in mood():
    if word.isdigit():
        say(f'lvl=eror msg="terminating with error" err="it failed. ERR_NGROK_{word}" for {config["agent"]["authtoken"]}')
        sys.exit(1)
serve(config["agent"]["web_addr"], answers)
say('lvl=info msg="tunnel session started" obj=tunnels.session')
lost = False
def watch():
    global lost
    while True:
        time.sleep(0.02)
        now = "lost" in mood()
        if now != lost:
            lost = now
            say('lvl=eror msg="session closed, starting reconnect loop"' if now
                else 'lvl=info msg="client session established"')
threading.Thread(target=watch, daemon=True).start()
wait()
"""  # noqa: E501


def make(home: Path, program: Path, address: str | None = None) -> Ngrok:
    async def token() -> str:
        return TOKEN

    return Ngrok(TunnelMemory(home), program=str(program), address=address, token=token)


def at(folder: Path, address: str) -> None:
    (folder / "address").write_text(address)


@pytest.mark.parametrize("mood", ["current", "legacy"])
async def test_its_api_says_the_address_and_the_token_is_in_a_file_of_ours(tmp_path: Path, mood: str) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "ngrok", BODY, mood)
    at(folder, "https://mine.ngrok-free.invalid")
    async with heard_door() as door, watched(make(tmp_path, program), tmp_path, door) as tunnel:
        facts = await tunnel.until(lambda facts: facts.address is not None)
        assert facts.address == "https://mine.ngrok-free.invalid"
        run = json.loads(starts(folder)[0])
        assert "--inspect=false" in run["args"]
        assert TOKEN not in json.dumps(run)
        assert json.loads((folder / "config").read_text())["agent"]["authtoken"] == TOKEN
    assert not (tmp_path / "tunnel" / "ngrok.yml").exists()


async def test_an_endpoint_of_another_port_is_not_taken_for_ours(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "ngrok", BODY)
    async with heard_door() as door, watched(make(tmp_path, program), tmp_path, door) as tunnel:
        facts = await tunnel.until(lambda facts: facts.reason == "ngrok has no address yet")
        assert facts.address is None


async def test_a_domain_of_the_account_is_asked_for(tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bin", "ngrok", BODY)
    kind = make(tmp_path, program, "https://hooks.example.com")
    async with heard_door() as door, watched(kind, tmp_path, door) as tunnel:
        await tunnel.until(lambda facts: facts.starts == 1 and bool(starts(tmp_path / "bin")))
        args = json.loads(starts(tmp_path / "bin")[0])["args"]
        assert args[args.index("--url") + 1] == "https://hooks.example.com"


@pytest.mark.parametrize(
    ("number", "words", "wait"),
    [
        ("105", "refuses the authtoken", "5 min"),
        ("108", "as many agents", "5 min"),
        ("334", "online already", "5 min"),
        ("734", "used up for this month", "5 min"),
        ("old", "too old", "5 min"),
        ("9999", "ended (exit code 1)", "0 s"),
    ],
)
async def test_its_errors_are_said_in_words_and_waited_for(
    tmp_path: Path, number: str, words: str, wait: str
) -> None:
    program = stand_in(tmp_path / "bin", "ngrok", BODY, number)
    async with heard_door() as door, watched(make(tmp_path, program), tmp_path, door) as tunnel:
        facts = await tunnel.until_word("down")
        assert words in facts.reason
        assert f"next try in {wait}" in facts.reason
        assert TOKEN not in facts.reason + "".join(facts.lines)


async def test_a_lost_session_is_degraded_although_its_api_still_has_the_address(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    program = stand_in(folder, "ngrok", BODY)
    at(folder, "https://mine.ngrok-free.invalid")
    pace = paced(public=3_600 * SECOND)
    async with heard_door() as door, watched(make(tmp_path, program), tmp_path, door, pace=pace) as tunnel:
        await tunnel.until(lambda facts: "has no IPv4" in facts.reason)
        set_mood(folder, "lost")
        facts = await tunnel.until(lambda facts: "lost its session" in facts.reason)
        assert (facts.word, facts.address) == ("degraded", "https://mine.ngrok-free.invalid")
        set_mood(folder)
        await tunnel.until(lambda facts: "has no IPv4" in facts.reason)
        assert tunnel.facts.starts == 1
