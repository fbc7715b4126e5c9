"""The setup check against a broken version of each thing that it checks."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.brokers.base import LookupFailed
from app.clock import SECOND, ManualClock
from app.engine import checkup, checkup_far
from app.engine.checkup import Finding, Patient, check_up
from app.secrets import Secrets
from app.settings import create_home, load_or_create

DAY = 24 * 3_600 * SECOND


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home as a first start leaves it, but for the ledger, on a free port."""
    home = tmp_path / "home"
    create_home(home)
    load_or_create(home)
    config = home / "config.toml"
    config.write_text(config.read_text().replace("port = 8787", "port = 0"))
    return home


def patient(home: Path, **more: Any) -> Patient:
    return Patient(home, ManualClock(), make_secrets=lambda: Secrets(home, {}, keyring=None), **more)


def near(patient: Patient) -> dict[str, Finding]:
    """The worst finding of each check."""
    worst: dict[str, Finding] = {}
    for found in check_up(patient, checkup.NEAR):
        before = worst.get(found.check)
        if before is None or checkup.LEVELS.index(found.level) > checkup.LEVELS.index(before.level):
            worst[found.check] = found
    return worst


def far(patient: Patient, name: str) -> list[Finding]:
    wanted = [check for check in checkup_far.ALL if check[0] in ("config", name)]
    return [found for found in check_up(patient, wanted) if found.check == name]


def running(*facts: Mapping[str, str], port: int | None = 1) -> dict[str, Any]:
    return {"state": "running", "version": "1", "facts": list(facts), "port": port}


def test_a_sound_home_has_nothing_but_ok(home: Path) -> None:
    assert {found.level for found in near(patient(home)).values()} == {"ok"}


def test_a_synced_home_is_an_error(tmp_path: Path) -> None:
    found = near(patient(tmp_path / "Dropbox" / "home"))["home"]
    assert found.level == "error"
    assert "--home" in found.seen


def test_a_full_disk_and_a_slow_one_are_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_time_a_sync", lambda _: 0.9)
    assert "900 ms" in near(patient(home))["disk"].seen

    class Usage:
        free = 50_000_000

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
    found = near(patient(home))["disk"]
    assert found.level == "error"
    assert "make room" in found.seen


def test_a_home_that_cannot_be_written_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> float:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkup, "_time_a_sync", refuse)
    found = near(patient(home))["disk"]
    assert (found.level, "Permission denied" in found.seen) == ("error", True)


def test_an_app_that_does_not_answer_is_an_error(home: Path) -> None:
    found = near(patient(home, unreachable="the running app cannot be reached"))["app"]
    assert found.level == "error"


def test_each_fact_of_the_running_app_that_is_not_well_is_a_line(home: Path) -> None:
    well = {"name": "ledger", "word": "ok", "level": "ok", "reason": "fine"}
    ill = {"name": "tunnel", "word": "down", "level": "error", "reason": "cloudflared ended: start it again"}
    lines = [f for f in check_up(patient(home, running=running(well, ill)), checkup.NEAR) if f.check == "app"]
    assert [line.level for line in lines] == ["ok", "error"]
    assert lines[1].seen == "tunnel: down: cloudflared ended: start it again"


def test_a_broken_config_names_the_line(home: Path) -> None:
    (home / "config.toml").write_text('[listener]\nhost = "0.0.0.0"\n')
    found = near(patient(home))["config"]
    assert found.level == "error"
    assert "config.toml:2" in found.seen


def test_a_body_secret_that_is_nowhere_names_the_command(home: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace('auth = "path"', 'auth = "body"', 1))
    found = near(patient(home))["secrets"]
    assert found.level == "error"
    assert "onefill secret set source.tradingview.secret" in found.seen


