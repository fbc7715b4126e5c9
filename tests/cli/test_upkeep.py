"""Keeping house with no app running: counts first, one question, one line where it is refused."""

from __future__ import annotations

import asyncio
import csv
import json
import sys
from pathlib import Path

import click
import pytest

from app.cli import upkeep
from app.clock import SystemClock
from tests.cli.kit import refused, run
from tests.engine.kit import make_engine, send, settled

TRADED = 3


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with some trades, at rest."""

    async def trade() -> None:
        engine = make_engine(tmp_path / "home")
        await engine.start()
        try:
            for number in range(TRADED):
                await send(engine, str(number), fired_at=SystemClock().now() // 1000)
            await settled(engine, TRADED)
        finally:
            await engine.stop()

    asyncio.run(trade())
    return tmp_path / "home"


def tokens(home: Path) -> dict[str, str]:
    lines = (line.split(" ") for line in run("url", "--home", home).lines)
    return {source: local.rpartition("/")[2] for source, local, _ in lines}


# --------------------------------------------------------------------------------------------------- purge


def test_a_dry_run_counts_and_changes_nothing(home: Path) -> None:
    (counted,) = run("purge", "--bodies-older-than", "0s", "--dry-run", "--home", home, "--json").objects
    assert (counted["dry_run"], counted["bodies"], counted["keys_before"]) == (True, TRADED, None)
    text = run("purge", "--bodies-older-than", "0s", "--dry-run", "--home", home)
    assert f"{TRADED} would go, 0 would stay" in text.out
    whats = [event["what"] for event in run("events", "--home", home, "--json").objects]
    assert "purge begun" not in whats


def test_a_purge_asks_once_with_its_counts(home: Path) -> None:
    purge = ("purge", "--bodies-older-than", "0s", "--why", "room", "--home", home)
    no = run(*purge, stdin="n\n")
    assert no.code == 1
    assert f"{TRADED} would go" in no.err
    assert "nothing was done" in no.err
    assert run(*purge, stdin="").code == 1
    yes = run(*purge, stdin="y\n")
    assert yes.code == 0
    assert f"{TRADED} gone, 0 kept" in yes.out
    again = run(*purge, "--yes", "--json")
    assert (again.objects[0]["bodies"], again.err) == (0, "")
    (event,) = (e for e in run("events", "--home", home, "--json").objects if e["what"] == "purge begun")
    assert '"why":"room"' in event["detail"]
    assert event["actor"].startswith("command:")


def test_a_purge_needs_its_reason_and_ages_that_are_ages(home: Path) -> None:
    for wrong in (
        ("--yes",),
        ("--yes", "--why", " "),
        ("--dry-run", "--bodies-older-than", "long"),
        ("--dry-run", "--keys-older-than", "forever"),
    ):
        done = run("purge", *wrong, "--home", home)
        assert (done.code, done.out) == (2, ""), wrong


def test_h26_a_purge_that_is_asked_for_again_is_done_once(home: Path) -> None:
    purge = ("purge", "--bodies-older-than", "0s", "--why", "room", "--yes", "--home", home, "--json")
    first = run(*purge, "--request-id", "p-1").objects
    assert run(*purge, "--request-id", "p-1").objects == first
    assert "already used" in refused(run("backup", home / "b", "--home", home, "--request-id", "p-1"))


# ---------------------------------------------------------------------------------------- export and backup


def test_an_export_of_everything_and_of_one_view(home: Path, tmp_path: Path) -> None:
    done = run("export", tmp_path / "all.jsonl", "--home", home)
    assert done.code == 0
    assert f"{TRADED} signals" in done.out
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
    assert {line["view"] for line in lines} >= {"signals", "deliveries", "orders", "fills", "events"}
    (counted,) = run("export", tmp_path / "f.csv", "--view", "fills", "--home", home, "--json").objects
    assert counted == {"file": str(tmp_path / "f.csv"), "rows": {"fills": TRADED}}
    with (tmp_path / "f.csv").open(encoding="utf-8-sig", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head[0] == "account"
    assert len(rows) == TRADED


def test_what_cannot_be_exported(home: Path, tmp_path: Path) -> None:
    assert run("export", tmp_path / "a.xlsx", "--home", home).code == 2
    assert run("export", tmp_path / "a.csv", "--view", "claims", "--home", home).code == 2
    assert "no ledger" in refused(run("export", tmp_path / "a.csv", "--home", tmp_path / "new"))
    assert "could not be written" in refused(run("export", tmp_path / "x" / "a.csv", "--home", home))


def test_a_backup_goes_into_a_new_file_or_a_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (made,) = run("backup", "here.sqlite3", "--home", home, "--json").objects
    assert made["file"] == str(tmp_path / "here.sqlite3")
    assert (made["signals"], made["orders"]) == (TRADED, TRADED)
    assert "there already" in refused(run("backup", "here.sqlite3", "--home", home))
    done = run("backup", tmp_path, "--home", home)
    assert done.code == 0
    assert len(list(tmp_path.glob("ledger-*-E*.sqlite3"))) == 1
    # The head of the audit chain stands outside the ledger, too (HOLES H23).
    log = [json.loads(line) for line in (home / "onefill.log").read_text().splitlines()]
    assert next(line["head"] for line in log if line["event"] == "backup made") == made["head"]


def test_a_home_that_was_never_started(tmp_path: Path) -> None:
    new = tmp_path / "new"
    for command in (
        ("backup", tmp_path / "b.sqlite3"),
        ("purge", "--dry-run"),
        ("source", "rotate", "tradingview"),
    ):
        assert "start Onefill first" in refused(run(*command, "--home", new))
    assert not new.exists()


# ------------------------------------------------------------------------------------------------- restore


def test_h39_a_restore_says_what_it_does_asks_and_says_what_it_did(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.sqlite3"
    run("backup", file, "--home", home)
    restore = ("restore", file, "--why", "the disk broke", "--home", home)
    no = run(*restore, stdin="n\n")
    assert (no.code, no.out) == (1, "")
    assert "0 signals and 0 orders that came later" in no.err
    assert not list(home.glob("ledger-replaced-*"))
    done = run(*restore, stdin="y\n")
    assert done.code == 0
    assert "trading is halted" in done.out
    assert "--accept-without-time" in done.out
    (kept,) = home.glob("ledger-replaced-*.sqlite3")
    assert kept.name in done.out
    (status,) = run("status", "--home", home, "--json").objects
    assert status["trading_state"] == "halted"


def test_signals_without_a_time_are_refused_until_resume_says_otherwise(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.sqlite3"
    run("backup", file, "--home", home)
    run("restore", file, "--why", "a test", "--yes", "--home", home)
    resumed = run("resume", "--home", home)
    assert "without a time are refused" in resumed.out
    assert run("resume", "--accept-without-time", "--home", home).code == 2
    lifted = run("resume", "--accept-without-time", "--why", "the sender was off", "--home", home)
    assert lifted.lines == ["trading is active (was active)"]


def test_what_is_no_backup_is_refused_with_one_line(home: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ledger at all")
    for file, reason in (
        (tmp_path / "missing", "no file"),
        (tmp_path / "text", "cannot be read as a ledger"),
        (home / "paper.sqlite3", "not a backup"),
    ):
        assert reason in refused(run("restore", file, "--why", "x", "--yes", "--home", home))
    assert run("restore", home / "paper.sqlite3", "--home", home).code == 2


# ------------------------------------------------------------------------------------------------- secrets


def test_a_secret_comes_on_stdin_and_never_as_an_argument(home: Path) -> None:
    value = "v" * 40
    done = run("secret", "set", "source.test.token", "--home", home, stdin=f"{value}\n")
    assert done.code == 0
    assert value not in done.out + done.err
    assert "at the next start" in done.out
    assert tokens(home)["test"] == value
    assert run("secret", "set", "source.test.token", value, "--home", home).code == 2
    assert "32 to 256" in refused(run("secret", "set", "source.test.token", "--home", home, stdin="short"))


def test_at_a_terminal_it_is_asked_for_and_not_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    asked: list[tuple[str, bool]] = []

    def prompt(text: str, *, hide_input: bool, err: bool) -> str:
        asked.append((text, hide_input and err))
        return "typed"

    with monkeypatch.context() as typed:
        typed.setattr(sys, "stdin", Terminal())
        typed.setattr(click, "prompt", prompt)
        assert upkeep._value("account.x.key") == "typed"
    assert asked == [("account.x.key", True)]


def test_a_rotated_token_is_a_new_one_and_the_old_is_named_by_its_end_alone(home: Path) -> None:
    before = tokens(home)
    done = run("source", "rotate", "tradingview", "--overlap", "1h", "--home", home)
    assert done.code == 0
    assert "valid until" in done.out
    after = tokens(home)
    assert after["tradingview"] != before["tradingview"]
    assert after["test"] == before["test"]
    assert before["tradingview"] not in done.out + done.err
    assert "no source 'nobody'" in refused(run("source", "rotate", "nobody", "--home", home))
    assert run("source", "rotate", "test", "--overlap", "soon", "--home", home).code == 2
