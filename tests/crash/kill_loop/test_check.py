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
O1_THERE = "account = 'paper' AND symbol = 'ONE' AND side = 'buy'"
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


def harm(home: Path, file: str, sql: str, *bindings: Any) -> None:
    connection = apsw.Connection(str(home / file))
    connection.execute(sql, bindings).fetchall()
    connection.close()


def twin(home: Path, file: str, table: str, where: str, **changes: Any) -> None:
    """Writes one row once more, but for the changes."""
    connection = apsw.Connection(str(home / file), flags=apsw.SQLITE_OPEN_READONLY)
    cursor = connection.execute(f"SELECT * FROM {table} WHERE {where}")
    names = [column[0] for column in cursor.get_description()]
    row = dict(zip(names, cursor.fetchall()[0], strict=True)) | changes
    connection.close()
    marks = ", ".join("?" * len(row))
    harm(home, file, f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", *row.values())


def second_order_there(home: Path) -> None:
    twin(home, PAPER, "orders", O1_THERE, id="twin", client_order_id="twin", sequence=999)


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


def test_two_signals_of_one_key(home: Path) -> None:
    twin(home, LEDGER, "claims", "id = 1", id=99, digest=bytes(32), deliveries=0)
    assert "S3 ('tv', 'entry-one-1'): 2 signals of one key" in check.violations(home)


def test_an_order_at_the_exchange_that_the_ledger_does_not_know(home: Path) -> None:
    second_order_there(home)
    found = check.violations(home, [{**HELD, **ASKED}])
    assert "S3 ('paper', 'twin'): at the exchange and not in the ledger" in found
    assert "S3 entry-one-1: 2 orders of one key" in found


def test_two_orders_of_one_leg(home: Path) -> None:
    second_order_there(home)
    fresh: dict[str, Any] = {"state": "PENDING", "client_order_id": "twin", "broker_order_id": None}
    twin(home, LEDGER, "orders", "id = 1", id=901, generation=2, **fresh)
    assert "S3 ('S1', 'paper', 1): 2 orders at the exchange" in check.violations(home)


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
