"""What ties a child to this program: when we end, however we end, it ends too.

Linux: the kernel's own parent-death signal, by setpriv where that is there. Every Unix: a shell that holds
the other end of a pipe and ends the child's group when the pipe breaks. Windows: a job object.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import structlog

log = structlog.get_logger(__name__)

_WATCH = 'read -r _ || kill -s KILL -- "-$1"'
"""Ends with a line from us, or with our death."""


def on_leash(argv: Sequence[str]) -> list[str]:
    """The same program, asked to die with the thread that starts it. Blocking."""
    setpriv = _setpriv()
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *argv]


@cache
def _setpriv() -> str | None:
    found = shutil.which("setpriv") if sys.platform.startswith("linux") else None
    if found is None:
        return None
    try:
        # busybox has one without it.
        done = subprocess.run(
            [found, "--pdeathsig", "KILL", "--", found, "--version"],
            capture_output=True,
            check=False,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found if done.returncode == 0 else None


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    CREATION: dict[str, Any] = {
        "creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    }
    _KILL_ON_CLOSE, _EXTENDED_LIMITS = 0x2000, 9

    class _Limits(ctypes.Structure):
        # JOBOBJECT_EXTENDED_LIMIT_INFORMATION; of it only the flags are set.
        _fields_ = (
            ("times", ctypes.c_int64 * 2),
            ("flags", wintypes.DWORD),
            ("working_set", ctypes.c_size_t * 2),
            ("processes", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("priority", wintypes.DWORD),
            ("scheduling", wintypes.DWORD),
            ("counters", ctypes.c_uint64 * 6),
            ("memory", ctypes.c_size_t * 4),
        )

    class Leash:
        """A job that the system ends with its last handle, which is ours."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.CreateJobObjectW.restype = wintypes.HANDLE
            self._job = wintypes.HANDLE(self._kernel.CreateJobObjectW(None, None))
            limits = _Limits()
            limits.flags = _KILL_ON_CLOSE
            done = self._kernel.SetInformationJobObject(
                self._job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
            ) and self._kernel.AssignProcessToJobObject(self._job, wintypes.HANDLE(int(process._handle)))  # type: ignore[attr-defined]
            if not done:
                log.warning("the tunnel's program is not tied to this one", error=ctypes.get_last_error())

        def end(self, *, hard: bool) -> None:
            """There is no soft end for a program without a window."""
            self._kernel.TerminateJobObject(self._job, 1)

        def release(self) -> None:
            self._kernel.CloseHandle(self._job)

else:
    CREATION: dict[str, Any] = {"start_new_session": True}

    class Leash:
        """The child leads a group of its own, and a shell ends that group when this program is gone."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._group = process.pid
            self._over = False
            self._shell: subprocess.Popen[bytes] | None = None
            try:
                self._shell = subprocess.Popen(
                    ["/bin/sh", "-c", _WATCH, "onefill-leash", str(self._group)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={"PATH": os.defpath},
                )
            except OSError as error:
                log.warning("the tunnel's program is not tied to this one", error=error.strerror)

        def end(self, *, hard: bool) -> None:
            """Asks the whole group to end, or ends it. Not after `release`: the number may be another's."""
            if self._over:
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL if hard else signal.SIGTERM)

        def release(self) -> None:
            """The child is over and not yet reaped, so its number is still its own: what it started goes."""
            self.end(hard=True)
            self._over = True
            if self._shell is not None and self._shell.stdin is not None:
                with contextlib.suppress(OSError):
                    self._shell.stdin.write(b"\n")
                    self._shell.stdin.close()
                self._shell.wait()
