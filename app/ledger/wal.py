"""The write-ahead log: how large it is, and when it is copied into the main file.

Between batches, never inside a COMMIT: SQLite's own checkpoint would run inside whichever COMMIT crosses its
limit and make that delivery wait (HOLES H24).
"""

from __future__ import annotations

import apsw
import structlog

log = structlog.get_logger(__name__)

PAGES_IDLE = 1_000
"""Copied as soon as nothing waits."""
PAGES_BUSY = 4_000
"""Copied between two batches although more waits."""
WARN_BYTES = 16 * 1024 * 1024
LOUD_BYTES = 64 * 1024 * 1024

_HEADER_BYTES = 32
_FRAME_BYTES = 24 + 4096
"""Frame header and page: 4096 is SQLite's default, which nothing here changes."""


class WriteAheadLog:
    """Watches the log of one writing connection. Used on the writer's thread; `bytes` from any."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._frames = 0
        self._copied = 0
        self.commits = 0
        """Commits that wrote something, and so proved that the disk takes it."""
        connection.wal_autocheckpoint(0)
        connection.set_wal_hook(self._note)

    @property
    def bytes(self) -> int:
        """Size of what is in the log and keeps it from being begun anew; 0 once all of it is copied."""
        if self._copied >= self._frames:
            return 0
        return _HEADER_BYTES + self._frames * _FRAME_BYTES

    @property
    def warning(self) -> str:
        """A sentence for the person while the log is too large, else ''."""
        size = self.bytes
        if size < WARN_BYTES:
            return ""
        if size < LOUD_BYTES:
            return f"the write-ahead log has grown to {size // 1_000_000} MB"
        return f"the write-ahead log has grown to {size // 1_000_000} MB: a reader keeps it from being copied"

    def copy(self, pages: int) -> None:
        """Copies the log into the main file if at least so many pages wait; a reader may keep some back."""
        try:
            # Asked for, since a commit's own count does not tell whether it began the log anew.
            self._frames, self._copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if self._frames - self._copied >= pages:
                mode = apsw.SQLITE_CHECKPOINT_PASSIVE
                self._frames, self._copied = self._connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            log.warning("checkpoint failed", error=str(error))

    def empty(self) -> None:
        """Copies everything and cuts the log to nothing, at the stop; what a reader keeps back stays."""
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error as error:
            log.warning("ledger not checkpointed at stop", error=str(error))

    def _note(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        if pages <= self._frames:
            self._copied = 0
        self._frames = pages
        self.commits += 1
        return apsw.SQLITE_OK
