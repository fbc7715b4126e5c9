"""The commands that only read: columns, JSON lines, limits, times, and no ledger at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import COMMANDS
from app.ledger.queries import VIEWS
from tests.cli.kit import refused, run
from tests.ledger.ledger_rows import NOON, SECOND, Rows

LISTS = ("signals", "deliveries", "orders", "fills", "positions", "events")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose ledger has three signals, one filled."""
    folder = tmp_path / "home"
    folder.mkdir()
    rows = Rows(folder)
    for number in range(3):
        claim = rows.claim(f"k{number}", NOON + number * SECOND)
        rows.delivery(claim, at=NOON + number * SECOND, body='{"a": "\x1b[31m"}')
        rows.order(claim, at=NOON + number * SECOND)
    rows.move(1, "SUBMITTING", "WORKING", "DONE")
    rows.fill(1)
    rows.book("AAPL", "1", "breakout")
    rows.tx.event(NOON, "source:tradingview", "claimed", "S1", {"key": "k0"})
    rows.close()
    return folder


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_a_table_or_json_lines_with_the_contracts_columns(home: Path, name: str) -> None:
    shown = run(name, "--home", home)
    assert shown.code == 0
    assert len(shown.lines) > 1
    found = run(name, "--home", home, "--json")
    columns = VIEWS[name].columns
    assert found.objects
    for row in found.objects:
        assert tuple(row)[: len(columns)] == columns
        assert "number" not in row


@pytest.mark.parametrize("name", LISTS)
def test_without_a_ledger_there_is_one_line_and_exit_1(tmp_path: Path, name: str) -> None:
    assert "no ledger in" in refused(run(name, "--home", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_home_stands_before_or_behind_the_command(home: Path, tmp_path: Path) -> None:
    before, behind = run("--home", home, "signals"), run("signals", "--home", home)
    assert before == behind
    assert (
        run("--json", "--home", home, "signals").objects == run("signals", "--json", "--home", home).objects
    )
    # The one behind is nearer to the command.
    assert run("--home", tmp_path / "none", "signals", "--home", home) == before


def test_home_comes_from_the_environment_last(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from app.cli import onefill

    result = CliRunner(env={"ONEFILL_HOME": str(home)}).invoke(onefill, ["signals", "--json"])
    assert len(result.stdout.splitlines()) == 3


def test_limit_and_since(home: Path) -> None:
    newest = run("signals", "--home", home, "--json", "--limit", "1").objects
    assert [row["id"] for row in newest] == ["S3"]
    since = run("signals", "--home", home, "--json", "--since", "2026-03-02T12:00:01Z").objects
    assert [row["id"] for row in since] == ["S3", "S2"]
    assert run("signals", "--home", home, "--json", "--since", "15m").out == ""
    assert run("signals", "--home", home, "--since", "15m").out == "no signals\n"


@pytest.mark.parametrize("command", ["status", *LISTS])
def test_every_command_that_shows_what_the_window_shows_takes_both(home: Path, command: str) -> None:
    assert run(command, "--home", home, "--limit", "5", "--since", "2026-03-02T00:00:00Z").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("signals", "--limit", "0"),
        ("signals", "--limit", "many"),
        ("signals", "--since", "yesterday"),
        ("signals", "--since", "2026-03-02"),
        ("signals", "extra"),
        ("nonsense",),
        ("replay", "O1"),
        ("show",),
        ("--home", "", "signals"),
        ("serve", "--port", "70000"),
        ("--wrong",),
    ],
)
def test_wrong_usage_is_exit_2(home: Path, arguments: tuple[str, ...]) -> None:
    done = run("--home", home, *arguments)
    assert done.code == 2
    assert done.out == ""


def test_show_tells_the_whole_story(home: Path) -> None:
    text = run("show", "S1", "--home", home)
    assert text.code == 0
    for expected in ("S1", "O1", "D1", "E2", "filled", "buy 1 @ 10"):
        assert expected in text.out
    story = json.loads(run("show", "o1", "--home", home, "--json").out)
    assert (story["id"], story["kind"]) == ("O1", "order")
    assert story["orders"][0]["fills"][0]["exec_id"] == "x1"


def test_what_a_stranger_sent_does_not_steer_the_terminal(home: Path) -> None:
    assert "\x1b" not in run("show", "S1", "--home", home).out


@pytest.mark.parametrize("name", ["S99", "X1", "12", "S"])
def test_show_of_nothing_is_refused(home: Path, name: str) -> None:
    refused(run("show", name, "--home", home))


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite3").write_bytes(b"x" * 5000)
    assert "cannot be read" in refused(run("signals", "--home", tmp_path))
    (tmp_path / "ledger.sqlite3").write_bytes(b"")
    assert "not an Onefill ledger" in refused(run("signals", "--home", tmp_path))


def test_status_without_an_app_tells_what_the_ledger_knows(home: Path) -> None:
    shown = run("status", "--home", home)
    assert shown.code == 0
    assert "not running" in shown.out
    (found,) = run("status", "--home", home, "--json").objects
    assert found["state"] == "not running"
    assert found["trading_state"] == "active"
    assert (found["counts"]["signals"], found["counts"]["waiting"]) == (3, 2)


def test_status_without_anything_is_refused(tmp_path: Path) -> None:
    assert "no ledger" in refused(run("status", "--home", tmp_path))


def test_reading_leaves_the_ledger_as_it_is(home: Path) -> None:
    before = (home / "ledger.sqlite3").read_bytes()
    for name in LISTS:
        run(name, "--home", home)
    assert (home / "ledger.sqlite3").read_bytes() == before


def test_version_names_what_it_is_built_of() -> None:
    from app import __version__

    assert run("version").out.startswith(f"onefill {__version__} (python 3.")
    (built,) = run("version", "--json").objects
    assert built["version"] == __version__
    assert {"python", "sqlite", "apsw", "aiohttp", "qasync"} <= built.keys()


def test_help_lists_what_is_there_and_nothing_that_is_not() -> None:
    shown = run("--help")
    assert shown.code == 0
    for name in COMMANDS:
        assert f"  {name} " in shown.out
        assert run(name, "--help").code == 0
