"""The numbers of the status: they follow the ledger row by row, and never read all of it twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from app.ledger.counts import HOUR, Counts
from app.ledger.needs import needs
from app.ledger.standing import DAY, OTHER_ACCOUNT, Trouble, troubles
from tests.ledger.ledger_rows import NOON, Rows


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    made = Rows(tmp_path)
    yield made
    made.close()


def test_what_was_not_placed_is_counted_however_it_ends(rows: Rows) -> None:
    counts = Counts()

    def seen() -> tuple[int, ...]:
        counts.read(rows.connection, NOON)
        found = counts.values()
        anew = Counts()
        anew.read(rows.connection, NOON)
        assert anew.values() == found
        return tuple(found[name] for name in ("denied", "not_placed", "waiting", "open"))

    assert seen() == (0, 0, 0, 0)
    first, second, third = (rows.order(rows.claim(f"k{number}")) for number in range(3))
    assert seen() == (0, 0, 3, 0)
    rows.move(second, "DENIED")
    assert seen() == (1, 0, 2, 0)
    rows.move(third, "SUBMITTING", "NOT_PLACED")
    assert seen() == (1, 1, 1, 0)
    rows.move(first, "SUBMITTING", "WORKING")
    assert seen() == (1, 1, 0, 1)
    rows.move(first, "DONE")
    assert seen() == (1, 1, 0, 0)
    rows.move(rows.order(rows.claim("k9")), "DENIED")
    assert seen() == (2, 1, 0, 0)


def test_who_was_turned_away_is_counted_for_a_day_and_named_for_two_hours(rows: Rows) -> None:
    hour = NOON // HOUR * HOUR
    for at, reason, count in (
        (hour, "source_or_token", 3),
        (hour - HOUR, "bad_secret", 1),
        (hour - 2 * HOUR, "source_or_token", 10),
        (hour, "path", 100),
        (hour - 25 * HOUR, "source_or_token", 1000),
    ):
        rows.tx.insert("unauthenticated", {"hour": at, "reason": reason, "count": count})
    counts = Counts()
    counts.read(rows.connection, NOON)
    assert counts.strange == {"source_or_token": 3, "bad_secret": 1}
    assert counts.values()["turned_away"] == 114


def _reconciled(rows: Rows, at: int, *drift: str, held: str = "0") -> None:
    run = rows.tx.insert(
        "reconciliations",
        {
            "account": "paper",
            "cause": "timer",
            "started_at": at,
            "ended_at": at,
            "result": "FINDINGS" if drift else "OK",
            "report": msgspec.json.encode(
                {"positions": [{"symbol": s, "expected": "5", "broker": held} for s in drift]}
            ).decode(),
        },
    )
    for symbol in drift:
        finding = {"severity": "warning", "kind": "drift", "subject": symbol, "detail": "expected=5 broker=0"}
        rows.tx.insert("findings", {"reconciliation_id": run, **finding})


def _troubles(rows: Rows, now: int = NOON) -> dict[str, Trouble]:
    return troubles(rows.connection, needs(rows.connection, now), now)


def test_drift_is_a_trouble_until_a_pass_is_clean(rows: Rows) -> None:
    rows.book("AAPL", "5")
    assert _troubles(rows) == {}
    _reconciled(rows, NOON, "AAPL")
    found = _troubles(rows)["paper"]
    assert found.word == "drift"
    assert "5 AAPL" in found.reason
    assert "the broker 0" in found.reason
    assert "onefill reconcile paper" in found.reason
    _reconciled(rows, NOON + 1)
    assert _troubles(rows) == {}


def test_h13_another_account_is_said_for_a_day_and_until_a_pass_is_clean(rows: Rows) -> None:
    rows.tx.event(NOON, "broker:paper", "another account", "paper", {"was": "P-1", "is": "P-2"})
    rows.book("AAPL", "5")
    _reconciled(rows, NOON, "AAPL")
    found = _troubles(rows, NOON + 2 * DAY)["paper"]
    assert found.word == OTHER_ACCOUNT
    for said in ("P-2, not P-1", "onefill book paper", "5 AAPL"):
        assert said in found.reason
    _reconciled(rows, NOON + DAY)
    assert _troubles(rows, NOON + DAY)["paper"].word == OTHER_ACCOUNT
    assert _troubles(rows, NOON + DAY + 1) == {}
