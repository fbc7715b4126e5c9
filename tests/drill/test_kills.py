"""Scenarios 21, 22 and H1 over a kill, and the scenarios' core with the program killed at failpoints.

The real program is ended as by kill -9; the exchange goes on. How many orders there are is exact (HOLES H35).
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from app.clock import SECOND
from app.drill.faults import Fault, Reply, Taken
from app.drill.rules import IdClass
from tests.drill.kit import also
from tests.drill.program import Trial, trial

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills by os._exit"),
    pytest.mark.timeout(120),
]


async def killed_at(t: Trial, place: str, key: str = "one") -> None:
    await t.start(place)
    await t.post(key)
    await t.do(t.program.wait_killed)


@pytest.mark.parametrize(
    ("id_class", "state"), [("B", "NOT_PLACED"), *also(("C", "NEEDS_OPERATOR"), ("E", "NEEDS_OPERATOR"))]
)
async def test_s21_killed_after_submitting_before_the_socket(
    tmp_path: Path, id_class: IdClass, state: str
) -> None:
    async with trial(tmp_path, id_class) as t:
        await killed_at(t, "before_broker")
        await t.start()
        assert (await t.post("one")).word == "duplicate"
        (order,) = await t.ended()
        assert order["state"] == state
        assert (await t.at_exchange(), t.exchange.plan.calls.get("submit", 0)) == ([], 0)
        assert await t.judged() == []


async def test_s22_killed_after_the_post_before_the_reply_was_stored(tmp_path: Path) -> None:
    async with trial(tmp_path, "E") as t:
        await killed_at(t, "after_broker")
        await t.start()
        assert (await t.post("one")).word == "duplicate"
        (order,) = await t.ended()
        assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
        assert (len(await t.at_exchange()), t.exchange.plan.calls["submit"]) == (1, 1)
        assert await t.judged() == []


async def test_h1_killed_between_the_entry_in_doubt_and_its_exit(tmp_path: Path) -> None:
    async with trial(tmp_path) as t:
        t.exchange.rules.lag = dict.fromkeys(("find", "order", "orders", "fills", "positions"), 60 * SECOND)
        t.exchange.plan.add(Fault("submit", Reply.RESET))
        await t.start()
        await t.post("entry", quantity=10)
        await t.until(lambda: bool(t.program.rows("SELECT 1 FROM orders WHERE state = 'AMBIGUOUS'")), "doubt")
        assert (await t.post("exit", action="exit", quantity=None)).status == 200
        await t.do(t.program.kill)
        await t.start()
        t.exchange.rules.lag.clear()
        entry, exit_ = await t.ended(2)
        assert (entry["ord_status"], exit_["ord_status"], exit_["quantity"]) == ("Filled", "Filled", "10")
        assert [row["side"] for row in await t.at_exchange()] == ["buy", "sell"]
        assert await t.judged() == []


PLACES = ["before_commit", "after_commit", "before_200", "after_200", "before_broker", "after_broker"]
FAULTS = {
    "none": (),
    "lost after": (Fault("submit", Reply.RESET),),
    "lost before": (Fault("submit", Reply.RESET, Taken.NEVER),),
    "504 after": (Fault("submit", Reply.STATUS, status=504),),
    "half an answer": (Fault("submit", Reply.TRUNCATED),),
    "looks fail": (Fault("submit", Reply.RESET), Fault("find", Reply.STATUS, times=4, status=500)),
}
COVERING = [("after_commit=4", "lost after")]
"""What the fast tier has time for; scenarios 21 and 22 kill at the two other places that matter."""
EVERY = list(itertools.product([*PLACES, *(f"after_commit={n}" for n in range(2, 9))], FAULTS))


async def _killed_and_judged(folder: Path, place: str, fault: str, again: str = "") -> None:
    """Killed at the place, if the alert comes by it, perhaps once more; then left alone until all is over."""
    async with trial(folder) as t:
        for row in FAULTS[fault]:
            t.exchange.plan.add(Fault(row.endpoint, row.reply, row.taken, status=row.status, times=row.times))
        for failpoint in filter(None, (place, again)):
            await t.do(t.program.launch, failpoint=failpoint)
            line = await t.do(t.program.line)
            if line:
                t.program.port = int(line.split(":")[2].split()[0])
                await t.post("one")
            await t.until(t.program.is_dead_or_done, "the kill")
            await t.do(t.program.kill)
        await t.start()
        assert (await t.post("one")).status == 200
        (order,) = await t.ended()
        placed = await t.at_exchange()
        assert (order["state"], len(placed)) in (("DONE", 1), ("NOT_PLACED", 0))
        assert await t.judged() == []


@pytest.mark.parametrize(("place", "fault"), COVERING)
async def test_killed_at_a_failpoint_with_a_fault_on_the_wire(tmp_path: Path, place: str, fault: str) -> None:
    await _killed_and_judged(tmp_path, place, fault)


@pytest.mark.long
@pytest.mark.parametrize(("place", "fault"), EVERY)
async def test_killed_at_every_failpoint_with_every_fault(tmp_path: Path, place: str, fault: str) -> None:
    await _killed_and_judged(tmp_path, place, fault)


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), list(itertools.product(PLACES, PLACES)))
async def test_killed_twice_at_every_pair(tmp_path: Path, first: str, second: str) -> None:
    await _killed_and_judged(tmp_path, first, "lost after", second)
