"""Where the power goes, and what is then on the disk: the home of a recorded run as it would be found.

The ledger and the paper exchange are cut at points of their own (HOLES H42).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.brokers.paper import FILE_NAME as PAPER_FILE
from app.ledger.store import FILE_NAME as LEDGER_FILE
from tests.crash.power.disk import Call, Disk, Luck, Mark, Remains

CHANCES = (Luck.SOME, Luck.TORN)


@dataclass(frozen=True, slots=True)
class Cut:
    """How many calls of each file the disk has taken, and what becomes of those that were not synced."""

    ledger: int
    paper: int
    ledger_luck: Luck
    paper_luck: Luck
    seed: int


@dataclass(slots=True)
class Film:
    """A recorded run: the home before it, the calls of each file in order, the promises between them."""

    before: Path
    found: dict[Path, bytes]
    ledger: list[Call]
    paper: list[Call]
    marks: list[Mark]
    _seen: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, before: Path, disk: Disk) -> Film:
        return cls(before, disk.found, disk.family(LEDGER_FILE), disk.family(PAPER_FILE), disk.marks)

    # ------------------------------------------------------------------ cuts

    def moments(self) -> Iterator[tuple[int, int]]:
        """The same moment for both files: before the first call, and after each, whichever file's it is."""
        yield 0, 0
        ledger = paper = 0
        calls = sorted([*self.ledger, *self.paper], key=lambda call: call.number)
        for call in calls:
            of_ledger = call.path.name.startswith(LEDGER_FILE)
            ledger += of_ledger
            paper += not of_ledger
            yield ledger, paper

    def syncs(self, calls: list[Call]) -> list[int]:
        """The cut points right before and right after each sync."""
        points = {0, len(calls)}
        for place, call in enumerate(calls):
            if call.what in ("sync", "folder"):
                points |= {place, place + 1}
        return sorted(points)

    def every_cut(self, seed: int) -> Iterator[Cut]:
        """Every boundary of either file, with the other cut at the same moment, at a moment of its own, and
        at none; and every pair of sync boundaries."""
        rng = random.Random(seed)
        for ledger, paper in self.moments():
            for luck in Luck:
                yield Cut(ledger, paper, luck, luck, rng.getrandbits(32))
            yield Cut(ledger, paper, rng.choice(CHANCES), rng.choice(list(Luck)), rng.getrandbits(32))
        for ledger in range(len(self.ledger) + 1):
            for paper in (rng.randint(0, len(self.paper)), len(self.paper)):
                yield Cut(ledger, paper, *_lucks(rng), rng.getrandbits(32))
        for paper in range(len(self.paper) + 1):
            for ledger in (rng.randint(0, len(self.ledger)), len(self.ledger)):
                yield Cut(ledger, paper, *_lucks(rng), rng.getrandbits(32))
        for ledger in self.syncs(self.ledger):
            for paper in self.syncs(self.paper):
                yield Cut(ledger, paper, Luck.NOTHING, Luck.NOTHING, 0)

    def some_cuts(self, seed: int, count: int) -> list[Cut]:
        """Around every sync of either file what is synced alone, and a seeded choice of all others."""
        around = {(point, "ledger") for point in self.syncs(self.ledger)}
        around |= {(point, "paper") for point in self.syncs(self.paper)}
        sharp, others = [], []
        before = (0, 0)
        for ledger, paper in self.moments():
            moved = (ledger, "ledger") if ledger != before[0] else (paper, "paper")
            before = (ledger, paper)
            if moved in around:
                sharp.append(Cut(ledger, paper, Luck.NOTHING, Luck.NOTHING, 0))
        others = list(self.every_cut(seed))
        rng = random.Random(seed)
        return sharp + rng.sample(others, min(count, len(others)))

    # ------------------------------------------------------------------ what is left

    def develop(self, cut: Cut, home: Path) -> bool:
        """Writes the home as it is after the cut; False, and nothing written, if the same was made before."""
        rng = random.Random(cut.seed)
        files = {
            **_left(self.found, self.ledger[: cut.ledger], LEDGER_FILE, cut.ledger_luck, rng),
            **_left(self.found, self.paper[: cut.paper], PAPER_FILE, cut.paper_luck, rng),
        }
        picture = hash((frozenset(files.items()), frozenset(self.answered(cut)), frozenset(self.placed(cut))))
        if picture in self._seen:
            return False
        self._seen.add(picture)
        shutil.copytree(self.before, home, ignore=shutil.ignore_patterns("*.sqlite3*"))
        for name, content in files.items():
            (home / name).write_bytes(content)
        return True

    def answered(self, cut: Cut) -> set[str]:
        """The keys that were answered 200 before the ledger's cut."""
        return self._promised("answered", self.ledger, cut.ledger)

    def placed(self, cut: Cut) -> set[str]:
        """The client order ids that the exchange had confirmed before its cut."""
        return self._promised("placed", self.paper, cut.paper)

    def _promised(self, kind: str, calls: list[Call], taken: int) -> set[str]:
        """Up to the last instant before the next call."""
        until = calls[taken].number if taken < len(calls) else None
        return {
            mark.name for mark in self.marks if mark.kind == kind and (until is None or mark.number < until)
        }


def _left(
    found: dict[Path, bytes], calls: list[Call], name: str, luck: Luck, rng: random.Random
) -> dict[str, bytes]:
    own = {path: content for path, content in found.items() if path.name.startswith(name)}
    return {path.name: content for path, content in Remains(own, calls).after(luck, rng).items()}


def _lucks(rng: random.Random) -> tuple[Luck, Luck]:
    return rng.choice(list(Luck)), rng.choice(list(Luck))
