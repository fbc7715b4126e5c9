"""The support bundle holds what a helper needs, and not one byte of a secret."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from app.clock import SystemClock
from app.engine import CommandRefused, Engine, support
from app.engine.checkup import Finding
from app.engine.support import Scrubber, SupportFailed, make_bundle
from app.ledger.store import open_ledger
from app.secrets import Secrets
from app.settings import create_home, load_or_create

TOKEN = "tok3n-of-the-hook-0123456789abcdef"
KEY = 'qu"oted\\key-000111222'
FINDING = Finding("disk", "ok", "a synced write takes 0.3 ms")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with secrets in every place where they could have gone."""
    home = tmp_path / "home"
    create_home(home)
    load_or_create(home)
    open_ledger(home, 1).close()
    with (home / "config.toml").open("a") as config:
        config.write(f'# my note: {TOKEN}\n# proxy = "http://ann:hunter2@proxy.example/x"\n')
    (home / "onefill.log").write_text(
        json.dumps({"event": f"posted to /hook/tradingview/{TOKEN}", "error": KEY, "at": "PA3CDEFGH12"})
        + "\n"
    )
    (home / "onefill.log.1").write_text("older /hook/other/never-seen-before\n")
    with sqlite3.connect(home / "ledger.sqlite3") as ledger:
        ledger.execute(
            "INSERT INTO accounts (name, broker, identity, endpoint) "
            "VALUES ('live', 'alpaca', 'PA3CDEFGH12', 'x')"
        )
    return home


def bundle(home: Path, target: Path) -> dict[str, str]:
    environ = {
        "ONEFILL_SECRET_SOURCE_TRADINGVIEW_TOKEN": TOKEN,
        "ONEFILL_SECRET_NOTICE_PHONE_URL": KEY,
        "PATH": "/usr/bin/not-a-secret",
    }
    secrets = Secrets(home, environ, keyring=None)
    made = make_bundle(
        home, target, [FINDING], {"state": "running", "said": KEY}, secrets, load_or_create(home)
    )
    with zipfile.ZipFile(made.path) as archive:
        assert tuple(archive.namelist()) == made.files
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_no_secret_is_in_any_file_of_it(home: Path, tmp_path: Path) -> None:
    files = bundle(home, tmp_path / "support.zip")
    for name, text in files.items():
        for secret in (TOKEN, KEY, json.dumps(KEY)[1:-1], "hunter2", "never-seen-before", "PA3CDEFGH12"):
            assert secret not in text, name
    assert "...H12" in files["onefill.log"]
    assert "proxy.example" in files["config.toml"]


def test_what_could_not_be_looked_for_is_named(home: Path, tmp_path: Path) -> None:
    settings = load_or_create(home)
    known = Secrets(home, {"ONEFILL_SECRET_SOURCE_TRADINGVIEW_TOKEN": TOKEN}, keyring=None)
    names = make_bundle(home, tmp_path / "a.zip", [], None, known, settings).not_found
    assert "source.tradingview.token" not in names
    assert "source.tradingview.secret" in names
    unknown = make_bundle(home, tmp_path / "b.zip", [], None, Secrets(home, {}, keyring=None), settings)
    assert "source.tradingview.token" in unknown.not_found


async def test_a_running_program_makes_it_with_the_secrets_of_its_own_environment(
    home: Path, tmp_path: Path
) -> None:
    environ = {"ONEFILL_SECRET_SOURCE_TRADINGVIEW_TOKEN": TOKEN, "ONEFILL_SECRET_NOTICE_PHONE_URL": KEY}
    engine = Engine(home, SystemClock(), port=0, secrets=lambda: Secrets(home, environ, keyring=None))
    target = tmp_path / "running.zip"
    await engine.start()
    try:
        who = {"actor": "command", "request_id": "1"}
        made = await engine.command("support", {"file": str(target)}, **who)
        with pytest.raises(CommandRefused, match="exists"):
            await engine.command("support", {"file": str(target)}, **who)
        with pytest.raises(CommandRefused, match="absolute"):
            await engine.command("support", {"file": "running.zip"}, **who)
    finally:
        await engine.stop()
    assert made["file"] == str(target)
    with zipfile.ZipFile(target) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert made["files"] == list(files)
    assert json.loads(files["status.json"])["state"] == "running"
    for name, text in files.items():
        for secret in (TOKEN, KEY, json.dumps(KEY)[1:-1]):
            assert secret not in text, name


def test_it_holds_versions_checks_settings_log_and_the_trail(home: Path, tmp_path: Path) -> None:
    files = bundle(home, tmp_path / "support.zip")
    assert "sqlite" in json.loads(files["versions.json"])
    assert json.loads(files["checks.jsonl"])["seen"] == FINDING.seen
    assert "[listener]" in files["config.toml"]
    assert "older /hook/other/***" in files["onefill.log.1"]
    assert {
        "orders.jsonl",
        "events.jsonl",
        "deliveries.jsonl",
        "attempts.jsonl",
        "evidence.jsonl",
    } <= files.keys()


def test_every_list_is_one_that_the_ledger_can_give(home: Path, tmp_path: Path) -> None:
    """A renamed column would leave a list out, and nobody would see it before it is needed."""
    files = bundle(home, tmp_path / "support.zip")
    assert {f"{name}.jsonl" for name in support._LISTS} <= files.keys()


def test_an_existing_file_is_not_overwritten_and_nothing_is_left_of_a_failure(
    home: Path, tmp_path: Path
) -> None:
    target = tmp_path / "support.zip"
    target.write_text("mine")
    with pytest.raises(SupportFailed, match="exists"):
        bundle(home, target)
    assert target.read_text() == "mine"
    with pytest.raises(SupportFailed, match="cannot be written"):
        bundle(home, tmp_path / "nowhere" / "support.zip")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "support.zip"]


def test_a_home_without_a_ledger_and_one_that_is_damaged_still_make_one(home: Path, tmp_path: Path) -> None:
    (home / "ledger.sqlite3").write_bytes(b"not a database at all" * 500)
    files = bundle(home, tmp_path / "damaged.zip")
    assert "ledger.txt" in files or "orders.txt" in files
    for file in home.glob("ledger.sqlite3*"):
        file.unlink()
    assert "orders.jsonl" not in bundle(home, tmp_path / "none.zip")


def test_short_values_are_not_looked_for() -> None:
    """One of `buy` would blank every order."""
    assert Scrubber(["buy"], ["1"])("buy 1 AAPL") == "buy 1 AAPL"
