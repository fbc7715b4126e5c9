"""Six kills, each followed by a start and a resend: acknowledged keys are all there, nothing is doubled.

How many orders there are is exact (HOLES H35): one where the kill fell before SUBMITTING or after the
broker's commit; none, and a shown NOT_PLACED, where it fell between the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.program import Program, alert, until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="kills by os._exit, armed by SIGUSR1"),
    pytest.mark.timeout(120),
]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with Program(tmp_path / "home") as running:
        yield running


def _check_sound(program: Program) -> None:
    """What holds after every kill, restart and resend."""
    assert program.fact("ledger") == "ok"
    assert program.rows("SELECT id FROM claims WHERE unanswered = 1") == []
    per_claim = program.rows("SELECT claim_id, count(*) AS n FROM orders GROUP BY claim_id")
    assert [row["n"] for row in per_claim] == [1] * len(per_claim)
    ids = [row["client_order_id"] for row in program.exchange_orders()]
    assert len(ids) == len(set(ids))
    assert program.end() < 5
    assert program.process is not None
    assert program.process.returncode == 0


@pytest.mark.parametrize(
    ("place", "first", "again"),
    [
        # Nothing was claimed: the resend is the first.
        pytest.param("before_commit", 0, "accepted", id="before the commit"),
        # On disk, not answered: the sender was told nothing, and its resend meets the claim.
        pytest.param("after_commit", 0, "duplicate", id="after the commit"),
        pytest.param("before_200", 0, "duplicate", id="before the 200"),
        pytest.param("after_200", 200, "duplicate", id="after the 200"),
        # The lane works behind the answer: whether it was read depends on who is faster.
        pytest.param("paper_after_commit", None, "duplicate", id="after the broker's commit"),
    ],
)
def test_h35_a_kill_outside_the_send_leaves_exactly_one_order(
    program: Program, place: str, first: int | None, again: str
) -> None:
    program.start(arm=place)
    program.arm_now()
    answer = program.post(alert("one"))
    program.wait_killed()
    assert first is None or answer.status == first
    program.start()
    resent = program.post(alert("one"))
    assert (resent.status, resent.word) == (200, again)
    (order,) = program.settled_orders()
    assert (order["state"], order["ord_status"], order["filled_quantity"]) == ("DONE", "Filled", "1")
    assert [row["status"] for row in program.exchange_orders()] == ["Filled"]
    assert [row["n"] for row in program.rows("SELECT count(*) AS n FROM fills")] == [1]
    _check_sound(program)


def test_h35_a_kill_between_submitting_and_the_broker_places_nothing_and_shows_it(program: Program) -> None:
    program.start(failpoint="before_broker")
    program.post(alert("one"))
    program.wait_killed()
    program.start()
    resent = program.post(alert("one"))
    assert (resent.status, resent.word) == (200, "duplicate")
    (order,) = program.settled_orders()
    assert order["state"] == "NOT_PLACED"
    assert program.exchange_orders() == []
    attempts = program.rows("SELECT bytes_left, ended_at FROM attempts")
    assert len(attempts) == 1
    looks = program.rows("SELECT result FROM evidence")
    assert looks
    assert {look["result"] for look in looks} == {"absent"}
    moves = program.rows("SELECT detail FROM v_events WHERE what = 'order moved' ORDER BY number")
    assert [place in moves[1]["detail"] for place in ('"from":"SUBMITTING"', '"to":"AMBIGUOUS"')] == [
        True,
        True,
    ]
    _check_sound(program)


def test_a_kill_after_the_brokers_reply_books_the_order_that_is_there(program: Program) -> None:
    program.start(failpoint="after_broker")
    program.post(alert("one"))
    program.wait_killed()
    program.start()
    (order,) = program.settled_orders()
    assert (order["state"], order["ord_status"]) == ("DONE", "Filled")
    assert len(program.exchange_orders()) == 1
    assert program.post(alert("one")).word == "duplicate"
    _check_sound(program)


def test_kill_9_in_the_middle_of_many_deliveries_loses_no_acknowledged_key(program: Program) -> None:
    program.write_config("[risk]\nmax_orders_per_minute = 0\nposition_divisor = 1\n")
    program.start(arm="after_commit")
    acknowledged = [
        f"many-{number}" for number in range(10) if program.post(alert(f"many-{number}")).status == 200
    ]
    assert len(acknowledged) == 10
    assert program.process is not None
    program.process.kill()
    program.process.wait(20)
    program.start()
    words = [program.post(alert(key)).word for key in acknowledged]
    assert words == ["duplicate"] * 10
    orders = program.settled_orders(10)
    placed = [order for order in orders if order["state"] == "DONE"]
    assert len(orders) == 10
    # At most one each: what was cut off between SUBMITTING and the exchange is shown as NOT_PLACED.
    assert len(program.exchange_orders()) == len(placed)
    assert {order["state"] for order in orders} <= {"DONE", "NOT_PLACED", "DENIED"}
    _check_sound(program)


@pytest.mark.long
@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
@pytest.mark.parametrize("pass_number", range(1, 9))
def test_a_kill_at_every_commit_of_one_order_ends_with_at_most_one(
    program: Program, place: str, pass_number: int
) -> None:
    """Counted from the start, so that the commits of the start itself are among them."""
    program.launch(failpoint=f"{place}={pass_number}")
    assert program.process is not None
    process = program.process
    line = program.line()
    if line:
        program.port = int(line.split(":")[2].split()[0])
        program.post(alert("one"))
        done = "SELECT 1 FROM orders WHERE state IN ('DONE', 'NOT_PLACED')"
        until(lambda: process.poll() is not None or bool(program.rows(done)), "the kill, or no kill")
    if process.poll() is None:
        program.end()
    program.start()
    assert program.post(alert("one")).status == 200
    (order,) = program.settled_orders()
    placed = program.exchange_orders()
    assert (order["state"], len(placed)) in (("DONE", 1), ("NOT_PLACED", 0))
    _check_sound(program)
