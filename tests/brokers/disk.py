"""A disk that can lose power and refuse to sync, as an apsw VFS over the real one.

What was written since a file's last sync is lost in a power cut; `image` writes what would be left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw


class Disk(apsw.VFS):
    """Use as `vfs=disk.name`, `unregister` when done. `failing_syncs` is how many syncs fail from now on.

    `before_failing` is called in each of them, when all of the transaction is written and none of it synced.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.failing_syncs = 0
        self.before_failing: Callable[[], None] | None = None
        self.syncs = 0
        self.durable: dict[Path, bytearray] = {}

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.durable.pop(Path(filename), None)

    def image(self, folder: Path) -> None:
        """Writes into `folder` what a power cut now would leave of each file."""
        folder.mkdir()
        for path, content in self.durable.items():
            (folder / path.name).write_bytes(content)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        self._unsynced: list[tuple[int, bytes | None]] = []
        if self._path not in disk.durable:
            disk.durable[self._path] = bytearray(self._path.read_bytes() if self._path.exists() else b"")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._unsynced.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._unsynced.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.failing_syncs > 0:
            self._disk.failing_syncs -= 1
            if self._disk.before_failing is not None:
                self._disk.before_failing()
            raise apsw.IOError("the disk refused to sync")
        super().xSync(flags)
        self._disk.syncs += 1
        content = self._disk.durable[self._path]
        for offset, data in self._unsynced:
            if data is None:
                del content[offset:]
                continue
            content.extend(bytes(max(0, offset + len(data) - len(content))))
            content[offset : offset + len(data)] = data
        self._unsynced.clear()
