"""Whether the files that are written are still the ones that the next start will find.

A file that was moved, deleted or replaced while it is open takes every write and keeps none of them: each
sync succeeds, and what it promises is gone with the process.
"""

from __future__ import annotations

import os

import apsw

Identity = tuple[int, int]


class Presence:
    """Remembers which files a connection has open, by device and inode, as they stand now.

    What was not there at the start (a disk of a test's own) is not asked about.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        path = connection.filename
        found = {name: _identity(name) for name in (path, f"{path}-wal")} if path else {}
        self._known = {name: identity for name, identity in found.items() if identity is not None}

    def lost(self) -> str | None:
        """The name of a file that is no longer the one that is open, or None. Two stat calls."""
        return next((name for name, identity in self._known.items() if _identity(name) != identity), None)


def _identity(name: str) -> Identity | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino
