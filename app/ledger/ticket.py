"""A delivery's one answer, settled once: acknowledged by the writer, or too late by the door's deadline.

Both sides race for it, on two threads, and exactly one wins (HOLES H17): whoever was told 503 is never
treated as acknowledged, and whoever is acknowledged was committed first.
"""

from __future__ import annotations

import threading
from enum import Enum


class Outcome(Enum):
    OPEN = "open"
    ACK = "ack"
    LATE = "late"


class Ticket:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcome = Outcome.OPEN

    @property
    def outcome(self) -> Outcome:
        return self._outcome

    def acknowledge(self) -> bool:
        """The writer's call, after COMMIT has returned. True if the delivery may be answered."""
        return self._settle(Outcome.ACK)

    def expire(self) -> bool:
        """The door's call at its deadline, the writer's when it refuses. True if the answer must be 503."""
        return self._settle(Outcome.LATE)

    def _settle(self, outcome: Outcome) -> bool:
        with self._lock:
            if self._outcome is Outcome.OPEN:
                self._outcome = outcome
            return self._outcome is outcome
