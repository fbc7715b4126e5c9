"""A ledger on a faulty disk, with its writer, closed and checked for leaks after each test."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.ledger import batch
from app.ledger.store import open_ledger
from tests.ledger.bench import Bench, Ledger


@pytest.fixture(scope="session")
def home_made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a new ledger, closed. Creating one costs a dozen syncs, copying it none."""
    home = tmp_path_factory.mktemp("made once")
    open_ledger(home, 1).close()
    return home


@pytest.fixture
def empty_home(home_made_once: Path, tmp_path: Path) -> Path:
    """A home of the test's own with a new ledger, closed."""
    return Path(shutil.copytree(home_made_once, tmp_path / "home"))


@pytest.fixture
def ledger(empty_home: Path) -> Iterator[Ledger]:
    """A new ledger, open, without a writer; one source `src` and one account `paper`."""
    made = Ledger(empty_home)
    yield made
    made.close()


@pytest.fixture
async def bench(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """The ledger with a writer that tries for a lock every 5 ms."""
    monkeypatch.setattr(batch, "LOCK_WAIT_MS", 5)
    made = Bench(ledger, monkeypatch)
    yield made
    await made.close()
