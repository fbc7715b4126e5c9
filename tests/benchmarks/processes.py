"""Starting, asking and ending the processes of a measurement."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.benchmarks.homes import make_home
from tests.benchmarks.load import Job, Result
from tests.benchmarks.profiling import Spent

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0


def environment() -> dict[str, str]:
    """This process's, without the user's keyring and display, for modules of this checkout."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "QT_QPA_PLATFORM": "offscreen",
        "QT_API": "pyside6",
    }


class Talk:
    """A process that answers each line with a line. Its stderr is shown only if it fails."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._name = " ".join((module, *arguments[:2]))

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait(PATIENCE)
            self._errors.seek(0)
            raise SystemExit(f"{self._name} ended with {code}:\n{self._errors.read()[-4_000:]}")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE)
        self._process.stdout.close()
        self._errors.close()


class Load(Talk):
    """The sender."""

    def __init__(self) -> None:
        super().__init__("load")

    def run(self, job: Job) -> Result:
        result = msgspec.json.decode(self.ask(msgspec.json.encode(job).decode()), type=Result)
        if result.answers != {"200 accepted": result.total}:
            raise SystemExit(f"not every alert was accepted, so nothing was measured: {result.answers}")
        return result


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver counted since `reset`; what it does not have is 0."""

    cpu: dict[str, float]
    stall_ms: float
    stall_p99_ms: float
    syncs: dict[str, int]
    commits: int = 0
    operations: int = 0
    refreshed: int = 0
    painted: int = 0
    rows: int = 0


class Receiver(Talk):
    """One of the doors that are compared."""

    def __init__(self, kind: str, loop: str, home: Path) -> None:
        make_home(home)
        super().__init__("server", kind, loop, str(home))
        self._where: dict[str, Any] | None = None
        self._runs = 0

    @property
    def where(self) -> dict[str, Any]:
        if self._where is None:
            self._where = msgspec.json.decode(self.hear())
        return self._where

    def job(self, **what: Any) -> Job:
        self._runs += 1
        return Job(port=self.where["port"], path=self.where["path"], run=f"{self._runs:04d}", **what)

    def reset(self) -> None:
        _ = self.where
        self.ask("reset")

    def stats(self) -> Stats:
        return msgspec.json.decode(self.ask("stats"), type=Stats)

    def profiled(self, load: Load, **what: Any) -> list[Spent]:
        """What a load spends its processor time in, the dearest first."""
        self.ask("profile")
        load.run(self.job(**what))
        return msgspec.json.decode(self.ask("spent"), type=list[Spent])


@contextlib.contextmanager
def started(*processes: Talk) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.callback(process.close)
        yield
