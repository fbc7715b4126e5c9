"""A power cut while the home is made: whatever is left of it, the next start works and trades.

Nobody was answered yet, so nothing can be lost; but a home that can never be opened again is lost too.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from app.ledger import store
from tests.crash.power.disk import Call, Disk, Luck, Remains
from tests.crash.power.restart import restart
from tests.crash.power.shop import BEGAN, CONFIG, made
from tests.crash.power.test_power import SEED, folder

__all__ = ["folder"]

pytestmark = pytest.mark.timeout(180)


@dataclass
class FirstStart:
    """What was written in a first start. `files` are those that SQLite does not write: when each was put in
    its place, and what it held."""

    home: Path
    disk: Disk = field(default_factory=Disk)
    files: list[tuple[int, str, bytes]] = field(default_factory=list)

    def replaced(self, old: Any, new: Any) -> None:
        old, new = Path(old), Path(new)
        if self.disk.holds(old):
            self.disk.note_rename(old, new)
        elif new.parent == self.home:
            self.disk.mark("file", new.name)
            self.files.append((self.disk.marks[-1].number, new.name, new.read_bytes()))

    def synced(self, descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self.disk.note(self.home, "folder")

    @contextmanager
    def watching(self) -> Iterator[None]:
        with (
            patch("os.replace", self._then(os.replace, self.replaced)),
            patch("os.rename", self._then(os.rename, self.replaced)),
            patch("os.fsync", self._then(os.fsync, self.synced)),
        ):
            yield

    @staticmethod
    def _then(function: Callable[..., Any], note: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:
            function(*arguments)
            note(*arguments)

        return called

    def develop(self, calls: list[Call], luck: Luck, rng: random.Random, home: Path) -> None:
        """Writes the home as it would be if the power went after these calls."""
        home.mkdir()
        (home / "config.toml").write_text(CONFIG)
        last = calls[-1].number if calls else 0
        for number, name, content in self.files:
            if number < last:
                (home / name).write_bytes(content)
                (home / name).chmod(0o600)
        for path, content in Remains(self.disk.found, calls).after(luck, rng).items():
            (home / path.name).write_bytes(content)


async def first_start(folder: Path) -> FirstStart:
    return await _watched(FirstStart(folder / "home"))


async def first_start_of_a_newer_version(folder: Path) -> FirstStart:
    """On a home whose ledger is of the first version."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    first_version = (await asyncio.to_thread(store.migrations))[:1]
    with patch.object(store, "migrations", lambda: first_version):
        connection = await asyncio.to_thread(store.open_ledger, home, BEGAN)
        connection.close()
    first = FirstStart(home)
    first.files.append((0, store.MARKER_NAME, (home / store.MARKER_NAME).read_bytes()))
    return await _watched(first)


async def _watched(first: FirstStart) -> FirstStart:
    with first.watching():
        await made(first.home, first.disk)
    first.disk.close()
    return first


async def refused_after(first: FirstStart, folder: Path, points: list[int]) -> tuple[int, list[Any]]:
    """How many different homes were started on, and what was wrong after which call."""
    rng = random.Random(SEED)
    seen: set[int] = set()
    wrong = []
    for point in points:
        for luck in Luck:
            home = folder / "cut"
            first.develop(first.disk.calls[:point], luck, rng, home)
            picture = hash(frozenset((path.name, path.read_bytes()) for path in home.iterdir()))
            if picture not in seen:
                seen.add(picture)
                lines = await restart(home, set(), set())
                wrong += [(point, luck, lines)] if lines else []
            shutil.rmtree(home)
    return len(seen), wrong


async def test_a_power_cut_in_the_first_start_leaves_a_home_that_starts(folder: Path) -> None:
    first = await first_start(folder)
    calls = first.disk.calls
    assert {call.path.name for call in calls if call.what == "rename"} == {"ledger.sqlite3", "paper.sqlite3"}
    assert "ledger.id" in {name for _, name, _ in first.files}
    turns = {place for place, call in enumerate(calls) if call.what in ("rename", "folder", "create")}
    points = sorted({place + after for place in turns for after in (0, 1)} | {len(calls)})
    tried, wrong = await refused_after(first, folder, points)
    assert wrong == []
    assert tried > 20


async def test_h41_a_power_cut_in_an_upgrade_leaves_a_home_that_starts(folder: Path) -> None:
    first = await first_start_of_a_newer_version(folder)
    calls = first.disk.calls
    log = [place for place, call in enumerate(calls) if call.path.name == "ledger.sqlite3-wal"]
    # The log's own head, then the migration.
    _, migrated = [place for place in log if calls[place].what == "sync"][:2]
    tried, wrong = await refused_after(first, folder, list(range(0, migrated + 2, 2)))
    assert wrong == []
    assert tried > 10


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_every_power_cut_in_the_first_start_leaves_a_home_that_starts(folder: Path) -> None:
    first = await first_start(folder)
    tried, wrong = await refused_after(first, folder, list(range(len(first.disk.calls) + 1)))
    assert wrong == []
    assert tried > 200
