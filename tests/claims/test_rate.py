"""A source's own limit: spent by entries only, after the duplicate check (HOLES H10)."""

from dataclasses import replace

import pytest

from app.claims import admission
from app.clock import SECOND
from tests.claims.kit import Bench, said


def test_h10_only_as_many_entries_a_minute_as_the_source_may(bench: Bench) -> None:
    bench.set(entries_per_minute=2)
    assert [bench.deliver(key).kind for key in ("a1", "b1", "c1")] == ["accepted", "accepted", "not_accepted"]
    bench.later(59)
    assert said(bench.deliver("c1")) == ("not_accepted", "rate")
    bench.later(1)
    assert bench.deliver("c1").kind == "accepted"


def test_h10_exits_are_never_limited_and_spend_nothing(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.hold("5")
    for number, fields in enumerate([{"action": "exit"}, {"action": "cancel"}, {"action": "sell"}] * 2):
        assert bench.deliver(f"x{number}", **fields).kind == "accepted"
    assert bench.deliver("e1").kind == "accepted"
    assert bench.deliver("e2").kind == "not_accepted"
    assert bench.deliver("x9", action="exit").kind == "accepted"


def test_a_burst_of_duplicates_does_not_spend_a_new_signal_s_place(bench: Bench) -> None:
    bench.set(entries_per_minute=2)
    assert bench.deliver("a1").kind == "accepted"
    assert {bench.deliver("a1").kind for _ in range(300)} == {"duplicate"}
    assert bench.deliver("a1", quantity="2").kind == "conflict"
    assert bench.deliver("b1", fired_at="2026-03-02T15:00:00Z").kind == "stale"
    assert bench.deliver("b1").kind == "accepted"
    assert bench.deliver("a1").kind == "duplicate"


def test_what_was_answered_503_spends_nothing(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver_late("a1")
    assert bench.deliver("a1").kind == "accepted"
    assert bench.deliver("b1").kind == "not_accepted"


def test_each_source_has_a_limit_of_its_own(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    assert bench.deliver("a1").kind == "accepted"
    other = replace(bench.admission, source_id="other-id", source="other")
    assert bench.deliver("b1", admission=other).kind == "accepted"


def test_a_set_clock_neither_shuts_the_source_nor_opens_it(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver("a1")
    bench.clock.step(3600 * SECOND)
    assert bench.deliver("b1").kind == "not_accepted"
    bench.clock.step(-7200 * SECOND)
    assert bench.deliver("b1").kind == "not_accepted"
    bench.later(60)
    assert bench.deliver("b1").kind == "accepted"


def test_a_restart_resets_nothing(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver("a1")
    bench.later(30)
    bench.restart()
    assert bench.deliver("b1").kind == "not_accepted"
    bench.later(30)
    assert bench.deliver("b1").kind == "accepted"


def test_after_a_restart_a_clock_that_was_set_back_does_not_shut_the_source(bench: Bench) -> None:
    bench.set(entries_per_minute=1)
    bench.deliver("a1")
    bench.clock.step(-3600 * SECOND)
    bench.restart()
    assert bench.deliver("b1").kind == "accepted"


def test_an_old_ledger_is_not_read_through_for_the_last_minute(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a delivery costs under a limit does not grow with the ledger."""
    monkeypatch.setattr(admission, "LOOKED_AT_FOR_RATE", 10)
    bench.set(entries_per_minute=1)
    bench.deliver("k1")
    bench.later(60)
    few = steps_of(bench, "k2")
    copied = "source_id, key, key_source, header_key, opened_boot, opened_run, rule_version, raw_fingerprint"
    copied += ", intent_fingerprint, signal, symbol, action, first_received_at, admitted_at"
    names = ", ".join(f"c.{name}" for name in copied.split(", "))
    bench.write(
        lambda tx: tx.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
            f"INSERT INTO claims (digest, {copied}) SELECT randomblob(32), {names} "
            "FROM n JOIN claims c ON c.id = 1"
        )
    )
    bench.later(60)
    assert steps_of(bench, "k3") < few + 20
    assert said(bench.deliver("k4")) == ("not_accepted", "rate")


def steps_of(bench: Bench, key: str) -> int:
    """How many hundreds of SQLite's steps a delivery takes."""
    steps = [0]

    def count() -> bool:
        steps[0] += 1
        return False

    bench.connection.set_progress_handler(count, 100)
    assert bench.deliver(key).kind == "accepted"
    bench.connection.set_progress_handler(None)
    return steps[0]
