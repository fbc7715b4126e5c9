"""The real program and the real commands with the channel of Windows between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import refused, run
from tests.crash.program import Program


def test_commands_reach_the_running_program_over_loopback_tcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEFILL_CONTROL", "tcp")
    home = tmp_path / "home"
    with Program(home) as program:
        program.start()
        assert not (home / "control.sock").exists()
        (found,) = run("status", "--home", home, "--json").objects
        assert (found["state"], found["port"]) == ("running", program.port)
        assert run("halt", "--home", home).code == 0
        assert "halted" in run("status", "--home", home).out
        assert run("resume", "--home", home).code == 0
        assert "O1" in refused(run("cancel", "O1", "--home", home))
        token = (home / "control.json").read_text("utf-8")
        program.end()
        assert token[-20:-2] not in (home / "onefill.log").read_text("utf-8")
    assert not (home / "control.json").exists()
    (found,) = run("status", "--home", home, "--json").objects
    assert found["state"] != "running"
