"""The product made worse, for controls that must fail: `python -m tests.crash.variants NAME serve ...`

Each is a mistake that a program of this kind can be written with. None of it can be had from the product.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import apsw

from app.brokers import paper_file
from app.cli import main
from app.ledger import batch, store
from app.ledger.entry import Entry, answer


def ledger_normal() -> None:
    """The ledger's commits are not synced."""
    configure = store.configure

    def configured(connection: apsw.Connection) -> None:
        configure(connection)
        connection.execute("PRAGMA synchronous = NORMAL").fetchall()

    store.configure = configured


def paper_normal() -> None:
    """The paper exchange's commits are not synced."""
    paper_file.SETTINGS = tuple(
        ("synchronous", "NORMAL", 1) if name == "synchronous" else (name, value, expected)
        for name, value, expected in paper_file.SETTINGS
    )


def answers_early() -> None:
    """A delivery is answered when its claim has been written, before the COMMIT."""
    attempt: Callable[[Any, Entry], bool] = batch.Committer._attempt

    def attempted(self: batch.Committer, entry: Entry) -> bool:
        done = attempt(self, entry)
        if done and entry.ticket is not None and entry.error is None and entry.ticket.acknowledge():
            answer([entry])
            time.sleep(0.02)
        return done

    batch.Committer._attempt = attempted  # type: ignore[method-assign]


class _OneSyncFails(apsw.VFS):
    """The disk of everything; the first sync of the ledger's log after `key` was written to it fails."""

    def __init__(self, key: bytes) -> None:
        super().__init__("one-sync-fails", "", makedefault=True)
        self.key = key
        self.is_due = False
        self.has_failed = False

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _OneSyncFailsFile(self, name, flags)


class _OneSyncFailsFile(apsw.VFSFile):
    def __init__(self, disk: _OneSyncFails, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._is_log = path.endswith("ledger.sqlite3-wal")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if self._is_log and self._disk.key in bytes(data):
            self._disk.is_due = True
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._is_log and self._disk.is_due and not self._disk.has_failed:
            self._disk.has_failed = True
            raise apsw.IOError("the disk refused to sync")
        super().xSync(flags)


def claim_unsynced() -> None:
    """Not worse, but unlucky: the disk refuses to sync the first alert's claim, once."""
    global _disk
    _disk = _OneSyncFails(b"entry-0001")


_disk: _OneSyncFails | None = None

VARIANTS: dict[str, Callable[[], None]] = {
    made.__name__: made for made in (ledger_normal, paper_normal, answers_early, claim_unsynced)
}

if __name__ == "__main__":
    VARIANTS[sys.argv[1]]()
    main(sys.argv[2:])
