"""The home that a history starts from, and worlds that do not outlive their test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.execution.conftest import home_made_once
from tests.execution.kit import CONFIG
from tests.state_machine.history import RULES
from tests.state_machine.world import World

__all__ = ["home_made_once", "opened"]

Opened = Callable[[int], World]


@pytest.fixture
def opened(home_made_once: Path) -> Iterator[Opened]:
    """Makes worlds of a seed each, the program started."""
    worlds: list[World] = []

    def made(seed: int) -> World:
        worlds.append(World(home_made_once, seed))
        worlds[-1].config = CONFIG + RULES
        worlds[-1].start()
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()
