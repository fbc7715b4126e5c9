"""Random faults, kills and duplicates, judged at the end; the seed is printed with what was found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.drill.soak import soak

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills as kill -9 does"),
    pytest.mark.timeout(200),
]


async def test_a_short_soak_doubles_and_loses_nothing(tmp_path: Path) -> None:
    tally = await soak(tmp_path, seconds=5, seed=7)
    assert tally.violations == []
    counts = tally.counts
    assert min(counts["signals"], counts["kills"], counts["faults"], counts["orders at the exchange"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("id_class", ["B", "C", "E"])
async def test_a_longer_soak_of_every_class(tmp_path: Path, seed: int, id_class: str) -> None:
    tally = await soak(tmp_path, seconds=45, seed=seed, id_class=id_class)  # type: ignore[arg-type]
    assert tally.violations == [], tally.line()
