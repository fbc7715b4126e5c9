"""Time jumps while orders wait or are on their way: nothing goes out on old knowledge (HOLES H31)."""

from __future__ import annotations

from pathlib import Path

from app.clock import SECOND
from tests.execution.faults import Faults
from tests.execution.kit import desk


async def test_h31_what_waits_over_a_sleep_is_stale_and_exits_go_on_after_a_reconciliation(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.trade(action="buy", quantity="10")
        look = faults.paper.hold("snapshot")
        d.trading.begin_anew()
        await d.deliver(action="buy", quantity="5", symbol="MSFT")
        await d.deliver(action="exit")
        await d.waits(2, "WAITING_FOR_BROKER")
        await d.waits(3, "WAITING_FOR_BROKER")
        await look.arrived.wait()
        d.clock.advance(3_600 * SECOND)
        look.release()
        _, entry, exit_ = await d.settled()
        assert entry["state"] == "DENIED"
        assert entry["reason"].startswith("STALE")
        assert (exit_["state"], exit_["filled_quantity"]) == ("DONE", "10")
        causes = await d.reader.rows("SELECT cause FROM reconciliations ORDER BY id")
        assert [row["cause"] for row in causes] == ["start", "reconnect"]
        assert faults.paper.calls["connect"] == 2


async def test_h31_an_order_about_to_leave_when_time_jumps_comes_back_and_goes_after_the_look(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        connect = faults.paper.hold("connect")
        d.trading.begin_anew()
        await connect.arrived.wait()
        send.release()
        await d.until("SELECT reply LIKE 'Unsent%PAUSED%' FROM attempts", 1)
        assert d.paper_orders() == []
        d.clock.advance(2 * SECOND)
        connect.release()
        assert (await d.state(1, "DONE"))["filled_quantity"] == "10"
        assert len(d.paper_orders()) == 1
        (row,) = await d.reader.rows("SELECT count(*) AS n FROM reconciliations")
        assert row["n"] == 2


async def test_h31_an_entry_whose_time_ran_out_in_the_adapter_is_stale_though_time_jumped(
    tmp_path: Path,
) -> None:
    faults = Faults()
    async with desk(tmp_path, wrap=faults.wrap) as d:
        await d.ready()
        send = faults.paper.hold("before_submit")
        await d.deliver(action="buy", quantity="10")
        await send.arrived.wait()
        d.clock.advance(3_600 * SECOND)
        d.trading.begin_anew()
        send.release()
        denied = await d.state(1, "DENIED")
        assert denied["reason"] == "STALE late=3540.0s proved_unsent=yes"
        assert d.paper_orders() == []
