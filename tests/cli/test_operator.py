"""A person's decisions as typed commands against the real program: shown, asked once, done once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.operator import command_line
from tests.cli.kit import refused, run
from tests.crash.program import Program, alert, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the control channel of Windows is a pipe")

WHY = ("--why", "I looked")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with Program(tmp_path / "home") as running:
        running.start()
        yield running
        running.end()


def order(program: Program, number: int) -> dict[str, Any]:
    return program.rows(f"SELECT * FROM v_orders WHERE number = {number}")[0]


def in_state(program: Program, number: int, state: str) -> dict[str, Any]:
    until(lambda: len(program.rows("SELECT 1 FROM orders")) >= number, f"order {number}")
    until(lambda: order(program, number)["state"] == state, f"order {number} to be {state}")
    return order(program, number)


def test_close_shows_what_it_will_do_asks_once_and_does_it_once(program: Program) -> None:
    program.post(alert("in"))
    program.settled_orders(1)
    home = ("--home", program.home)
    said_no = run("close", "paper", "AAPL", *WHY, *home, stdin="n\n")
    assert said_no.code == 1
    assert "O2  paper AAPL of tradingview: sell 1" in said_no.err
    assert said_no.err.endswith("onefill: nothing was done: answer y, or give --yes\n")
    assert len(program.rows("SELECT 1 FROM orders")) == 1
    done = run("close", "paper", "AAPL", *WHY, *home, "--request-id", "c-1", stdin="y\n")
    assert (done.code, done.lines) == (0, ["O2  paper AAPL of tradingview: sell 1"])
    in_state(program, 2, "DONE")
    # The same request again: its question is answered already, and nothing is asked or made.
    again = run("close", "paper", "AAPL", *WHY, *home, "--request-id", "c-1", "--json")
    assert [one["order"] for one in again.objects[0]["orders"]] == ["O2"]
    assert len(program.exchange_orders()) == 2


def test_flatten_while_halted_and_what_is_not_there(program: Program) -> None:
    home = ("--home", program.home)
    for symbol in ("AAPL", "MSFT"):
        program.post(alert(symbol, symbol=symbol))
    program.settled_orders(2)
    run("halt", *home)
    done = run("flatten", "paper", *WHY, "--yes", *home)
    assert done.lines == [
        "O3  paper AAPL of tradingview: sell 1",
        "O4  paper MSFT of tradingview: sell 1",
    ]
    program.settled_orders(4)
    assert run("flatten", "paper", *WHY, "--yes", *home).lines == ["nothing of ours is open in paper"]
    assert "nothing of ours is open on TSLA" in refused(run("close", "paper", "TSLA", *WHY, "--yes", *home))
    assert "there is no account 'live'" in refused(run("flatten", "live", *WHY, "--yes", *home))


def test_cancel_needs_no_reason_and_no_question(program: Program) -> None:
    home = ("--home", program.home)
    program.post(alert("rests", type="limit", limit_price=5))
    in_state(program, 1, "WORKING")
    done = run("cancel", "O1", *home)
    assert (done.code, done.lines) == (0, ["O1 was WORKING: the broker is asked to cancel it"])
    in_state(program, 1, "DONE")
    assert refused(run("cancel", "O1", *home)) == "O1 is DONE: there is nothing to cancel"


def test_replay_admit_and_dismiss(program: Program) -> None:
    home = ("--home", program.home)
    program.post(alert("in"))
    program.settled_orders(1)
    run("halt", *home)
    program.post(alert("out", action="exit"))
    program.settled_orders(2)
    assert "trading is halted" in refused(run("replay", "O2", *WHY, "--yes", *home))
    run("resume", *home)
    until(lambda: program.status()["counts"]["needs"] == 1, "the count of what needs a person")
    (status,) = run("status", *home, "--json").objects
    assert [need["subject"] for need in status["needs"]] == ["O2"]
    text = run("status", *home).out
    assert "needs you: 1 (onefill needs)" in text
    assert "The exit O2 (exit AAPL from tradingview) was not done; its book still holds 1." in text
    shown = run("replay", "o2", *WHY, *home, stdin="y\n")
    assert shown.lines == [
        "O2  paper AAPL: goes out again as O3, generation 2 (was DENIED TRADING_HALTED state=halted)"
    ]
    assert in_state(program, 3, "DONE")["filled_quantity"] == "1"

    program.post(alert("in", quantity=2))
    (need,) = run("needs", *home, "--json").objects
    assert (need["kind"], need["subject"]) == ("conflict", "D3")
    assert run("needs", *home).lines[-2:] == [
        "    onefill admit D3 --why TEXT",
        "    onefill dismiss D3 --why TEXT",
    ]
    admitted = run("admit", "D3", *WHY, "--yes", *home)
    assert admitted.lines == ["D3 is signal S3: paper AAPL"]
    assert in_state(program, 4, "DONE")["filled_quantity"] == "2"
    assert refused(run("admit", "D3", *WHY, "--yes", *home)) == "D3 was admitted already, as S3"
    program.post(alert("in", quantity=3))
    assert run("dismiss", "D4", *WHY, *home).lines == ["put away: D4"]
    assert run("needs", *home).lines == ["nothing needs you"]


def test_book_is_corrected_on_what_was_shown(program: Program) -> None:
    home = ("--home", program.home)
    program.post(alert("in", quantity=3))
    program.settled_orders(1)
    done = run("book", "paper", "AAPL", "--set", "1.5", *WHY, *home, stdin="y\n")
    assert done.lines == ["paper AAPL of tradingview: 3 -> 1.5 (-1.5)"]
    assert run("book", "paper", "AAPL", "--set=-2", *WHY, "--yes", *home).code == 0
    (position,) = run("positions", *home, "--json").objects
    assert position["quantity"] == "-2"
    assert "is no quantity" in refused(run("book", "paper", "AAPL", "--set", "x", *WHY, "--yes", *home))


def test_resolve_asks_the_broker_of_a_running_app(program: Program) -> None:
    home = ("--home", program.home)
    program.post(alert("in"))
    program.settled_orders(1)
    why = refused(run("resolve", "O1", "--not-placed", *WHY, "--yes", *home))
    assert why == "O1 is DONE: there is nothing to resolve"
    asked = run("resolve", "O1", "--look-again", *WHY, *home, stdin="n\n")
    assert asked.code == 1
    assert asked.err.startswith("O1  paper  AAPL  buy  1  DONE  Filled\n")
    assert "ask the broker again for O1. Say so?" in asked.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("resolve", "O1", "--not-placed"),
        ("replay", "O1"),
        ("admit", "D1"),
        ("dismiss", "D1"),
        ("close", "paper", "AAPL"),
        ("flatten", "paper"),
        ("book", "paper", "AAPL", "--set", "1"),
    ],
)
def test_without_a_reason_nothing_is_even_asked(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--home", tmp_path)
    assert done.code == 2
    assert "this needs a reason: --why TEXT" in done.err


@pytest.mark.parametrize("options", [(), ("--not-placed", "--look-again"), ("--placed", "x", "--not-placed")])
def test_a_resolve_says_exactly_one_thing(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run("resolve", "O1", *options, *WHY, "--home", tmp_path)
    assert done.code == 2
    assert "say one of --placed BROKER-ID, --not-placed, --look-again" in done.err


@pytest.mark.parametrize(
    ("action", "typed"),
    [
        (
            {"command": "resolve", "arguments": {"order": "O1", "answer": "placed"}},
            "resolve O1 --placed BROKER-ID --why TEXT",
        ),
        (
            {"command": "resolve", "arguments": {"order": "O1", "answer": "look_again"}},
            "resolve O1 --look-again --why TEXT",
        ),
        ({"command": "replay", "arguments": {"order": "O1"}}, "replay O1 --why TEXT"),
        ({"command": "cancel", "arguments": {"order": "O1"}}, "cancel O1"),
        ({"command": "reconcile", "arguments": {"account": "paper"}}, "reconcile paper"),
        (
            {"command": "close", "arguments": {"account": "paper", "symbol": "BRK B"}},
            "close paper 'BRK B' --why TEXT",
        ),
        (
            {
                "command": "book",
                "arguments": {
                    "account": "paper",
                    "symbol": "AAPL",
                    "source": "tv",
                    "strategy": "my cross",
                    "quantity": "-3",
                },
            },
            "book paper AAPL --set -3 --source tv --strategy 'my cross' --why TEXT",
        ),
        (
            {"command": "book", "arguments": {"account": "paper", "symbol": "AAPL"}},
            "book paper AAPL --set QUANTITY --why TEXT",
        ),
    ],
)
def test_an_action_is_shown_as_it_is_typed(action: dict[str, Any], typed: str) -> None:
    assert command_line(action) == typed
