"""The one place where tasks are made: named, owned, awaited at stop, and never silent when they die.

Raw create_task is banned by lint: the loop keeps only weak references, and an error in a task that nobody
awaits is seen at garbage collection, if at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

Death = Callable[[str, BaseException], None]
_hear: list[Death] = []


def hear_deaths(listener: Death) -> Callable[[], None]:
    """Calls it with name and error of each task that dies, whoever owns it; returns what ends that."""
    _hear.append(listener)
    return lambda: _hear.remove(listener)


class Tasks:
    """A set of running tasks with one owner.

    `on_death(name, error)` is called when a task ends by an exception; cancelling is not a death.
    """

    def __init__(self, on_death: Death | None = None) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._on_death = on_death

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts `work` on the running loop under a name and keeps it until it ends."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def __len__(self) -> int:
        return len(self._running)

    def names(self) -> list[str]:
        return sorted(task.get_name() for task in self._running)

    async def stop(self) -> None:
        """Cancels what still runs and waits until all of it has ended."""
        running = [task for task in self._running if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        log.error("task died", task=task.get_name(), error=repr(error), exc_info=error)
        for listener in _hear:
            listener(task.get_name(), error)
        if self._on_death is not None:
            self._on_death(task.get_name(), error)
