"""The engine: everything that runs without a window, built, started, watched and stopped in one place.

Knows every room below it and no window, no command line and no control channel. It decides nothing about
orders.
"""

from app.engine.engine import Engine
from app.engine.status import CommandRefused, Fact, HookAddress, SampleAnswer, StartRefused, Status

__all__ = [
    "CommandRefused",
    "Engine",
    "Fact",
    "HookAddress",
    "SampleAnswer",
    "StartRefused",
    "Status",
]
