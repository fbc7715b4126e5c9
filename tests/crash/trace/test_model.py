"""The disk of the power cuts against the system calls: it records what SQLite does, and syncs no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.program import PATIENCE, ROOT, until
from tests.crash.trace.calls import SystemCall, read, traced, why_not
from tests.crash.trace.recorded import BEGIN, END

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"no trace: {why_not()}")

FILES = ("ledger.sqlite3", "ledger.sqlite3-wal", "paper.sqlite3", "paper.sqlite3-wal")
WHAT = {
    "pwrite64": "write",
    "ftruncate": "truncate",
    "fsync": "sync",
    "fdatasync": "sync",
    "unlink": "delete",
}
Change = tuple[str, str, int, int]


def test_the_recording_disk_and_the_system_saw_the_same(tmp_path: Path) -> None:
    home, log, out = tmp_path / "home", tmp_path / "strace.log", tmp_path / "calls.json"
    command = [sys.executable, "-m", "tests.crash.trace.recorded", str(home), str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        traced(command, log), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stderr
    until(lambda: "+++ exited" in log.read_text().rpartition("\n")[0].rpartition("\n")[2], "strace")

    recorded: list[Change] = [
        (name, what, offset, size)
        for name, what, offset, size in json.loads(out.read_text())
        if what != "create" and not name.endswith("-journal")
    ]
    system = list(changes(read(log.read_text().splitlines()), home))
    for file in FILES:
        assert [change for change in recorded if change[0] == file] == [c for c in system if c[0] == file]
        assert len([change for change in recorded if change[0] == file]) > 10
    # The one sync of the folder that each log owes comes right after the log's own first sync.
    for name in ("ledger.sqlite3-wal", "paper.sqlite3-wal"):
        syncs = [what for file, what, *_ in recorded if file == name and what in ("sync", "folder")]
        assert syncs[:2] == ["sync", "folder"]
        assert syncs.count("folder") == 1


def changes(calls: list[SystemCall], home: Path) -> Iterator[Change]:
    """What was changed between the two marks. A sync of the folder right after a file's, on the same thread,
    is SQLite's own and counts for that file."""
    inside = False
    before: dict[str, SystemCall] = {}
    for call in calls:
        if call.name == "write" and call.data in (BEGIN, END):
            inside = call.data == BEGIN
        last, before[call.thread] = before.get(call.thread), call
        path, what = Path(call.on), WHAT.get(call.name)
        if not inside or what is None or call.result < 0:
            continue
        if path == home and last is not None and WHAT.get(last.name) == what == "sync":
            yield Path(last.on).name, "folder", 0, 0
        elif path.parent == home and path.name in FILES:
            offset = call.offset if what in ("write", "truncate") else 0
            yield path.name, what, offset, len(call.data) if what == "write" else 0
