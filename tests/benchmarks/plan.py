"""How much is measured: all of it, or just enough to see that everything works."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Plan:
    """`folder` is where ledgers are written: on a real disk, or nothing means anything. Times in seconds."""

    folder: Path
    rounds: int = 9
    seconds: float = 2.0
    warm_up: float = 0.3
    window_rounds: int = 5
    window_seconds: float = 10.0
    window_rows: int = 10_000
    claims: int = 1_000_000
    starts: int = 5
    purged: int = 5_000
    cost_rounds: int = 60


def quick(folder: Path) -> Plan:
    return Plan(
        folder,
        rounds=1,
        seconds=0.3,
        warm_up=0.1,
        window_rounds=1,
        window_seconds=1.5,
        window_rows=500,
        claims=20_000,
        starts=1,
        purged=200,
        cost_rounds=4,
    )
