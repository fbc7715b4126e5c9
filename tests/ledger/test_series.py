"""Numbers to draw: counts by time, answers by time, money fill by fill; each read only once."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import apsw
import pytest

from app.clock import SECOND
from app.ledger.alike import repeat, repeats_since
from app.ledger.reader import open_read_only
from app.ledger.series import MINUTE, Activity, MoneyOfAccount, latencies
from app.ledger.store import FILE_NAME, open_ledger
from app.ledger.transaction import Transaction
from tests.gui import rows

NOW = 1_772_465_400 * SECOND


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[tuple[Transaction, apsw.Connection]]:
    writing = open_ledger(tmp_path, NOW)
    reading = open_read_only(tmp_path / FILE_NAME)
    yield Transaction(writing, set()), reading
    reading.close()
    writing.close()


def test_activity_counts_each_thing_once_and_in_its_span(
    ledger: tuple[Transaction, apsw.Connection],
) -> None:
    tx, reading = ledger
    activity = Activity()
    first = rows.add_signal(tx, NOW - 50 * MINUTE)
    rows.add_signal(tx, NOW - 10 * MINUTE, symbol="MSFT", with_order=False)
    rows.add_duplicate(tx, first, NOW - 9 * MINUTE)
    rows.add_delivery(tx, NOW - 9 * MINUTE, "invalid", status=400)
    activity.read(reading)
    activity.read(reading)
    bars = activity.bars(NOW - 60 * MINUTE, NOW, 6)
    assert bars.width == 10 * MINUTE
    assert {name: sum(numbers) for name, numbers in bars.counts.items()} == {
        "signals": 2,
        "duplicates": 1,
        "refused": 1,
        "orders": 1,
    }
    place = (NOW - 50 * MINUTE - bars.start) // bars.width
    assert bars.counts["signals"][place] == bars.counts["orders"][place] == 1
    rows.add_signal(tx, NOW, symbol="TSLA")
    rows.add_signal(tx, NOW - 900 * MINUTE, symbol="OLD")
    activity.read(reading)
    bars = activity.bars(NOW - 60 * MINUTE, NOW, 6)
    assert sum(bars.counts["signals"]) == 3
    assert sum(activity.bars(NOW - 1_000 * MINUTE, NOW, 50).counts["signals"]) == 4


def test_spans_are_whole_minutes_and_the_last_holds_the_end() -> None:
    for minutes in (7, 60, 61, 1_440, 525_600):
        bars = Activity().bars(NOW - minutes * MINUTE, NOW, 60)
        assert bars.width % MINUTE == 0
        assert bars.start <= NOW - minutes * MINUTE + bars.width
        assert bars.start + 59 * bars.width <= NOW < bars.start + 60 * bars.width


def test_latencies_by_span(ledger: tuple[Transaction, apsw.Connection]) -> None:
    tx, reading = ledger
    for place in range(100):
        rows.add_delivery(tx, NOW - 30 * MINUTE, "accepted", ack_us=1_000 * (place + 1))
    rows.add_delivery(tx, NOW - MINUTE, "accepted", ack_us=2_900_000)
    rows.add_delivery(tx, NOW - MINUTE, "accepted", ack_us=None)
    rows.add_delivery(tx, NOW - 100 * MINUTE, "accepted", ack_us=1)
    early, late = latencies(reading, NOW - 60 * MINUTE, NOW, 6)
    assert (early.number, early.median, early.p99, early.longest) == (100, 50.0, 100.0, 100.0)
    assert (late.number, late.longest) == (1, 2_900.0)


def test_money_follows_the_fills_to_the_last_digit(ledger: tuple[Transaction, apsw.Connection]) -> None:
    tx, reading = ledger
    money = MoneyOfAccount("paper")
    rows.fill(tx, rows.add_signal(tx, NOW, symbol="AAPL", quantity="10"), NOW)  # at 187.25
    rows.fill(tx, rows.add_signal(tx, NOW + SECOND, symbol="EURUSD", quantity="3"), NOW + SECOND)
    assert money.read(reading) is False
    assert [point.profit for point in money.points] == [Decimal(0), Decimal(0)]
    assert money.points[-1].exposure == Decimal("1872.50") + 3 * Decimal("1.0831")
    rows.fill(
        tx,
        rows.add_signal(tx, NOW + 2 * SECOND, symbol="AAPL", action="sell", quantity="10"),
        NOW + 2 * SECOND,
    )
    tx.execute("SELECT 1")
    money.read(reading)
    assert len(money.points) == 3
    assert money.points[-1].exposure == 3 * Decimal("1.0831")
    assert money.held == {"EURUSD": Decimal(3)}
    money.read(reading)
    assert len(money.points) == 3
    assert not MoneyOfAccount("other").read(reading)


def test_a_repeat_is_read_with_what_came_first(ledger: tuple[Transaction, apsw.Connection]) -> None:
    tx, reading = ledger
    claim = rows.add_signal(tx, NOW)
    rows.add_duplicate(tx, claim, NOW + 2 * SECOND)
    second = rows.add_duplicate(tx, claim, NOW + 7 * SECOND)
    found = repeat(reading, second)
    assert found is not None
    assert (found["received_at"] - found["first_at"], found["number"], found["answered"]) == (
        7 * SECOND,
        2,
        200,
    )
    assert '"symbol": "AAPL"' in found["first_body"]
    assert repeat(reading, 1) is None
    assert [row["number"] for row in repeats_since(reading, NOW)] == [2, 1]
    assert [row["number"] for row in repeats_since(reading, NOW + 5 * SECOND)] == [2]
