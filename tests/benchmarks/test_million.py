"""The command runs, does every doing and prints its figures. What they are, a test cannot say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.processes import ROOT, environment

DOINGS = (
    "open needs",
    "open health",
    "scroll to the middle",
    "read an old story",
    "filter by a word that few have",
    "filter by a time",
    "sort by outcome",
    "clear the filter",
)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_the_window_over_many_rows_does_everything_and_says_how_long_it_took(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.million", "--claims", "20000", "--folder", tmp_path],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if line.startswith("| ")]
    named = {line.split("|")[1].strip() for line in lines}
    assert named.issuperset(DOINGS)
    assert "Longest wait: " in run.stdout
    assert list(tmp_path.iterdir()) == [], "the ledger was left behind"
