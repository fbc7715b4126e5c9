"""The setup check from inside a running window: the same, but the test signal is sent by another process.

A second engine in this one would silence its log and take time from the answers of the real one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.engine.checkup import NEAR, Check, Level, Patient
from app.engine.checkup_far import listener, login

PATIENCE = 60.0
"""Seconds; on a busy machine it takes five."""

Seen = Iterator[tuple[Level, str]]


def own_command(*arguments: str) -> Sequence[str]:
    """This program with these arguments, frozen or from source."""
    if not getattr(sys, "frozen", False):
        return (sys.executable, "-m", "app", *arguments)
    program = Path(sys.executable)
    # On Windows the commands are a program of their own: the one with the window prints nothing.
    console = program.with_name(f"{program.stem}-cli{program.suffix}")
    return (str(console if console.exists() else program), *arguments)


def signal(_patient: Patient) -> Seen:
    try:
        done = subprocess.run(
            own_command("selftest", "--json"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.TimeoutExpired:
        yield "error", f"a test signal was not through within {PATIENCE:g} s: is the machine very busy?"
        return
    except OSError as error:
        yield "error", f"no test signal could be sent ({error.strerror or error})"
        return
    yield _told(done)


def _told(done: subprocess.CompletedProcess[str]) -> tuple[Level, str]:
    failed = []
    for line in done.stdout.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("ok") is False:
            failed.append(f"{said.get('check')}: {said.get('seen')}")
    if done.returncode == 0 and not failed:
        return (
            "ok",
            "a test signal went the whole way in a throw-away home: accepted once, one paper order filled",
        )
    why = "; ".join(failed) or done.stderr.strip()[-300:] or f"exit code {done.returncode}"
    return "error", f"a test signal did not go the whole way in a throw-away home: {why}"


APART: tuple[Check, ...] = (*NEAR, ("listener", listener), ("login", login), ("signal", signal))
