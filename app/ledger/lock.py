"""One instance a home: a lock on a file that outlives nobody.

The operating system lets go of it when the process ends, however it ends, so a lock file that was left
behind means nothing. Never on a network share: `doctor` says so.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)


class AlreadyRunning(Exception):
    """Another instance holds this home."""


class InstanceLock:
    """Held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Raises AlreadyRunning if another instance holds it, OSError if the file cannot be had at all."""
        if self._descriptor is not None:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            _lock(descriptor)
        except (BlockingIOError, PermissionError) as error:
            os.close(descriptor)
            raise AlreadyRunning(
                f"another Onefill is running on {self._path.parent}; close it first, or use another --home"
            ) from error
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def lost(self) -> str | None:
        """Why another instance could take this home although the lock is held; None while it could not.

        The lock is on the file, not on its name: where the name is gone, or is another file's now, a second
        instance locks that one. Blocking.
        """
        if self._descriptor is None:
            return None
        held = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            what = "was removed"
        except OSError as error:
            # A disk that does not answer proves nothing; the ledger's own health has a word for it.
            log.warning("the lock could not be looked at", error=str(error))
            return None
        else:
            if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino):
                return None
            what = "was replaced"
        return f"{self._path.name} {what} while Onefill ran: another instance may be running on this home"

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


if sys.platform == "win32":  # pragma: no cover - the other branch's twin
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
