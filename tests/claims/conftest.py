"""A ledger for the claim's transaction, new for every test."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.clock import ManualClock
from app.ledger import batch
from app.ledger.store import open_ledger
from tests.claims.kit import Bench
from tests.claims.shop import Shop
from tests.ledger.bench import Bench as WriterBench
from tests.ledger.bench import Ledger


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a new ledger, closed, for copies: creating one costs a dozen syncs."""
    home = tmp_path_factory.mktemp("empty")
    open_ledger(home, ManualClock().now()).close()
    return home


@pytest.fixture
def home(empty: Path, tmp_path: Path) -> Path:
    """A home of the test's own with a new ledger, closed."""
    return Path(shutil.copytree(empty, tmp_path / "home"))


@pytest.fixture
def bench(home: Path) -> Iterator[Bench]:
    bench = Bench(home)
    yield bench
    bench.close()


@pytest.fixture
def ledger(home: Path) -> Iterator[Ledger]:
    made = Ledger(home)
    yield made
    made.close()


@pytest.fixture
async def shop(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    monkeypatch.setattr(batch, "LOCK_WAIT_MS", 5)
    bench = WriterBench(ledger, monkeypatch)
    yield Shop(bench)
    await bench.close()
