"""S1 by the system's own word: no 200 leaves before its claim is synced, no order before its SUBMITTING is.

The real program under strace, several senders at once.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.launched import Launched
from tests.crash.program import alert, until
from tests.crash.trace.calls import SystemCall, read, why_not
from tests.crash.trace.order import NEVER, Answer, answers, first_write, synced

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=f"no trace: {why_not()}"),
    pytest.mark.timeout(120),
]

LEDGER, PAPER = "/ledger.sqlite3-wal", "/paper.sqlite3-wal"
SENDERS = 4
KEYS = 12
NO_LIMITS = "[risk]\nmax_orders_per_minute = 0\n"


@dataclass(frozen=True, slots=True)
class Traced:
    """A run: what the system saw, the answers 200 by key, the orders as (client order id, the exchange's)."""

    calls: list[SystemCall]
    answers: list[tuple[str, Answer]]
    orders: list[tuple[str, str]]

    def answered_too_early(self) -> list[str]:
        """Keys with a 200 that left before the claim was synced."""
        return [key for key, answer in self.answers if answer.left < synced(self.calls, LEDGER, key)]

    def sent_too_early(self) -> list[str]:
        """Orders that reached the exchange's file before their SUBMITTING was synced."""
        return [
            cid
            for cid, _ in self.orders
            if first_write(self.calls, PAPER, cid) < synced(self.calls, LEDGER, cid)
        ]

    def confirmed_too_early(self) -> list[str]:
        """Orders that the ledger knows as placed before the exchange had them on disk."""
        return [
            cid
            for cid, there in self.orders
            if first_write(self.calls, LEDGER, there) < synced(self.calls, PAPER, cid)
        ]


def run(folder: Path, variant: str = "", built: Path | None = None) -> Traced:
    log = folder / "strace.log"
    with Launched(folder / "home", variant=variant, log=log, built=built) as program:
        program.write_config(NO_LIMITS)
        program.start()
        with ThreadPoolExecutor(SENDERS) as senders:
            sent = [senders.submit(program.post, alert(f"{n % KEYS:02}")) for n in range(KEYS * 3 // 2)]
        assert [future.result().status for future in sent] == [200] * len(sent)
        rows = program.settled_orders(KEYS)
        keys = {row["id"]: row["key"] for row in program.rows("SELECT id, key FROM v_signals")}
        program.end()
        until(lambda: "+++ exited" in log.read_text().rpartition("\n")[0].rpartition("\n")[2], "strace")
    calls = read(log.read_text().splitlines())
    told = [(keys[a.body["signal"]], a) for a in answers(calls) if a.status == 200 and "signal" in a.body]
    return Traced(calls, told, [(row["client_order_id"], row["broker_order_id"]) for row in rows])


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    return run(tmp_path_factory.mktemp("traced"))


def test_the_trace_holds_every_answer_and_every_order(product: Traced) -> None:
    """Else nothing that follows would mean much."""
    keys = [key for key, _ in product.answers]
    assert len(keys) == KEYS * 3 // 2
    assert len(set(keys)) == len(product.orders) == KEYS
    for key in keys:
        assert synced(product.calls, LEDGER, key) < NEVER
    for cid, there in product.orders:
        assert first_write(product.calls, PAPER, cid) < NEVER
        assert first_write(product.calls, LEDGER, there) < NEVER


def test_no_200_leaves_before_its_claim_is_synced(product: Traced) -> None:
    assert product.answered_too_early() == []


def test_no_order_reaches_the_exchange_before_its_submitting_is_synced(product: Traced) -> None:
    assert product.sent_too_early() == []


def test_h42_no_order_is_known_as_placed_before_the_exchange_has_synced_it(product: Traced) -> None:
    assert product.confirmed_too_early() == []


def test_control_without_syncs_of_the_ledger_every_200_is_too_early(tmp_path: Path) -> None:
    traced = run(tmp_path, "ledger_normal")
    assert set(traced.answered_too_early()) == {key for key, _ in traced.answers}
    assert traced.sent_too_early()


def test_control_a_200_before_the_commit_is_seen_as_such(tmp_path: Path) -> None:
    assert run(tmp_path, "answers_early").answered_too_early()


def test_h42_control_without_syncs_of_the_exchange_every_reply_is_too_early(tmp_path: Path) -> None:
    traced = run(tmp_path, "paper_normal")
    assert traced.answered_too_early() == []
    assert len(traced.confirmed_too_early()) == KEYS
