"""Where reduce-only is ours alone nothing keeps an exit from opening: the side is looked at after it (H5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.execution.faults import Faults
from tests.execution.kit import CONFIG, desk
from tests.execution.operator_kit import Hand
from tests.execution.venue import the, venue

SHORTS = CONFIG + "allow_short = true\n"


@pytest.mark.parametrize("enforced", [False, True])
async def test_h5_an_exit_after_a_close_by_hand_has_turned_the_position_and_that_is_critical(
    tmp_path: Path, enforced: bool
) -> None:
    faults = venue(reduce_only_enforced=enforced)
    async with desk(tmp_path, SHORTS, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        send = the(faults).hold("before_submit")
        await d.deliver(action="exit")
        await send.arrived.wait()
        await d.by_hand("sell", "10")
        send.release()
        await d.state(2, "DONE")
        hand = Hand(d)
        if enforced:
            # Such a venue would have refused it: nobody has to look.
            await d.trade(symbol="MSFT", action="buy", quantity="1")
            assert await d.events("flipped") == []
            return
        await d.until("SELECT count(*) FROM events WHERE what = 'flipped'", 1)
        (need,) = [need for need in await hand.needs() if need.kind == "flipped"]
        assert (need.severity, need.subject) == ("critical", "O2")
        assert "the broker held -10 after it" in need.text
        assert d.logged("an exit has turned the position")
        await hand.do("dismiss", ids=["O2"])
        assert "flipped" not in [kind for _, kind, _ in await hand.kinds()]


async def test_h5_a_turn_and_a_plain_exit_are_no_flip(tmp_path: Path) -> None:
    async with desk(tmp_path, SHORTS, wrap=Faults().wrap) as d:
        await d.trade(action="buy", quantity="10")
        await d.trade(action="exit")
        await d.trade(action="sell", quantity="5")
        await d.trade(action="buy", quantity="8")
        await d.trade(action="exit")
        assert await d.events("flipped") == []
