"""A paper account's faults as config.toml has them, on the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.kit import rows, running, send, until


@pytest.mark.blocking_allowed("the test writes a config")
async def test_h35_faults_of_the_config_act_on_the_next_orders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    faults = 'faults = ["reply_lost_before", "reply_lost_after"]\n'
    (home / "config.toml").write_text('[[accounts]]\nname = "paper"\nbroker = "paper"\n' + faults)
    async with running(home) as engine:
        states: list[Any] = []

        async def both_over() -> bool:
            states[:] = [row["state"] for row in reversed(await rows(engine, "orders"))]
            return len(states) == 2 and set(states) <= {"DONE", "NOT_PLACED"}

        await send(engine, "lost")
        await send(engine, "found", symbol="MSFT")
        await until(engine, both_over)
        assert sorted(states) == ["DONE", "NOT_PLACED"]
