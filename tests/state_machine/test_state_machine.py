"""Any order of deliveries, faults, crashes, a person's presses and clock jumps, against a plain model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.state_machine.machine import Onefill


def run(home: Path, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        type("Onefill", (Onefill,), {"home_made_once": home}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(600)  # a busy machine is slower, and no other
def test_no_history_breaks_an_invariant(home_made_once: Path) -> None:
    run(home_made_once, 40, 20)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_no_long_history_breaks_an_invariant(home_made_once: Path) -> None:
    run(home_made_once, 400, 40)
