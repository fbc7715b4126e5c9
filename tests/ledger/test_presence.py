"""A ledger whose file is gone answers nobody: what is written to it would not outlive the process."""

import asyncio
from pathlib import Path

import pytest

from app.clock import ManualClock
from app.ledger.errors import LedgerUnavailable
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer


def remember(tx: Transaction) -> None:
    tx.set_meta("remembered", "yes")


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
async def test_a_file_that_is_gone_is_noticed_before_anybody_is_answered(
    tmp_path: Path, suffix: str, how: str
) -> None:
    told: list[str] = []
    clock = ManualClock()
    writer = Writer(await asyncio.to_thread(open_ledger, tmp_path, clock.now()), clock, told.append)
    try:
        await writer.run(remember)
        path = tmp_path / f"{FILE_NAME}{suffix}"
        kept = path.read_bytes()
        if how == "moved":
            path.rename(tmp_path / "elsewhere")
        else:
            path.unlink()
        if how == "replaced":
            path.write_bytes(kept)
        with pytest.raises(LedgerUnavailable, match="moved, deleted or replaced"):
            await writer.run(lambda tx: tx.set_meta("claimed", "yes"))
        with pytest.raises(LedgerUnavailable):
            await writer.run(remember)
        assert len(told) == 1
        assert writer.health.word == "failing"
    finally:
        await writer.close()


async def test_a_file_that_stays_is_no_trouble(tmp_path: Path) -> None:
    clock = ManualClock()
    told: list[str] = []
    writer = Writer(await asyncio.to_thread(open_ledger, tmp_path, clock.now()), clock, told.append)
    try:
        for _ in range(3):
            await writer.run(remember)
    finally:
        await writer.close()
    assert told == []
