"""The program as a subprocess under strace, or made worse in one way; else as `program.py` has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.crash.program import ROOT, Program
from tests.crash.trace.calls import traced


class Launched(Program):
    """`variant` is a name of tests/crash/variants.py; `log` is where strace writes; `built` is a frozen
    program to be run in place of the work tree's."""

    def __init__(
        self, home: Path, *, variant: str = "", log: Path | None = None, built: Path | None = None
    ) -> None:
        super().__init__(home)
        self._variant = variant
        self._log = log
        self._built = built

    def launch(self, *, failpoint: str = "", arm: str = "") -> None:
        assert not arm, "armed.py starts the product as it is"
        assert self.process is None or self.process.poll() is not None
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        start = ["-m", "tests.crash.variants", self._variant] if self._variant else ["-m", "app"]
        program = [sys.executable, *start] if self._built is None else [str(self._built)]
        command = [*program, "serve", "--home", str(self.home), "--port", "0"]
        if self._log is not None:
            command = traced(command, self._log)
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "ONEFILL_FAILPOINT": failpoint},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
