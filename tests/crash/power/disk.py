"""A disk under SQLite that remembers every write in order, and what a power cut after any would leave.

An apsw VFS over the real disk: the real files are written too. What is durable is a model, and a test holds
the model against the system calls (tests/crash/trace). Nothing of app is imported here.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

import apsw

SECTOR = 512
_numbers = itertools.count(1)

What = Literal["create", "delete", "rename", "write", "truncate", "sync", "folder"]


@dataclass(frozen=True, slots=True)
class Call:
    """One change that SQLite made. `number` is its place in the one order of calls and marks of a disk.

    `inode` tells a file from a later one of the same name; `offset` of a truncate is the new size; `data` of
    a rename is the old name; `folder` syncs the folder: only then names that came or went are durable.
    """

    number: int
    path: Path
    inode: int
    what: What
    offset: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that the program promised between two calls: an answer, a reply."""

    number: int
    kind: str
    name: str


class Disk(apsw.VFS):
    """Open with `vfs=disk.name`; `close` when done.

    `failing_syncs` syncs fail from now on, all written and nothing synced; `before_failing` is called in each
    of them. `lies_about` names files (by the beginning of their name) whose syncs do nothing: a disk that
    lies, for negative controls.
    """

    def __init__(self, lies_about: Sequence[str] = ()) -> None:
        self.name = f"recording-disk-{next(_numbers)}"
        super().__init__(self.name, "")
        self.failing_syncs = 0
        self.before_failing: Callable[[], None] | None = None
        self.calls: list[Call] = []
        self.marks: list[Mark] = []
        self.found: dict[Path, bytes] = {}
        """Files that were there before the first call, as they were."""
        self._lies_about = tuple(lies_about)
        self._inodes: dict[Path, int] = {}
        self._last = itertools.count(1)
        self._next_inode = itertools.count(1)
        self._lock = threading.Lock()

    def close(self) -> None:
        self.unregister()

    def mark(self, kind: str, name: str) -> None:
        """Notes a promise, from any thread, in the order of the calls."""
        with self._lock:
            self.marks.append(Mark(next(self._last), kind, name))

    def family(self, name: str) -> list[Call]:
        """The calls on one database: its file, its WAL, its journal."""
        return [call for call in self.calls if call.path.name in (name, f"{name}-wal", f"{name}-journal")]

    def image(self, folder: Path) -> None:
        """Writes into `folder` what a power cut now would leave of each file: what was synced."""
        folder.mkdir()
        for path, content in Remains(self.found, self.calls).after(Luck.NOTHING).items():
            (folder / path.name).write_bytes(content)

    # ------------------------------------------------------------------ called by SQLite

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        was_there = path.exists()
        file = _File(self, name, flags, path)
        if name is None:
            return file
        with self._lock:
            if not was_there:
                self._inodes[path] = next(self._next_inode)
                self._append(path, "create")
            elif path not in self._inodes:
                self._inodes[path] = next(self._next_inode)
                self.found[path] = path.read_bytes()
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        path = Path(filename)
        with self._lock:
            if path not in self._inodes:
                self._inodes[path] = next(self._next_inode)
            self._append(path, "delete")
            del self._inodes[path]
            if syncdir:
                self.calls.append(Call(next(self._last), path, 0, "folder"))

    def note(self, path: Path, what: What, offset: int = 0, data: bytes = b"") -> None:
        with self._lock:
            self._append(path, what, offset, data)

    def note_rename(self, old: Path, new: Path) -> None:
        """The program renamed a file that is on this disk, past SQLite."""
        with self._lock:
            self._inodes[new] = self._inodes.pop(old)
            self._append(new, "rename", data=str(old).encode())

    def holds(self, path: Path) -> bool:
        return path in self._inodes

    def is_honest_about(self, path: Path) -> bool:
        return not path.name.startswith(self._lies_about) if self._lies_about else True

    def _append(self, path: Path, what: What, offset: int = 0, data: bytes = b"") -> None:
        self.calls.append(Call(next(self._last), path, self._inodes.get(path, 0), what, offset, data))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int], path: Path) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = path
        journals = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        # SQLite's own disk layer syncs the folder once, after the first sync of a log that it may have made.
        self._owes_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & journals)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._disk.note(self._path, "write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._disk.note(self._path, "truncate", newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.failing_syncs > 0:
            self._disk.failing_syncs -= 1
            if self._disk.before_failing is not None:
                self._disk.before_failing()
            raise apsw.IOError("the disk refused to sync")
        super().xSync(flags)
        if not self._disk.is_honest_about(self._path):
            return
        self._disk.note(self._path, "sync")
        if self._owes_folder:
            self._owes_folder = False
            self._disk.note(self._path, "folder")


# ---------------------------------------------------------------------------------------- after the cut


class Luck(StrEnum):
    """What becomes of what was written and not synced."""

    NOTHING = "nothing"
    ALL = "all"
    """As after kill -9."""
    SOME = "some"
    """Each write whole or not at all."""
    TORN = "torn"
    """Each sector of 512 bytes by itself."""


Names = list[tuple[Path, int | None]]
"""One change of the folder, whole or not at all: names, and what each stands for then (None: nothing)."""


@dataclass(slots=True)
class _Inode:
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[Call] = field(default_factory=list)


class Remains:
    """The state of some files on the disk after a number of calls; `apply` goes on by one."""

    def __init__(self, found: dict[Path, bytes], calls: Iterable[Call] = ()) -> None:
        self._inodes: dict[int, _Inode] = {}
        self._names: dict[Path, int] = {}
        self._unsynced_names: list[Names] = []
        for number, (path, content) in enumerate(found.items(), 1):
            self._names[path] = -number
            self._inodes[-number] = _Inode(bytearray(content))
        self._first: dict[Path, int] = dict(self._names)
        for call in calls:
            self.apply(call)

    def apply(self, call: Call) -> None:
        match call.what:
            case "create":
                self._first.pop(call.path, None)
                self._inodes[call.inode] = _Inode()
                self._unsynced_names.append([(call.path, call.inode)])
            case "delete":
                self._first.pop(call.path, None)
                self._unsynced_names.append([(call.path, None)])
            case "rename":
                old = Path(call.data.decode())
                inode = self._first.pop(old, call.inode)
                self._first[call.path] = inode
                self._unsynced_names.append([(old, None), (call.path, inode)])
            case "folder":
                _rename(self._names, self._unsynced_names)
                self._unsynced_names = []
            case "sync":
                file = self._inode(call)
                for write in file.unsynced:
                    _write(file.durable, write)
                file.unsynced = []
            case "write" | "truncate":
                self._inode(call).unsynced.append(call)

    def after(self, luck: Luck, rng: random.Random | None = None) -> dict[Path, bytes]:
        """What each file holds if the power goes now. `rng` decides where luck is SOME or TORN."""
        names = dict(self._names)
        _rename(names, [name for name in self._unsynced_names if _is_kept(luck, rng)])
        left = {}
        for path, number in names.items():
            content = bytearray(self._inodes[number].durable)
            for write in self._inodes[number].unsynced:
                for part in _parts(write) if luck is Luck.TORN else [write]:
                    if _is_kept(luck, rng):
                        _write(content, part)
            left[path] = bytes(content)
        return left

    def _inode(self, call: Call) -> _Inode:
        return self._inodes[self._first.get(call.path, call.inode)]


def _is_kept(luck: Luck, rng: random.Random | None) -> bool:
    if luck in (Luck.NOTHING, Luck.ALL):
        return luck is Luck.ALL
    assert rng is not None
    return rng.random() < 0.5


def _rename(names: dict[Path, int], changes: Iterable[Names]) -> None:
    for path, inode in itertools.chain.from_iterable(changes):
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _write(content: bytearray, call: Call) -> None:
    if call.what == "truncate":
        del content[call.offset :]
    content.extend(bytes(max(0, call.offset - len(content))))
    content[call.offset : call.offset + len(call.data)] = call.data


def _parts(call: Call) -> Iterator[Call]:
    """A write cut at the disk's sectors; a truncate is one part."""
    if call.what == "truncate" or not call.data:
        yield call
        return
    begin = call.offset
    end = call.offset + len(call.data)
    while begin < end:
        stop = min(end, (begin // SECTOR + 1) * SECTOR)
        data = call.data[begin - call.offset : stop - call.offset]
        yield Call(call.number, call.path, call.inode, call.what, begin, data)
        begin = stop
