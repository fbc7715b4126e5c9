"""Who runs on which core: sender and receiver must not take it from each other. Only Linux can."""

from __future__ import annotations

import os
import sys
from typing import Literal

Role = Literal["receiver", "sender"]


def can_pin() -> bool:
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) >= 2


def pin(role: Role) -> None:
    """Keeps this process, and the threads it will start, on its role's core."""
    if sys.platform == "linux" and can_pin():
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[0] if role == "receiver" else cores[1]})
