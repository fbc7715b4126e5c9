"""What can be told: something that stands until it is over, or something that has happened. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

CRITICAL, WARNING, NOTE = 2, 1, 0
"""How much a thing presses; only what is critical is told in quiet hours."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is so until it is not any more: one in Needs you, a part that is unwell.

    The same thing has the same `key`. It must have stood for `patience` microseconds before it is told.
    `over`: what is told when it has ended, where it had been told; empty for nothing.
    """

    key: str
    kind: str
    text: str
    rank: int = WARNING
    patience: int = 0
    over: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened, once: `number` counts up within its `stream`."""

    stream: str
    number: int
    kind: str
    text: str
    rank: int = NOTE

    @property
    def key(self) -> str:
        return f"{self.stream}{self.number}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one receiver; `keys` are what it tells."""

    title: str
    body: str
    rank: int
    keys: tuple[str, ...] = ()
