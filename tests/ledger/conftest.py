"""A ledger on a faulty disk, with its writer, closed and checked for leaks after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.ledger import batch
from tests.ledger.bench import Bench, Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A new ledger, open, without a writer; one source `src` and one account `paper`."""
    made = Ledger(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
async def bench(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """The ledger with a writer that tries for a lock every 5 ms."""
    monkeypatch.setattr(batch, "LOCK_WAIT_MS", 5)
    made = Bench(ledger, monkeypatch)
    yield made
    await made.close()
