"""`onefill acknowledge`: by a running app only, with a reason, and shown before it is done."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cli.kit import refused, run
from tests.engine.kit import running

WHY = ("--why", "I looked")


def test_h13_it_takes_one_thing_and_a_reason_and_needs_an_app(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def once() -> None:
        async with running(home):
            pass

    asyncio.run(once())
    said = refused(run("acknowledge", "paper", "--identity", "P-1", *WHY, "--yes", "--home", home))
    assert said == f"no app is running on {home}: acknowledge needs one"
    for arguments in ((), ("--identity", "P-1", "--drift", "AAPL")):
        wrong = run("acknowledge", "paper", *arguments, *WHY, "--home", home)
        assert wrong.code == 2
        assert "say one of --identity NUMBER, --drift SYMBOL" in wrong.err
