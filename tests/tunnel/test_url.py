"""`onefill url`: the public address where one is known, and what was taken from it is remembered."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.settings import load_or_create
from app.tunnel import TunnelMemory
from app.tunnel.memory import Copied
from tests.cli.kit import refused, run
from tests.crash.program import Program
from tests.crash.program import until as wait_until


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEFILL_SECRET_SOURCE_TRADINGVIEW_TOKEN", "t" * 40)
    home = tmp_path / "home"
    load_or_create(home)
    return home


def configure(home: Path, tunnel: str) -> None:
    (home / "config.toml").write_text(f"[tunnel]\n{tunnel}\n")


def test_without_a_tunnel_there_is_a_dash(home: Path) -> None:
    assert run("url", "tradingview", "--home", home).lines[0].split(" ")[2] == "-"
    assert "no public address" in refused(run("url", "tradingview", "--copied", "--home", home))


def test_an_address_that_is_fixed_is_known_without_a_running_app(home: Path) -> None:
    configure(home, 'kind = "own"\npublic_url = "https://hooks.example.com/onefill/"')
    done = run("url", "tradingview", "--home", home)
    assert done.lines[0].split(" ")[2] == f"https://hooks.example.com/onefill/hook/tradingview/{'t' * 40}"
    found = json.loads(run("url", "tradingview", "--json", "--home", home).out)
    assert found["public"] == done.lines[0].split(" ")[2]


def test_an_address_that_only_the_tunnel_knows_is_a_dash_until_it_runs(home: Path) -> None:
    configure(home, 'kind = "cloudflared-quick"')
    assert run("url", "tradingview", "--home", home).lines[0].split(" ")[2] == "-"


def test_looking_is_not_taking(home: Path) -> None:
    configure(home, 'kind = "own"\npublic_url = "https://hooks.example.com"')
    run("url", "--home", home)
    assert TunnelMemory(home).copied() is None
    run("url", "tradingview", "--copied", "--home", home)
    copied = TunnelMemory(home).copied()
    assert copied is not None
    assert copied.address == "https://hooks.example.com"
    assert (home / "tunnel" / "copied.json").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="the control channel of Windows is a pipe")
def test_a_running_app_says_its_public_address_and_sees_what_was_taken(home: Path) -> None:
    # Port 9 answers nobody; whether it is reached is not the question here.
    with Program(home) as running:
        running.write_config('[tunnel]\nkind = "own"\npublic_url = "http://127.0.0.1:9"\n')
        TunnelMemory(home).keep_copied(Copied("https://old.example.com", 1))
        running.start()
        done = run("url", "tradingview", "--home", home)
        local, public = done.lines[0].split(" ")[1:]
        assert local.startswith(f"http://127.0.0.1:{running.port}/hook/tradingview/")
        assert public == local.replace(f":{running.port}/", ":9/")
        wait_until(lambda: running.fact("tunnel") == "address changed" or None, "the alarm")
        report = run("doctor", "--home", home)
        assert report.code == 2
        assert any("address changed" in line and "https://old.example.com" in line for line in report.lines)
        run("url", "--copied", "--home", home)
        wait_until(lambda: running.fact("tunnel") != "address changed" or None, "quiet")
