"""Time that jumps under a running engine: accounts are opened and reconciled anew before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.clock import SECOND, ManualClock
from app.engine.jumps import ClockJumps, Jump
from tests.engine.kit import account_word, rows, running, send, until, word


def test_h31_a_step_and_a_standstill_are_told_apart_and_told_once() -> None:
    clock = ManualClock()
    jumps = ClockJumps(clock)
    clock.advance(30 * SECOND)
    assert jumps.steady()
    assert jumps.look() is None
    clock.step(-31 * SECOND)
    assert not jumps.steady()
    assert jumps.look() == Jump(-31 * SECOND, 0)
    assert jumps.steady()
    clock.advance(31 * SECOND)
    assert not jumps.steady()
    assert jumps.look() == Jump(0, 31 * SECOND)
    assert jumps.look() is None


@pytest.mark.parametrize("sleeps", [True, False])
async def test_h31_after_a_jump_the_accounts_reconcile_before_they_send(tmp_path: Path, sleeps: bool) -> None:
    clock = ManualClock()
    async with running(tmp_path / "home", clock) as engine:
        if sleeps:
            clock.advance(3_600 * SECOND)
        else:
            clock.step(3_600 * SECOND)
        await until(engine, lambda: word(engine.status(), "clock") == "stepped")
        await until(engine, lambda: account_word(engine.status()) == "ready")
        assert (await rows(engine, "reconciliations"))[0]["cause"] == "reconnect"
        status, body = await send(engine, "after")
        assert (status, body["status"]) == (200, "accepted")

        async def is_done() -> bool:
            return [row["state"] for row in await rows(engine, "orders")] == ["DONE"]

        await until(engine, is_done)
