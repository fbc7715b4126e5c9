"""A home with an empty ledger and paper exchange in it, made once: making them costs dozens of syncs."""

import asyncio
import shutil
from pathlib import Path

import pytest

from app.brokers.paper import FILE_NAME, PaperExchange
from app.clock import ManualClock
from app.ledger.store import open_ledger


@pytest.fixture(scope="session")
def home_made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made once")
    clock = ManualClock()
    open_ledger(home, clock.now()).close()

    async def make() -> None:
        exchange = PaperExchange(home / FILE_NAME, clock)
        await exchange.open()
        await exchange.close()

    asyncio.run(make())
    return home


@pytest.fixture
def tmp_path(tmp_path: Path, home_made_once: Path) -> Path:
    return Path(shutil.copytree(home_made_once, tmp_path, dirs_exist_ok=True))
