"""A disk under SQLite that notes every call and on which a test can hold one up, or let it fail.

The real files are written, so that a copy of the folder taken inside a call is what a kill there leaves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Call:
    """`file` is `main`, `wal` or `journal`; `what` is `write`, `sync`, `truncate` or `delete`."""

    file: str
    what: str
    offset: int = 0
    data: bytes = b""


Hook = Callable[[Call], None]


class FaultyVFS(apsw.VFS):
    """Open with `vfs=disk.name`; `close` unregisters it.

    `before` is called before each call goes to the disk: it may wait, copy files, or raise what SQLite
    shall see (`disk_full`, `disk_broken`). `calls` is what went through, in order.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        super().__init__(self.name, "")
        self.before: Hook | None = None
        self.calls: list[Call] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.note(Call(_kind(filename), "delete"))
        super().xDelete(filename, syncdir)

    def note(self, call: Call) -> None:
        if self.before is not None:
            self.before(call)
        self.calls.append(call)

    def count(self, file: str, what: str) -> int:
        return sum(1 for call in self.calls if (call.file, call.what) == (file, what))

    def close(self) -> None:
        self.before = None
        self.unregister()


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._kind = _kind(path or "")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.note(Call(self._kind, "write", offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.note(Call(self._kind, "truncate", newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.note(Call(self._kind, "sync"))
        super().xSync(flags)


def _kind(path: str) -> str:
    name = Path(path).name
    return "wal" if name.endswith("-wal") else "journal" if name.endswith("-journal") else "main"


def disk_full() -> apsw.FullError:
    return apsw.FullError("database or disk is full")


def disk_broken() -> apsw.IOError:
    return apsw.IOError("disk I/O error")
