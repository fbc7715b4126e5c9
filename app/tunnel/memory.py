"""What a tunnel leaves in the home: which address was copied last, and which process is ours.

Blocking: run it on a thread. A file that cannot be read is as if it were not there: nothing but a
warning to a person rests on it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from app.settings import create_home, write_private
from app.tunnel.orphan import Mark, end_orphan

log = structlog.get_logger(__name__)

FOLDER = "tunnel"
T = TypeVar("T")


class Copied(msgspec.Struct, frozen=True):
    """`address`: the public address that a person took last; `at` in UTC microseconds."""

    address: str
    at: int


class TunnelMemory:
    def __init__(self, home: Path) -> None:
        self.folder = home / FOLDER
        self._copied = self.folder / "copied.json"
        self._child = self.folder / "child.json"

    def copied(self) -> Copied | None:
        return _read(self._copied, Copied)

    def keep_copied(self, copied: Copied) -> None:
        """OSError or ConfigError where it cannot be kept."""
        self._write(self._copied, msgspec.json.encode(copied).decode())

    def keep_child(self, mark: Mark) -> None:
        try:
            self._write(self._child, msgspec.json.encode(mark).decode())
        except OSError as error:
            log.warning("which process the tunnel is could not be kept", error=error.strerror)

    def end_orphan(self) -> bool:
        """Ends what an earlier run left, if it is still that very process."""
        mark = _read(self._child, Mark)
        ended = mark is not None and end_orphan(mark)
        self.forget_child()
        return ended

    def forget_child(self) -> None:
        with contextlib.suppress(OSError):
            self._child.unlink(missing_ok=True)

    def put(self, name: str, text: str) -> Path:
        """A file for the program alone, 0600."""
        path = self.folder / name
        self._write(path, text)
        return path

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)

    def _write(self, path: Path, text: str) -> None:
        create_home(self.folder)
        write_private(path, text)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        log.warning("a file of the tunnel cannot be read", file=path.name, error=type(error).__name__)
        return None
