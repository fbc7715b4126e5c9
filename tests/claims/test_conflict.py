"""A key that names two things: refused, or for an exit admitted under a key of its own (H11, H16)."""

import pytest

from tests.claims.kit import Bench, columns, said

BAR = "2026-03-02T15:15:00Z"
NEXT = "2026-03-02T15:30:00Z"


def test_another_order_under_a_key_places_nothing_and_names_what_differs(bench: Bench) -> None:
    bench.deliver("k1")
    verdict = bench.deliver("k1", action="sell", quantity="2")
    assert said(verdict) == ("conflict", "intent_differs")
    assert verdict.fields == ("action", "quantity")
    assert verdict.claim_id == 1
    assert len(bench.claims()) == len(bench.orders()) == 1
    row = bench.deliveries()[1]
    assert (row["claim_id"], row["reason"], row["fields"]) == (1, "intent_differs", '["action","quantity"]')


def test_h11_a_label_with_a_digit_on_two_bars_is_loud(bench: Bench) -> None:
    bench.deliver("TP1", bar_time=BAR, interval="15")
    verdict = bench.deliver("TP1", bar_time=NEXT, interval="15")
    assert said(verdict) == ("conflict", "key_reused")
    assert verdict.fields == ("bar_time",)
    assert "names an order" in verdict.detail


@pytest.mark.parametrize("seconds", [0, 15, 600])
def test_h11_resends_and_copies_of_one_alert_are_duplicates(bench: Bench, seconds: float) -> None:
    bench.deliver("TP1", fired_at=NEXT)
    bench.later(seconds)
    assert bench.deliver("TP1", fired_at=NEXT, comment="by mail").kind == "duplicate"


def test_h11_without_a_bar_time_a_key_is_re_used_after_ten_minutes(bench: Bench) -> None:
    bench.deliver("TP1")
    bench.later(600.000001)
    assert said(bench.deliver("TP1")) == ("conflict", "key_reused")


def test_h11_header_keys_are_exempt_from_the_ten_minutes_only(bench: Bench) -> None:
    bench.deliver(None, header="TP1", bar_time=BAR, interval="15")
    bench.deliver(None, header="TP2")
    bench.later(3600)
    assert bench.deliver(None, header="TP2").kind == "duplicate"
    assert bench.deliver("TP2", header="TP2").kind == "duplicate"
    assert said(bench.deliver(None, header="TP2", quantity="2")) == ("conflict", "intent_differs")
    assert said(bench.deliver(None, header="TP1", bar_time=NEXT, interval="15")) == ("conflict", "key_reused")
    assert said(bench.deliver("TP2")) == ("conflict", "key_reused")


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_set_clock_does_not_make_a_resend_a_second_signal(bench: Bench, step: int) -> None:
    bench.deliver("TP1")
    bench.clock.step(step * 1_000_000)
    bench.later(5)
    assert bench.deliver("TP1").kind == "duplicate"
    bench.later(600)
    assert said(bench.deliver("TP1")) == ("conflict", "key_reused")


# ------------------------------------------------------------------------------------------------ admit_exits


def test_h16_entry_and_exit_of_one_bar_under_one_key_are_both_claimed(bench: Bench) -> None:
    bench.set(admit_exits=True)
    fields = {"bar_time": NEXT, "interval": "15"}
    bench.deliver("AAPL-1530", **fields)
    exit_ = bench.deliver("AAPL-1530", action="exit", quantity=None, **fields)
    assert (exit_.kind, exit_.claim_id, exit_.key_source) == ("accepted", 2, "derived")
    assert exit_.key is not None
    assert exit_.key.startswith("a1:")
    assert columns(bench.orders(), "claim_id", "purpose") == [(1, "undecided"), (2, "exit")]
    (event,) = bench.events("conflicting exit admitted")
    assert (event["subject"], event["detail"]["as"]) == ("S1", "S2")


def test_h16_the_key_of_its_own_is_no_header_key(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.deliver(None, header="AAPL-1530")
    bench.deliver(None, header="AAPL-1530", action="exit")
    assert columns(bench.claims(), "key_source", "header_key") == [("header", 1), ("derived", 0)]


def test_h16_the_admitted_exit_again_is_a_duplicate_of_it(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.deliver("AAPL-1530")
    bench.deliver("AAPL-1530", action="exit")
    again = bench.deliver("AAPL-1530", action="exit")
    assert (again.kind, again.claim_id, again.deliveries) == ("duplicate", 2, 2)
    assert bench.deliver("AAPL-1530").claim_id == 1
    assert len(bench.orders()) == 2
    assert len(bench.events("conflicting exit admitted")) == 1


def test_h16_an_entry_is_still_refused(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.deliver("AAPL-1530")
    assert said(bench.deliver("AAPL-1530", action="sell")) == ("conflict", "intent_differs")
    bench.hold("1")
    assert bench.deliver("AAPL-1530", action="sell").kind == "accepted"


def test_h16_a_source_that_refuses_refuses_exits_too(bench: Bench) -> None:
    bench.deliver("AAPL-1530")
    assert said(bench.deliver("AAPL-1530", action="exit")) == ("conflict", "intent_differs")


def test_h16_a_re_used_exit_label_is_admitted_once_a_bar(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.later(900)
    for bar, kinds in ((BAR, ["accepted", "duplicate"]), (NEXT, ["accepted", "duplicate"])):
        fields = {"action": "exit", "bar_time": bar, "interval": "15"}
        assert [bench.deliver("TP1", **fields).kind for _ in kinds] == kinds


@pytest.mark.parametrize("offset", [0, 590, 599.9])
def test_h16_without_a_bar_time_a_re_used_exit_is_admitted_once_in_ten_minutes(
    bench: Bench, offset: float
) -> None:
    """Wherever in its ten minutes the epoch stands: a resend across its end is no second exit."""
    bench.set(admit_exits=True)
    bench.deliver("TP1", action="exit")
    bench.later(1200 + offset)
    admitted = bench.deliver("TP1", action="exit")
    assert (admitted.kind, admitted.claim_id) == ("accepted", 2)
    bench.later(15)
    assert bench.deliver("TP1", action="exit").claim_id == 2
    bench.later(1200)
    assert bench.deliver("TP1", action="exit").claim_id == 3


def test_h16_an_admitted_exit_is_judged_for_its_age_like_any_other(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.deliver("AAPL-1530")
    stale = bench.deliver("AAPL-1530", action="exit", fired_at="2026-03-02T15:00:00Z")
    assert said(stale) == ("stale", "stale")
    assert bench.events("conflicting exit admitted") == []
    assert len(bench.claims()) == 1


def test_h16_an_admitted_exit_answered_503_is_admitted_again(bench: Bench) -> None:
    bench.set(admit_exits=True)
    bench.deliver("AAPL-1530")
    bench.deliver_late("AAPL-1530", action="exit")
    again = bench.deliver("AAPL-1530", action="exit")
    assert (again.kind, again.claim_id, again.deliveries) == ("accepted", 2, 1)
    assert len(bench.orders()) == 2
