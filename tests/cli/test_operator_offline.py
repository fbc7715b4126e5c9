"""A person's decisions with no app running: resolve and reconcile ask the broker, everything else refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.engine.kit import running
from tests.engine.test_operator_commands import resting, to_a_person

WHY = ("--why", "I looked")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with O1, resting at the exchange and a person's here; nothing runs on it."""

    async def once() -> None:
        async with running(tmp_path / "home") as engine:
            await resting(engine)
            await to_a_person(engine)

    asyncio.run(once())
    return tmp_path / "home"


@pytest.mark.parametrize(
    "arguments",
    [
        ("replay", "O1"),
        ("admit", "D1"),
        ("close", "paper", "AAPL"),
        ("flatten", "paper"),
        ("book", "paper", "AAPL", "--set", "1"),
    ],
)
def test_h28_what_would_send_or_decide_without_a_broker_is_refused(
    home: Path, arguments: tuple[str, ...]
) -> None:
    said = refused(run(*arguments, *WHY, "--yes", "--home", home))
    assert said == f"no app is running on {home}: {arguments[0]} needs one"


def test_cancel_and_dismiss_need_an_app_too(home: Path) -> None:
    assert "cancel needs one" in refused(run("cancel", "O1", "--home", home))
    assert "dismiss needs one" in refused(run("dismiss", "D1", *WHY, "--home", home))


def test_h28_resolve_asks_the_broker_itself_and_the_same_request_is_done_once(home: Path) -> None:
    (need,) = run("needs", "--home", home, "--json").objects
    assert (need["severity"], need["subject"]) == ("critical", "O1")
    there = "".join(row["broker_order_id"] for row in run("orders", "--home", home, "--json").objects)
    why = refused(run("resolve", "O1", "--not-placed", *WHY, "--yes", "--home", home))
    assert why.startswith(f"the broker has O1: {there} (buy 1 AAPL, New)")
    why = refused(run("resolve", "O1", "--placed", "x", *WHY, "--yes", "--home", home))
    assert why == f"the broker shows no order x in paper; under our id it has {there}"
    once = ("resolve", "O1", "--placed", there, *WHY, "--yes", "--home", home, "--request-id", "r-1")
    done = run(*once)
    assert (done.code, done.lines) == (0, ["O1 is WORKING (was NEEDS_OPERATOR)"])
    assert run(*once).lines == done.lines
    events = [event["what"] for event in run("events", "--home", home, "--json").objects]
    assert events.count("resolved") == 1
    assert run("needs", "--home", home).lines == ["nothing needs you"]


def test_reconcile_needs_no_app(home: Path) -> None:
    done = run("reconcile", "--home", home)
    assert done.code == 0
    assert done.lines[0].startswith("paper: OK")
    assert "no account" in refused(run("reconcile", "nobody", "--home", home))


def test_what_was_never_started_is_not_made(tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert "no ledger" in refused(run("reconcile", "--home", new))
    assert "no ledger" in refused(run("resolve", "O1", "--look-again", *WHY, "--yes", "--home", new))
    assert "no ledger" in refused(run("needs", "--home", new))
    assert not new.exists()


def test_status_of_a_home_at_rest_tells_what_needs_a_person(home: Path) -> None:
    (status,) = run("status", "--home", home, "--json").objects
    assert status["counts"]["needs"] == 1
    assert "needs you: 1 (onefill needs)" in run("status", "--home", home).lines
