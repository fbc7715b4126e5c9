"""One instance a home: the lock is held by a living process and by nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.ledger.lock import AlreadyRunning, InstanceLock

HOLDER = """
import sys, pathlib
from app.ledger.lock import InstanceLock
InstanceLock(pathlib.Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_instance_is_refused_in_one_line(tmp_path: Path) -> None:
    first, second = InstanceLock(tmp_path / "lock"), InstanceLock(tmp_path / "lock")
    first.acquire()
    first.acquire()
    with pytest.raises(AlreadyRunning) as refused:
        second.acquire()
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)
    first.release()
    first.release()
    second.acquire()
    second.release()


def test_it_is_free_as_soon_as_its_process_is_killed(tmp_path: Path) -> None:
    lock = InstanceLock(tmp_path / "lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AlreadyRunning):
            lock.acquire()
        holder.kill()
    # The file is still there and means nothing.
    assert (tmp_path / "lock").exists()
    lock.acquire()
    lock.release()


def test_a_refused_try_leaves_no_descriptor_open(tmp_path: Path) -> None:
    first, second = InstanceLock(tmp_path / "lock"), InstanceLock(tmp_path / "lock")
    first.acquire()
    before = os.dup(0)
    os.close(before)
    for _ in range(5):
        with pytest.raises(AlreadyRunning):
            second.acquire()
    after = os.dup(0)
    os.close(after)
    first.release()
    assert after == before


def test_the_file_is_the_owners_only(tmp_path: Path) -> None:
    lock = InstanceLock(tmp_path / "lock")
    lock.acquire()
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) & 0o077 == 0
    lock.release()


def test_a_place_where_no_file_can_be_is_no_other_instance(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        InstanceLock(tmp_path / "nowhere" / "lock").acquire()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_holder_notices_that_its_file_was_removed_or_replaced(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "lock"
    lock = InstanceLock(path)
    assert lock.lost() is None
    lock.acquire()
    assert lock.lost() is None
    path.rename(tmp_path / "aside")
    if replaced:
        path.touch()
    why = lock.lost()
    assert why is not None
    assert ("was replaced" if replaced else "was removed") in why
    (tmp_path / "aside").replace(path)
    assert lock.lost() is None
    lock.release()
