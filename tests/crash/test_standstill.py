"""The program stands still, as asleep, and goes on: what came meanwhile goes out after a look (HOLES H31)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.crash.program import ROOT, Answer, Program, alert, until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix"),
    pytest.mark.timeout(120),
]

WAKES_EARLY = (
    "import sys; from app.engine import jumps; jumps.JUMP = 1_000_000; "
    "from app.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
"""The program with a second of standstill told as thirty are: a test has no half minute."""


class WakesEarly(Program):
    def launch(self, *, failpoint: str = "", arm: str = "") -> None:
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WAKES_EARLY, "serve", "--home", str(self.home), "--port", "0"],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )


def test_h31_a_stopped_program_reconciles_before_it_sends_what_came_meanwhile(tmp_path: Path) -> None:
    with WakesEarly(tmp_path / "home") as program:
        program.start()
        assert program.process is not None
        program.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        answers: list[Answer] = []
        sender = threading.Thread(target=lambda: answers.append(program.post(alert("asleep"))))
        sender.start()
        until(lambda: time.monotonic() - stopped > 1.5, "the program to have stood still")
        program.process.send_signal(signal.SIGCONT)
        sender.join(20)
        assert [answer.word for answer in answers] == ["accepted"]
        (order,) = program.settled_orders()
        assert order["state"] == "DONE"
        assert len(program.exchange_orders()) == 1
        assert program.fact("clock") == "stepped"
        (sent,) = program.rows("SELECT at FROM attempts")
        passes = program.rows("SELECT cause, ended_at FROM reconciliations ORDER BY id")
        assert passes[0]["cause"] == "start"
        assert any(each["cause"] == "reconnect" and each["ended_at"] <= sent["at"] for each in passes)
        program.end()
        assert program.process.returncode == 0
