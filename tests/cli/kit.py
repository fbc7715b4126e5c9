"""A command as a user types it, in this process: exit code, lines, and the one line of a refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from app.cli import onefill


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def run(*arguments: str | Path, stdin: str | None = None) -> Done:
    runner = CliRunner(env={"ONEFILL_HOME": None})
    result = runner.invoke(
        onefill, [str(argument) for argument in arguments], input=stdin, prog_name="onefill"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def refused(done: Done, code: int = 1) -> str:
    """The one line on stderr of a command that did nothing."""
    assert done.code == code, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("onefill: ")
    return line.removeprefix("onefill: ")
