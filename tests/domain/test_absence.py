"""When 'not found' is proof (facts/brokers-and-reconciliation 4.6, HOLES H35, H37)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.domain.absence import SCHEDULE, SECOND, Case, Look, Rules, Verdict, confirming, evidence, judge, wait

B = Rules(
    immediate=False,
    keeps_ids_apart=True,
    orders_expire=False,
    confirmations=3,
    min_age=300 * SECOND,
    deadline=900 * SECOND,
)
E = replace(B, keeps_ids_apart=False)
PAPER = replace(B, immediate=True)


def case(*looks: int, failed: tuple[int, ...] = (), ended: int = 1, arrives_until: int = 120) -> Case:
    """Sent at second 0; the seconds at which complete and failed looks began."""
    made = [Look(at * SECOND, complete=True) for at in looks] + [Look(at * SECOND, False) for at in failed]
    return Case(0, ended * SECOND, arrives_until * SECOND, sorted(made, key=lambda look: look.at))


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (case(10, 100, 300), Verdict.ABSENT),
        (case(10, 300), Verdict.LOOK_AGAIN),
        (case(10, 100, 299), Verdict.LOOK_AGAIN),
        (case(10, 100, 304, arrives_until=300), Verdict.LOOK_AGAIN),
        (case(10, 100, 305, arrives_until=300), Verdict.ABSENT),
        (case(10, 100, 300, failed=(200,)), Verdict.LOOK_AGAIN),
        (case(10, 300, 301, 302, failed=(200,)), Verdict.ABSENT),
        (case(10, 100, 301, failed=(302,)), Verdict.LOOK_AGAIN),
        (case(10, 100, 300, ended=11), Verdict.LOOK_AGAIN),
        (case(), Verdict.LOOK_AGAIN),
    ],
)
def test_h35_absence_takes_looks_age_arrival_and_a_broker_that_is_well(seen: Case, verdict: Verdict) -> None:
    assert judge(seen, B, 310 * SECOND) is verdict


def test_h35_a_weak_proof_ends_by_itself_only_where_ids_are_kept_apart() -> None:
    proved = case(10, 100, 300)
    assert judge(proved, E, 310 * SECOND) is Verdict.A_PERSONS
    assert judge(proved, replace(E, orders_expire=True), 310 * SECOND) is Verdict.ABSENT


def test_after_the_deadline_a_person_decides_unless_it_is_proved() -> None:
    assert judge(case(10), B, 899 * SECOND) is Verdict.LOOK_AGAIN
    assert judge(case(10), B, 900 * SECOND) is Verdict.A_PERSONS
    assert judge(case(10, 20, 300), B, 900 * SECOND) is Verdict.ABSENT


def test_h37_on_paper_one_complete_look_is_proof_if_it_began_when_the_send_was_over() -> None:
    assert judge(case(1), PAPER, SECOND) is Verdict.ABSENT
    assert judge(case(1, ended=2), PAPER, 2 * SECOND) is Verdict.LOOK_AGAIN
    assert judge(case(failed=(1, 2)), PAPER, 3 * SECOND) is Verdict.LOOK_AGAIN


def test_the_evidence_is_told_in_numbers() -> None:
    seen = case(10, 20, 400, failed=(30,))
    assert len(confirming(seen)) == 1
    assert evidence(seen, B, 900 * SECOND) == "confirming_looks=1 of=3 failed_looks=1 age=900s proof=weak"


def test_looks_come_ever_more_rarely_and_never_in_step() -> None:
    assert wait(0, 0.5) == 0
    assert [wait(n, 0.5) / SECOND for n in range(1, 11)] == [0.5, 1, 2, 5, 10, 20, 40, 60, 60, 60]
    assert (wait(8, 0.0), wait(8, 1.0)) == (48 * SECOND, 72 * SECOND)
    assert sorted(SCHEDULE) == list(SCHEDULE)


def test_looks_that_agree_after_a_long_absence_of_ours_are_let_finish() -> None:
    """The program was down overnight: three looks in a row prove it, and one does not ask a person."""
    night = 30_000
    assert judge(case(night), B, night * SECOND) is Verdict.LOOK_AGAIN
    assert judge(case(night, night + 1), B, (night + 1) * SECOND) is Verdict.LOOK_AGAIN
    assert judge(case(night, night + 1, night + 2), B, (night + 2) * SECOND) is Verdict.ABSENT
    assert judge(case(night, night + 1), B, (night + 300) * SECOND) is Verdict.A_PERSONS
    assert judge(case(night, failed=(night + 1,)), B, (night + 1) * SECOND) is Verdict.A_PERSONS
    assert judge(case(failed=(night,)), B, night * SECOND) is Verdict.A_PERSONS
