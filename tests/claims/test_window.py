"""Window keys: no key and no bar time, so equal alerts within 45 s of the accepted one count as one (H14)."""

import pytest

from app.clock import SECOND
from tests.claims.kit import Bench, columns, said, warnings_of

HOUR = 3600 * SECOND


def kinds(bench: Bench, gaps: list[float]) -> list[str]:
    """One equal alert without key and time after each gap of seconds."""
    found = []
    for gap in gaps:
        bench.later(gap)
        found.append(bench.deliver(None).kind)
    return found


def test_h14_the_window_is_open_for_45_seconds(bench: Bench) -> None:
    assert kinds(bench, [0, 6, 39, 0.000001]) == ["accepted", "duplicate", "duplicate", "accepted"]
    assert columns(bench.claims(), "key_source", "deliveries") == [("window", 3), ("window", 1)]


def test_h14_repeats_do_not_extend_it(bench: Bench) -> None:
    """Every 30 s for ten minutes: one order a window, never one for ever."""
    found = kinds(bench, [0, *[30] * 20])
    assert found == (["accepted", "duplicate"] * 11)[:21]
    assert len(bench.orders()) == 11
    assert len({row["digest"] for row in bench.claims()}) == 11


def test_another_intent_or_label_has_a_window_of_its_own(bench: Bench) -> None:
    assert bench.deliver(None).kind == "accepted"
    assert bench.deliver(None, quantity="2").kind == "accepted"
    assert bench.deliver(None, action="sell").kind == "accepted"
    assert bench.deliver("Long").kind == "accepted"
    assert bench.deliver("Short").kind == "accepted"
    assert bench.deliver(None, order_id="Long").kind == "accepted"
    assert bench.deliver(None, quantity="1.0", price="99").kind == "duplicate"
    assert len(bench.orders()) == 6


@pytest.mark.parametrize("step", [60 * SECOND, HOUR, -60 * SECOND, -HOUR])
def test_h14_a_set_clock_does_not_double_a_resend(bench: Bench, step: int) -> None:
    bench.deliver(None)
    bench.clock.step(step)
    assert kinds(bench, [5, 40]) == ["duplicate", "duplicate"]
    assert kinds(bench, [1]) == ["accepted"]


@pytest.mark.parametrize("step", [60 * SECOND, HOUR, -60 * SECOND, -HOUR])
def test_h14_after_a_set_clock_the_next_window_is_a_window(bench: Bench, step: int) -> None:
    """Set back, the newer window has the older time: it must still be the one that is found."""
    bench.deliver(None)
    bench.clock.step(step)
    assert kinds(bench, [46, 1, 1, 43, 1]) == ["accepted", "duplicate", "duplicate", "duplicate", "accepted"]
    epochs = [row["epoch"] for row in bench.claims()]
    assert epochs == sorted(set(epochs))


def test_a_clock_set_back_onto_the_same_moment_claims_again(bench: Bench) -> None:
    bench.deliver(None)
    bench.later(60)
    bench.clock.step(-60 * SECOND)
    assert bench.deliver(None).kind == "accepted"
    assert [row["admitted_at"] for row in bench.claims()] == [bench.clock.now()] * 2


def test_h14_across_a_restart_the_wall_clock_counts(bench: Bench) -> None:
    bench.deliver(None)
    bench.later(5)
    bench.restart()
    assert kinds(bench, [0, 40, 1, 1]) == ["duplicate", "duplicate", "accepted", "duplicate"]


def test_across_a_restart_with_the_clock_set_back_an_hour_is_not_swallowed(bench: Bench) -> None:
    bench.deliver(None)
    bench.restart()
    bench.clock.step(-HOUR)
    assert kinds(bench, [5, 5, 40]) == ["accepted", "duplicate", "duplicate"]


def test_the_boot_clock_of_an_earlier_run_says_nothing(bench: Bench) -> None:
    """After a reboot it begins anew, perhaps at the very same number."""
    bench.deliver(None)
    bench.restart()
    bench.clock.step(HOUR)
    assert bench.deliver(None).kind == "accepted"


@pytest.mark.parametrize(("after", "warned"), [(25, False), (26, True), (45, True)])
def test_h14_a_late_repeat_is_shown_as_possibly_a_second_signal(
    bench: Bench, after: float, warned: bool
) -> None:
    bench.deliver(None)
    bench.later(after)
    verdict = bench.deliver(None)
    assert verdict.kind == "duplicate"
    (_, row) = bench.deliveries()
    assert any(text.startswith("second_signal: ") for text in warnings_of(row)) is warned


def test_a_late_duplicate_of_a_key_is_no_second_signal(bench: Bench) -> None:
    bench.deliver("k1")
    bench.later(40)
    assert bench.deliver("k1").warnings == ()


def test_the_window_runs_from_the_accepted_one_not_from_one_answered_503(bench: Bench) -> None:
    bench.deliver_late(None)
    assert kinds(bench, [30, 45, 1]) == ["accepted", "duplicate", "accepted"]


def test_after_a_503_and_a_closed_window_a_resend_is_still_admitted(bench: Bench) -> None:
    bench.deliver_late(None)
    assert kinds(bench, [50, 5]) == ["accepted", "duplicate"]
    assert columns(bench.claims(), "unanswered", "deliveries") == [(1, 0), (0, 2)]


def test_of_two_at_once_the_later_may_be_decided_first(bench: Bench) -> None:
    earlier = bench.alert(None)
    bench.later(0.5)
    assert bench.deliver(None).kind == "accepted"
    assert bench.decide(earlier).kind == "duplicate"


def test_a_stale_one_opens_no_window(bench: Bench) -> None:
    assert said(bench.deliver(None, fired_at="2026-03-02T15:00:00Z")) == ("stale", "stale")
    assert bench.claims() == []
