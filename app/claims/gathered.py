"""Small facts that are written together: one operation for all that came since the last, however many.

What is gathered while the ledger cannot be written may be lost: nothing that an answer rests on goes here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from app.clock import SECOND, Clock
from app.ledger.transaction import Transaction
from app.ledger.writer import Writer

T = TypeVar("T", bound=Hashable)

AGAIN = 15 * SECOND
"""Longer than the writer lets anything wait for the ledger's lock: by then it was written, or given up."""


class Gathered(Generic[T]):
    """`write(tx, facts)` writes what was added, each fact with how often it was."""

    def __init__(
        self, writer: Writer, clock: Clock, write: Callable[[Transaction, Counter[T]], None]
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._write = write
        self._facts: Counter[T] = Counter()
        self._posted_at = clock.boot()
        self._lock = threading.Lock()

    def add(self, fact: T) -> None:
        """Called on a loop; written with the next commit, or soon."""
        now = self._clock.boot()
        with self._lock:
            is_due = not self._facts or now - self._posted_at > AGAIN
            if is_due:
                self._posted_at = now
            self._facts[fact] += 1
        if is_due:
            self._writer.post(self._operation())

    def _operation(self) -> Callable[[Transaction], None]:
        """Takes what has been added when it first runs; run again (HOLES H18) it writes the same."""
        taken: Counter[T] | None = None

        def write(tx: Transaction) -> None:
            nonlocal taken
            if taken is None:
                with self._lock:
                    taken, self._facts = self._facts, Counter()
            self._write(tx, taken)

        return write
