"""Counts syncs: an APSW VFS that stands before the system's own and passes everything on."""

from __future__ import annotations

from collections import Counter

import apsw

NAME = "counting"


class CountingVFS(apsw.VFS):
    """Becomes the default. `syncs` by the end of the file's name: `wal` or `main`."""

    def __init__(self) -> None:
        self.syncs: Counter[str] = Counter()
        # By its name: "" is whichever is the default, which would be this one.
        self._system = apsw.vfs_names()[0]
        super().__init__(NAME, self._system, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _CountingFile(self._system, self.syncs, name, flags)


class _CountingFile(apsw.VFSFile):
    def __init__(
        self, system: str, syncs: Counter[str], name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._syncs = syncs
        self._kind = "wal" if path.endswith("-wal") else "main"
        super().__init__(system, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._syncs[self._kind] += 1
        super().xSync(flags)
