"""Histories that the state machine has found broken, played again one by one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.engine import CommandRefused
from app.engine.at_rest import restore
from app.ledger.reader import read
from tests.state_machine import look
from tests.state_machine.conftest import Opened
from tests.state_machine.world import World


def orders(world: World) -> list[dict[str, Any]]:
    with world.ledger() as ledger:
        return read(ledger, "SELECT * FROM orders ORDER BY id")


async def lost_once(world: World) -> None:
    """The first try never got there, and a person wants it all the same; the broker cannot be asked."""
    world.broker.plan.append("lost_before")
    await world.desk.deliver(action="buy", quantity="5")
    await world.until(look.is_quiet, "the first try is known to be absent")
    world.broker.failing.add("account")
    await world.press("replay", order="O1", why="I want it")


async def held_back_once(world: World) -> None:
    """The first try was held back before its first byte, for time had jumped."""
    held = world.broker.hold("before_submit")
    await world.desk.deliver(action="buy", quantity="5")
    await held.arrived.wait()
    world.desk.trading.begin_anew()
    world.broker.failing.add("account")
    held.release()
    await world.until(look.nothing_is_submitting, "it was held back")


@pytest.mark.parametrize("before", [lost_once, held_back_once])
def test_h39_what_was_to_go_out_again_under_its_id_when_the_backup_was_made_is_looked_for(
    opened: Opened, before: Callable[[World], Coroutine[Any, Any, None]]
) -> None:
    world = opened(1)
    world.run(before(world))
    backup = world.folder / "backup.sqlite3"
    world.run(world.press("backup", file=str(backup)))
    assert [(row["state"], row["client_order_id"] is None) for row in orders(world)] == [("PENDING", False)]
    world.broker.failing.clear()
    world.run(world.until(look.is_quiet, "it is filled"))
    assert [row["state"] for row in orders(world)] == ["DONE"]

    world.stop()
    with capture_logs():
        now, request = world.clock.now(), uuid.uuid4().hex
        restore(world.home, backup, why="it broke", actor="person", request_id=request, now=now)
    world.start()
    world.run(world.press("resume"))
    world.run(world.until(look.is_quiet, "what was lost is found"))
    with pytest.raises(CommandRefused, match="has filled 5"):
        world.run(world.press("replay", order="O1", why="it seems lost"))
    assert [row["filled_quantity"] for row in look.paper_orders(world.home)] == ["5"]
    assert [(row["state"], row["filled_quantity"]) for row in orders(world)] == [("DONE", "5")]
