"""kill -9 at random moments under load; the checker finds nothing in the product, and every mistake.

Other seed: ONEFILL_SEED=7 pytest tests/crash/kill_loop. By hand, any number of kills: see loop.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.crash.kill_loop.loop import Loop

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9"),
    pytest.mark.timeout(300),
]

SEED = int(os.environ.get("ONEFILL_SEED", "1"))


def survives(home: Path, seed: int, kills: int, variant: str = "") -> None:
    loop = Loop(home, seed, variant)
    loop.run(kills)
    assert loop.found == [], f"seed {seed}; what senders were told: {home}.acks.jsonl"
    assert loop.kills >= kills
    answered = {ack["key"] for ack in loop.senders.acks if ack["status"] == 200}
    assert len(answered) > 5 * kills, "hardly any load"


def test_eight_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    survives(tmp_path / "home", SEED, 8)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(10))
def test_hundreds_of_kills_lose_and_double_nothing(tmp_path: Path, part: int) -> None:
    survives(tmp_path / "home", SEED * 1_000 + part, 40)


# ------------------------------------------------------------------ what must be caught


@pytest.mark.parametrize(
    ("variant", "claims"),
    [
        ("check_then_insert", "S3"),
        ("claim_after_send", "S3"),
        ("resubmit_on_not_found", "S3"),
        ("no_compare_and_set", "S3"),
        ("answers_early", ("S2", "S5")),
    ],
)
def test_control_the_checker_catches(tmp_path: Path, variant: str, claims: str | tuple[str, ...]) -> None:
    loop = Loop(tmp_path / "home", SEED, variant)
    loop.run(12)
    assert [line for line in loop.found if line.startswith(claims)], loop.found


def test_what_the_controls_share_is_not_what_is_caught(tmp_path: Path) -> None:
    """Without client order ids that a restart makes again, the fences before that one still hold."""
    survives(tmp_path / "home", SEED, 3, "ids_of_its_own")
