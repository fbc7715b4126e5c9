"""The machine under the histories: the same seed is the same history, and nothing of it is left to chance."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.state_machine import look
from tests.state_machine.conftest import Opened
from tests.state_machine.loop import Stalled


def play(opened: Opened, seed: int) -> tuple[list[str], list[Any], float]:
    """Two buys at once, a kill in the midst, a restart, a stop: what ran, what is in the books, and when."""
    world = opened(seed)
    world.run(world.desk.deliver(action="buy", quantity="5"))
    world.run_until_cut(world.desk.deliver(action="buy", quantity="3"), 12)
    world.start()
    world.progress(20)
    world.run(world.until(look.is_quiet, "everything is at rest"))
    world.stop()
    rows = look.paper_orders(world.home)
    assert world.wrong() == []
    there = [(row["quantity"], row["filled_quantity"], row["created_at"]) for row in rows]
    return world.machine.trace, there, world.machine.time


def test_a_history_played_again_is_the_same_and_another_seed_is_another(opened: Opened) -> None:
    first = play(opened, 1)
    assert play(opened, 1) == first
    assert {tuple(play(opened, seed)[0]) for seed in range(5)} != {tuple(first[0])}


def test_no_thread_of_the_program_is_a_thread_of_the_system(opened: Opened) -> None:
    before = set(threading.enumerate())
    world = opened(1)
    world.run(world.desk.deliver(action="buy", quantity="5"))
    world.run(world.press("backup", file=str(world.folder / "backup.sqlite3")))
    assert set(threading.enumerate()) == before


def test_a_killed_program_leaves_what_it_had_committed_and_nothing_else(opened: Opened) -> None:
    counts = set()
    for jobs in range(1, 30):
        world = opened(jobs)
        told = world.run_until_cut(world.desk.deliver(action="buy", quantity="3"), jobs)
        with world.ledger() as ledger:
            kept = len(ledger.execute("SELECT 1 FROM claims").fetchall())
        assert told is None or kept == 1
        counts.add((told is not None, kept))
    assert counts == {(False, 0), (False, 1), (True, 1)}


def test_what_waits_for_something_that_can_never_come_is_an_error(opened: Opened) -> None:
    world = opened(1)
    world.run(world.desk.trading.stop())
    with pytest.raises(Stalled):
        world.run(world.desk.trading._sessions["paper"].ready.wait())


def test_what_does_not_come_to_rest_is_an_error_in_no_time(opened: Opened) -> None:
    world = opened(1)
    with pytest.raises(AssertionError, match="never so: not in 900 s"):
        world.run(world.until(lambda _: False, "never so"))
