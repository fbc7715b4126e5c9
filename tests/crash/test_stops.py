"""Ends that were asked for: within 5 s under load, exit 0, nothing left; and the refusals of a start."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.ledger.lock import InstanceLock
from tests.crash.program import Answer, Program, alert, until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix"),
    pytest.mark.timeout(120),
]

NO_LIMITS = "[risk]\nmax_orders_per_minute = 0\nposition_divisor = 1\n"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with Program(tmp_path / "home") as running:
        yield running


class Load:
    """Senders that post keys of their own, one after the other, until the program is gone."""

    def __init__(self, program: Program, senders: int = 4) -> None:
        self.answers: dict[str, Answer] = {}
        self._program = program
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(senders)]
        for thread in self._threads:
            thread.start()

    def _send(self, sender: int) -> None:
        number = 0
        while True:
            key = f"load-{sender}-{number}"
            answer = self._program.post(alert(key, symbol=f"SYM{sender}"))
            if answer.status == 0:
                return
            self.answers[key] = answer
            number += 1

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_under_load_ends_it_cleanly_within_five_seconds(
    program: Program, number: signal.Signals
) -> None:
    program.write_config(NO_LIMITS)
    program.start()
    load = Load(program)
    until(lambda: len(load.answers) >= 40, "some load")
    took = program.end(number)
    load.join()
    assert program.process is not None
    assert (program.process.returncode, took < 5) == (0, True), program.errors.read_text()
    lock = InstanceLock(program.home / "onefill.lock")
    lock.acquire()
    lock.release()
    for name in ("ledger.sqlite3-wal", "control.sock"):
        left = program.home / name
        assert not left.exists() or left.stat().st_size == 0
    # Whoever was told 200 is in the ledger; whoever was told 503 was told why.
    accepted = {key for key, answer in load.answers.items() if answer.status == 200}
    refused = [answer for answer in load.answers.values() if answer.status != 200]
    assert {(answer.status, answer.body["reason"]) for answer in refused} <= {(503, "stopping")}
    kept = {row["key"] for row in program.rows("SELECT key FROM claims WHERE unanswered = 0")}
    assert {f"key-{key}-0123456789" for key in accepted} <= kept
    # No doubt was left behind either: nothing was cut off on its way.
    assert program.rows("SELECT id FROM orders WHERE state IN ('SUBMITTING', 'AMBIGUOUS')") == []


def test_a_second_instance_is_refused_with_one_line_and_the_first_goes_on(program: Program) -> None:
    program.start()
    second = Program(program.home)
    second.errors = program.home.parent / "second.stderr"
    with second:
        second.launch()
        assert second.process is not None
        assert second.process.wait(20) == 1
        assert second.line() == ""
    (line,) = second.errors.read_text().splitlines()
    assert line.startswith("onefill: another Onefill is running on")
    assert program.post(alert("one")).status == 200
    program.end()


@pytest.mark.parametrize(
    ("config", "reason"),
    [("[listener]\nport = 'x'\n", "config.toml:2"), ("[nonsense]\n", "nonsense"), ("=", "config.toml")],
)
def test_a_mistake_in_the_config_is_one_line_and_exit_1(program: Program, config: str, reason: str) -> None:
    program.write_config(config)
    program.launch()
    assert program.process is not None
    assert program.process.wait(20) == 1
    (line,) = program.errors.read_text().splitlines()
    assert line.startswith("onefill: ")
    assert reason in line


def test_a_hundred_identical_deliveries_among_two_hundred_others_at_once(program: Program) -> None:
    program.write_config(NO_LIMITS)
    program.start()
    bodies = [alert("same")] * 100 + [alert(f"other-{number}") for number in range(200)]
    # Interleaved, so that the equal ones meet in one commit and across commits.
    bodies = [bodies[number * 7 % 300] for number in range(300)]
    answers: list[Answer] = [Answer(0)] * 300
    at_once = threading.Barrier(30)

    def send(sender: int) -> None:
        at_once.wait(20)
        for number in range(sender, 300, 30):
            answers[number] = program.post(bodies[number])

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    same = [answer for answer, body in zip(answers, bodies, strict=True) if body == alert("same")]
    others = [answer for answer, body in zip(answers, bodies, strict=True) if body != alert("same")]
    assert {answer.status for answer in answers} == {200}
    assert sorted(answer.word for answer in same) == ["accepted"] + ["duplicate"] * 99
    assert {answer.word for answer in others} == {"accepted"}
    signals = {answer.body["signal"] for answer in same}
    assert len(signals) == 1
    duplicates = [answer.body for answer in same if answer.word == "duplicate"]
    assert all(len(body["outcome"]["orders"]) == 1 for body in duplicates)
    assert sorted(body["deliveries"] for body in duplicates) == list(range(2, 101))
    orders = program.settled_orders(201)
    assert len(orders) == 201
    assert {order["state"] for order in orders} == {"DONE"}
    assert len(program.exchange_orders()) == 201
    assert [row["signal"] in signals for row in orders].count(True) == 1
    assert program.post(alert("same")).body["outcome"]["state"] == "DONE"
    assert program.end() < 5
