"""A loop on which the program's threads are queues: what runs next is drawn from a seed, and time is counted.

The same seed and the same calls give the same history, on any machine and under any load. Nothing here
waits, and nothing here knows what the program does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from app.clock import SECOND, ManualClock

T = TypeVar("T")


class PowerCut(BaseException):
    """The moment has come at which the program is to end as by `kill -9`."""


class Stalled(BaseException):
    """Nothing is left that could ever happen: no thread has work, no timer is set."""


@dataclass
class Machine:
    """What outlives a run of the program: its time in seconds, and its luck."""

    luck: Random
    time: float = 0.0
    jobs: int = 0
    """Pieces of work that threads have done so far."""
    cut_at: int | None = None
    """The number of `jobs` at which the power goes."""
    trace: list[str] = field(default_factory=list)

    def clock(self) -> MachineClock:
        return MachineClock(self)


class MachineClock(ManualClock):
    """Both clocks go with the machine's time, and can be set or put to sleep beside it."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    def now(self) -> int:
        return super().now() + round(self._machine.time * SECOND)

    def boot(self) -> int:
        return super().boot() + round(self._machine.time * SECOND)


class Thread(Executor):
    """One thread of the program: its work in order, a piece whenever the loop's luck says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.is_dead = False

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if not self.is_dead:
            self.work.append((future, lambda: call(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was handed over is done all the same."""

    def do_one(self) -> None:
        future, call = self.work.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - it goes to whoever waits, as in a real pool
            future.set_exception(error)
        else:
            future.set_result(result)


class Loop(asyncio.BaseEventLoop):
    """One run of the program."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.threads: list[Thread] = []
        self._awaited: asyncio.Task[Any]
        self._selector = self
        self._helper = self.thread(1, "helper")
        self.errors: list[str] = []
        self.set_exception_handler(self._note)

    def thread(self, max_workers: int = 1, thread_name_prefix: str = "") -> Thread:
        """In the place of a ThreadPoolExecutor of one worker."""
        assert max_workers == 1
        self.threads.append(Thread(thread_name_prefix))
        return self.threads[-1]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs one coroutine to its end, and with it whatever else is under way."""
        task: asyncio.Task[T] = self.create_task(work)
        self._awaited = task
        self.run_forever()
        return task.result()

    def bury(self) -> None:
        """The program is dead: no thread does anything more, and no task gets any further."""
        for thread in self.threads:
            thread.is_dead = True
            thread.work.clear()
        # A task that was made and never begun would be called forgotten.
        self.do(asyncio.sleep(0))
        while tasks := asyncio.all_tasks(self):
            for task in tasks:
                task.cancel()
            with suppress(Stalled):
                self.do(_ended(tasks))
        self.close()

    # ------------------------------------------------------------------ what asyncio asks of a loop

    def time(self) -> float:
        return self.machine.time

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        return super().run_in_executor(executor or self._helper, func, *args)

    def select(self, timeout: float | None) -> list[Any]:
        """Asked between two turns of the loop: a piece of a thread's work, or time, or nothing."""
        busy = [thread for thread in self.threads if thread.work]
        machine = self.machine
        if self._awaited.done():
            self.stop()
            return []
        if busy and (timeout != 0 or machine.luck.random() < 0.5):
            thread = machine.luck.choice(busy)
            machine.trace.append(thread.name)
            thread.do_one()
            machine.jobs += 1
        elif timeout is None:
            raise Stalled("nothing is left that could happen")
        else:
            machine.time += timeout
        if machine.cut_at is not None and machine.jobs >= machine.cut_at:
            machine.cut_at = None
            raise PowerCut
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def _note(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')} {context.get('exception')!r}")


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