def test_a_taken_port_is_an_error(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = home / "config.toml"
        config.write_text(config.read_text().replace("port = 0", f"port = {taken.getsockname()[1]}"))
        found = near(patient(home))["port"]
    assert found.level == "error"
    assert "--port" in found.seen


def test_a_foreign_file_in_the_ledgers_place_is_an_error(home: Path) -> None:
    with sqlite3.connect(home / "ledger.sqlite3") as other:
        other.execute("CREATE TABLE notes (text)")
    found = near(patient(home))["ledger"]
    assert (found.level, "not an Onefill ledger" in found.seen) == ("error", True)


def test_an_old_backup_is_a_warning(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    who = patient(home)
    monkeypatch.setattr(checkup, "newest_daily", lambda _: who.clock.now() - 9 * DAY)
    who.connection = object()  # type: ignore[assignment]
    assert [(level, "9 days" in seen) for level, seen in checkup._backup(who)] == [("warning", True)]


def test_a_check_that_fails_itself_is_a_finding_and_the_next_ones_go_on(home: Path) -> None:
    def broken(_: Patient) -> checkup.Seen:
        yield "ok", str(1 // len(""))

    found = list(check_up(patient(home), (("broken", broken), *checkup.NEAR)))
    assert (found[0].level, "ZeroDivisionError" in found[0].seen) == ("error", True)
    assert {"home", "config", "port", "ledger"} <= {line.check for line in found}


class Door(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = b'{"status": "halted"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """No lines of its own."""


def test_the_door_of_a_running_app_is_asked(home: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        (found,) = far(patient(home, running=running(port=server.server_port)), "listener")
        thread.join()
    assert (found.level, found.seen.endswith("halted")) == ("warning", True)
    (deaf,) = far(patient(home, running=running(port=server.server_port)), "listener")
    assert (deaf.level, "does not answer" in deaf.seen) == ("error", True)
    (shut,) = far(patient(home, running=running(port=None)), "listener")
    assert shut.level == "error"


ALPACA = """
[[accounts]]
name = "paper"
broker = "paper"

[[accounts]]
name = "alpaca"
broker = "alpaca"
base_url = "http://127.0.0.1:9"
"""


def test_a_broker_without_keys_and_one_that_cannot_be_reached_are_errors(home: Path) -> None:
    (home / "config.toml").write_text(ALPACA)
    paper, alpaca = far(patient(home), "login")
    assert (paper.level, alpaca.level) == ("ok", "error")
    assert "onefill secret set account.alpaca.key_id" in alpaca.seen

    def keys() -> Secrets:
        found = {"ONEFILL_SECRET_ACCOUNT_ALPACA_KEY_ID": "k", "ONEFILL_SECRET_ACCOUNT_ALPACA_SECRET_KEY": "s"}
        return Secrets(home, found, keyring=None)

    _, alpaca = far(Patient(home, ManualClock(), make_secrets=keys), "login")
    assert alpaca.level == "error"
    assert "onefill secret set" not in alpaca.seen


def test_a_running_app_is_asked_whose_account_it_is(home: Path) -> None:
    (home / "config.toml").write_text(ALPACA)
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def ask(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append((name, arguments))
        return {"identity": "PA123"}

    _, alpaca = far(patient(home, running=running(), ask=ask), "login")
    assert alpaca.seen == "alpaca: logged in to account PA123 at alpaca (paper, no money)"
    assert asked == [("test account", {"account": "alpaca"})]

    def refuse(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        raise LookupFailed("401 unauthorized")

    _, alpaca = far(patient(home, running=running(), ask=refuse), "login")
    assert (alpaca.level, alpaca.seen) == ("error", "alpaca: 401 unauthorized")


def test_a_signal_goes_the_whole_way_or_the_check_says_where_it_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = far(patient(home), "signal")
    assert found.level == "ok", found.seen

    def stopped(say: Any) -> None:
        say("door", True, "open")
        say("order", False, "O1 PENDING")

    monkeypatch.setattr(checkup_far, "try_whole_way", stopped)
    (found,) = far(patient(home), "signal")
    assert (found.level, "order: O1 PENDING" in found.seen) == ("error", True)


TUNNEL = """
[tunnel]
kind = "ngrok"
program = "{program}"
"""


def test_a_tunnel_whose_program_is_missing_or_that_is_down_is_an_error(home: Path, tmp_path: Path) -> None:
    (none,) = far(patient(home), "tunnel")
    assert (none.level, none.seen.startswith("none")) == ("ok", True)
    config = home / "config.toml"
    config.write_text(TUNNEL.format(program=tmp_path / "ngrok"))
    missing, later = far(patient(home), "tunnel")
    assert (missing.level, "[tunnel] program" in missing.seen) == ("error", True)
    assert later.level == "ok"
    (tmp_path / "ngrok").write_text("#!/bin/sh")
    (tmp_path / "ngrok").chmod(0o755)
    down = {"name": "tunnel", "word": "down", "level": "error", "reason": "the agent ended: start it again"}
    (found,) = far(patient(home, running=running(down)), "tunnel")
    assert (found.level, "start it again" in found.seen) == ("error", True)
