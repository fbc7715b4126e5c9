"""A ledger for the claim's transaction, new for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claims.kit import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()
