"""The checker itself: one home in good order, harmed in one way at a time, and each harm is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.crash import check
from tests.crash.power.disk import Disk
from tests.crash.power.shop import made, trade

LEDGER, PAPER = "ledger.sqlite3", "paper.sqlite3"
FREE = "DROP TRIGGER orders_follow_edges; DROP TRIGGER orders_stay; DROP TRIGGER orders_keep_client_order_id;"
SIGNAL_TWICE = """
INSERT INTO claims (digest, source_id, key, key_source, header_key, rule_version, raw_fingerprint,
intent_fingerprint, signal, symbol, action, first_received_at, admitted_at, deliveries)
SELECT zeroblob(32), source_id, key, key_source, header_key, rule_version, raw_fingerprint,
intent_fingerprint, signal, symbol, action, first_received_at, admitted_at, 0 FROM claims WHERE id = 1
"""
O1_THERE = "account = 'paper' AND symbol = 'ONE' AND side = 'buy'"
ORDER_TWICE = f"""
INSERT INTO orders SELECT 'twin', account, 'twin', symbol, side, quantity, status, filled_quantity,
average_price, created_at, type, limit_price, stop_price, tif, reference_price, fill_mode, triggered,
due_price, reason, 999 FROM orders WHERE {O1_THERE}
"""
HELD = {"key": "entry-one-1", "status": 200, "answer": "accepted", "signal": "S1"}
ASKED = {"symbol": "ONE", "side": "buy", "quantity": "2"}


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """Six alerts traded on two accounts, at rest."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        traded = Path(folder) / "home"
        await made(traded)
        disk = Disk()
        try:
            await trade(traded, disk)
        finally:
            disk.close()
        return Path(shutil.copytree(traded, tmp_path / "home", ignore=shutil.ignore_patterns("*.sock")))


def harm(home: Path, file: str, sql: str) -> None:
    connection = apsw.Connection(str(home / file))
    connection.execute(sql).fetchall()
    connection.close()


def test_a_home_in_good_order_has_nothing_against_it(home: Path) -> None:
    acks = [{**HELD, **ASKED}, {**HELD, "answer": "duplicate"}, {**HELD, "status": 0, "signal": None}]
    assert check.violations(home, acks) == []


@pytest.mark.parametrize(
    ("acks", "claim"),
    [
        ([{**HELD, "key": "never-seen-1"}], "S2 never-seen-1"),
        ([{**HELD, "signal": "S99"}], "S2 entry-one-1"),
        ([HELD, {**HELD, "answer": "duplicate", "signal": "S2"}], "S5 entry-one-1"),
        ([HELD, HELD], "S5 entry-one-1"),
        ([HELD, *[{**HELD, "answer": "duplicate"}] * 2], "S5 S1"),
    ],
)
def test_an_answer_that_the_ledger_does_not_bear_out(home: Path, acks: list[Any], claim: str) -> None:
    assert [line for line in check.violations(home, acks) if line.startswith(claim)]


@pytest.mark.parametrize(
    ("file", "sql", "claim"),
    [
        (LEDGER, "UPDATE claims SET deliveries = deliveries + 1 WHERE id = 1", "S5 S1"),
        (LEDGER, f"DROP TABLE IF EXISTS none; {SIGNAL_TWICE}", "S3 ('tv', 'entry-one-1')"),
        (PAPER, ORDER_TWICE, "S3 ("),
        (PAPER, ORDER_TWICE, "S3 entry-one-1: 2 orders"),
        (LEDGER, f"{FREE} UPDATE orders SET client_order_id = 'other' WHERE id = 1", "S3 ("),
        (
            LEDGER,
            f"{FREE} UPDATE orders SET state = 'WORKING' WHERE id = 1",
            "S3 O1: is WORKING, and its events",
        ),
        (
            LEDGER,
            "DROP TRIGGER events_stay; DELETE FROM events WHERE detail LIKE '%SUBMITTING%'",
            "S3 O1: moved",
        ),
        (
            LEDGER,
            f"{FREE} UPDATE orders SET state = 'DENIED' WHERE id = 1",
            "S4 O1: is DENIED, and the exchange",
        ),
        (
            PAPER,
            f"UPDATE orders SET filled_quantity = '1' WHERE {O1_THERE}",
            "S4 O1: is DONE, and the exchange",
        ),
        (LEDGER, f"{FREE} UPDATE orders SET state = 'SUBMITTING' WHERE id = 1", "S4 O1: is still SUBMITTING"),
        (LEDGER, f"{FREE} UPDATE orders SET state = 'AMBIGUOUS' WHERE id = 1", "S4 O1: is still AMBIGUOUS"),
    ],
)
def test_a_harm_is_named(home: Path, file: str, sql: str, claim: str) -> None:
    harm(home, file, sql)
    found = check.violations(home, [{**HELD, **ASKED}])
    assert [line for line in found if line.startswith(claim)], found


def test_two_orders_of_one_leg(home: Path) -> None:
    harm(home, PAPER, ORDER_TWICE)
    again = """
        INSERT INTO orders SELECT 901, claim_id, account, leg, generation + 1, instrument, source_id,
        strategy, action, purpose, side, quantity, type, limit_price, stop_price, tif, 'PENDING', ord_status,
        reason, 'twin', NULL, '0', NULL, not_after, 0, created_at, updated_at FROM orders WHERE id = 1
    """
    harm(home, LEDGER, again)
    found = check.violations(home)
    assert [line for line in found if line.startswith("S3 ('S1', 'paper', 1): 2 orders")], found


def test_in_flight_lets_what_is_on_its_way_be(home: Path) -> None:
    harm(home, LEDGER, f"{FREE} UPDATE orders SET state = 'SUBMITTING' WHERE id = 1")
    assert not [line for line in check.violations(home, in_flight=True) if "is still" in line]


def test_as_a_program_it_says_what_it_found(home: Path, tmp_path: Path) -> None:
    acks = tmp_path / "acks.jsonl"
    acks.write_text('{"key": "entry-one-1", "status": 200, "answer": "accepted", "signal": "S1"}\n')
    program = [sys.executable, check.__file__, str(home), str(acks)]
    good = subprocess.run(program, capture_output=True, text=True, timeout=30)
    assert (good.returncode, good.stdout) == (0, "S2 to S5 hold\n")
    acks.write_text('{"key": "lost-1", "status": 200, "answer": "accepted", "signal": "S1"}\n')
    bad = subprocess.run(program, capture_output=True, text=True, timeout=30)
    assert bad.returncode == 1
    assert bad.stdout.startswith("S2 lost-1")


def test_a_stranger_can_read_it_in_one_go() -> None:
    assert len(Path(check.__file__).read_text().splitlines()) < 100
