"""Every place where a crash can be put: the program ends there, is started, and everything is sent again.

What is acknowledged stays, nothing is doubled, and the number of orders is exact (HOLES H35): one where the
crash fell before SUBMITTING or after the exchange's commit; none, and a NOT_PLACED to be seen, between them.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.failpoints.places import places
from tests.crash.failpoints.story import ENTRY, Story

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="the failpoints end the process as kill -9 does"),
    pytest.mark.timeout(120),
]

MAX_PASSES = 60
UNCLAIMED = "-"
EITHER = frozenset({0, 1})


@dataclass(frozen=True, slots=True)
class Crash:
    """What the first pass of a place leaves of the first alert: its order's state (None: not claimed), and
    how many orders the exchange has. `variant` is what makes the program come there at all."""

    states: frozenset[str | None]
    placed: frozenset[int]
    variant: str = ""


def _crash(states: str, placed: int | None, variant: str = "") -> Crash:
    known = {None if state == UNCLAIMED else state for state in states.split()}
    return Crash(frozenset(known), EITHER if placed is None else frozenset({placed}), variant)


# The lane works while the answer is on its way: how far it is at `*_200` is not the answer's to say.
ANY = "PENDING SUBMITTING WORKING DONE"
EXPECTED = {
    "before_recovery": _crash(UNCLAIMED, 0),
    "after_recovery": _crash(UNCLAIMED, 0),
    "before_commit": _crash(UNCLAIMED, 0),
    # The first commit is the account's own, and the claim may be in it.
    "after_commit": _crash(f"{UNCLAIMED} PENDING", 0),
    "before_barrier": _crash("PENDING", 0, "claim_unsynced"),
    # The barrier was written over the claim whose sync had failed.
    "after_barrier": _crash(UNCLAIMED, 0, "claim_unsynced"),
    "before_200": _crash(ANY, None),
    "after_200": _crash(ANY, None),
    "before_broker": _crash("SUBMITTING", 0),
    "after_broker": _crash("SUBMITTING", 1),
    "paper_account_before_commit": _crash(UNCLAIMED, 0),
    "paper_account_after_commit": _crash(UNCLAIMED, 0),
    "paper_price_before_commit": _crash("PENDING", 0),
    "paper_price_after_commit": _crash("PENDING", 0),
    "paper_before_commit": _crash("SUBMITTING", 0),
    "paper_after_commit": _crash("SUBMITTING", 1),
    "paper_fill_before_commit": _crash("SUBMITTING WORKING", 1),
    "paper_fill_after_commit": _crash("SUBMITTING WORKING", 1),
    "paper_cancel_before_commit": _crash("DONE", 1),
    "paper_cancel_after_commit": _crash("DONE", 1),
}
ELSEWHERE = {"between_purge_batches"}
"""Places that no alert comes by; the tests of their own room crash there."""
FAST = (
    "before_barrier",
    "after_barrier",
    "before_broker",
    "after_broker",
    "paper_before_commit",
    "paper_fill_before_commit",
    "paper_cancel_after_commit",
)
"""Where a crash leaves something else than at any other; the kills of test_kills.py are not done twice."""


def test_every_place_has_its_expectation() -> None:
    assert places() == set(EXPECTED) | ELSEWHERE


def crashed_at(place: str, home: Path) -> None:
    crash = EXPECTED[place]
    story = Story(home)
    assert story.run((place, crash.variant)) == [True]
    left = story.crashes[0]
    assert left.states.get(ENTRY.key) in crash.states
    assert left.placed[ENTRY.symbol, ENTRY.side] in crash.placed
    story.check()


@pytest.mark.parametrize("place", FAST)
def test_h35_a_crash_leaves_exact_counts(place: str, tmp_path: Path) -> None:
    crashed_at(place, tmp_path / "home")


@pytest.mark.long
@pytest.mark.parametrize("place", sorted(EXPECTED))
def test_h35_every_place(place: str, tmp_path: Path) -> None:
    crashed_at(place, tmp_path / "home")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", sorted(EXPECTED))
def test_h35_every_later_pass_of_every_place(place: str, tmp_path: Path) -> None:
    """Until a run to its end comes by less often than that."""
    for number in range(2, MAX_PASSES):
        story = Story(tmp_path / f"home-{number}")
        (reached,) = story.run((f"{place}={number}", EXPECTED[place].variant))
        story.check()
        if not reached:
            return
    pytest.fail(f"{place} is passed more than {MAX_PASSES} times")


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), list(itertools.product(sorted(EXPECTED), repeat=2)))
def test_h35_every_pair_of_places(first: str, second: str, tmp_path: Path) -> None:
    """The second place is armed in the program that was started after the first crash."""
    story = Story(tmp_path / "home")
    reached = story.run((first, EXPECTED[first].variant), (second, EXPECTED[second].variant))
    assert reached[0]
    story.check()
