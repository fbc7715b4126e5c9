"""A ledger for the claim's transaction, new for every test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clock import ManualClock
from app.ledger.store import open_ledger
from tests.claims.kit import Bench


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
