"""Processes by pid and start time: so that what an earlier run left is found, and nothing else is ever ended.

A pid alone is used again by the system; a name proves nothing. Everything here blocks: run it on a thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger(__name__)


class Mark(msgspec.Struct, frozen=True):
    """One process for good: `started` is the system's own text for when it began."""

    pid: int
    started: str


def mark_of(pid: int) -> Mark | None:
    """None where there is no such process, or the system does not say when it began."""
    started = _started(pid)
    return None if started is None else Mark(pid, started)


def end_orphan(mark: Mark) -> bool:
    """Ends the process of the mark with its group, if it is still that one; whether it was."""
    if mark.pid <= 1 or mark.pid == os.getpid() or mark_of(mark.pid) != mark:
        return False
    log.warning("a tunnel of an earlier run is still there and is ended", pid=mark.pid)
    try:
        _end(mark.pid)
    except OSError as error:
        log.warning("it could not be ended", pid=mark.pid, error=error.strerror)
        return False
    return True


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _QUERY, _TERMINATE, _STILL_ACTIVE = 0x1000, 0x0001, 259

    def _started(pid: int) -> str | None:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.OpenProcess.restype = wintypes.HANDLE
        handle = kernel.OpenProcess(_QUERY, False, pid)
        if not handle:
            return None
        try:
            code = wintypes.DWORD()
            kernel.GetExitCodeProcess(wintypes.HANDLE(handle), ctypes.byref(code))
            times = [wintypes.FILETIME() for _ in range(4)]
            done = kernel.GetProcessTimes(wintypes.HANDLE(handle), *map(ctypes.byref, times))
            if not done or code.value != _STILL_ACTIVE:
                return None
            return str((times[0].dwHighDateTime << 32) + times[0].dwLowDateTime)
        finally:
            kernel.CloseHandle(wintypes.HANDLE(handle))

    def _end(pid: int) -> None:
        # /T: what it started goes with it. By pid, which the caller has just compared.
        done = subprocess.run(
            ["taskkill", "/PID", str(pid), "/T", "/F"], capture_output=True, check=False, timeout=5
        )
        if done.returncode != 0:
            raise OSError(done.returncode, "taskkill failed")

else:

    def _started(pid: int) -> str | None:
        stat = Path(f"/proc/{pid}/stat")
        if Path("/proc/self/stat").exists():
            return _from_proc(stat)
        return _from_ps(pid)

    def _end(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            # Every child of ours leads its own group; one that does not is ended alone.
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


def _from_proc(stat: Path) -> str | None:
    """Ticks since the start of this very boot."""
    try:
        after_name = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    # A zombie is over: only its parent has not looked yet.
    return None if after_name[0] in "ZX" else f"{boot} {after_name[19]}"


def _from_ps(pid: int) -> str | None:
    try:
        done = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            check=False,
            timeout=3,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = done.stdout.decode("ascii", "replace").strip().partition(" ")
    return None if done.returncode != 0 or state.startswith("Z") or not started else " ".join(started.split())
