"""When 'not found' is proof that an order never got to the broker, and when it is asked next. Pure.

A look that failed or was not complete is evidence of nothing. Where the figures come from: DESIGN 6 and
facts/brokers-and-reconciliation 4.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SECOND = 1_000_000

SCHEDULE = (SECOND // 2, *(seconds * SECOND for seconds in (1, 2, 5, 10, 20, 40, 60)))
"""Microseconds between two looks at one order, the last one for ever."""
JITTER = 0.2
"""The part of it by which a look may come earlier or later, so that accounts do not ask in step."""
ARRIVAL_SLACK = 5 * SECOND
"""How long after the last moment of arrival a look has to begin to count as one behind it."""


class Verdict(StrEnum):
    LOOK_AGAIN = "look_again"
    ABSENT = "absent"
    A_PERSONS = "a_persons"
    """Nothing can be proved in time, or not at this broker: somebody has to decide."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look that did not find the order: when it began (UTC microseconds), and whether it came back
    complete."""

    at: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """What a broker and the settings ask of a proof. Durations in microseconds."""

    immediate: bool
    """One complete look is proof: same machine, no wire."""
    keeps_ids_apart: bool
    """Class A or B: an id that was used is known, so that what arrives late stays one order (HOLES H35)."""
    orders_expire: bool
    """The arrival deadline is the venue's own expiry, carried by the request; else it is a bound (weak)."""
    confirmations: int
    min_age: int
    deadline: int
    """How long after it was sent a person is asked."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of one order. Times are UTC microseconds, looks oldest first."""

    sent_at: int
    """The first attempt that may have left."""
    send_ended_at: int
    """When the last one was over: a look begun before saw nothing that it could have seen (HOLES H37)."""
    arrival_deadline: int
    """The last moment at which any attempt may still arrive."""
    looks: Sequence[Look]


def judge(case: Case, rules: Rules, now: int) -> Verdict:
    """What the looks prove. `now` is UTC in microseconds."""
    run = confirming(case)
    if run and rules.immediate:
        return Verdict.ABSENT
    if _is_proved(case, rules, run):
        return Verdict.ABSENT if rules.orders_expire or rules.keeps_ids_apart else Verdict.A_PERSONS
    if now - case.sent_at < rules.deadline or _is_under_way(run, rules, now):
        return Verdict.LOOK_AGAIN
    return Verdict.A_PERSONS


def confirming(case: Case) -> list[Look]:
    """The complete looks since the last one that failed: a broker that is not well confirms nothing."""
    run: list[Look] = []
    for look in case.looks:
        if not look.complete:
            run.clear()
        elif look.at >= case.send_ended_at:
            run.append(look)
    return run


def evidence(case: Case, rules: Rules, now: int) -> str:
    """The looks in numbers, for a reason that a person reads."""
    kind = "immediate" if rules.immediate else "strong" if rules.orders_expire else "weak"
    failed = sum(not look.complete for look in case.looks)
    return (
        f"confirming_looks={len(confirming(case))} of={rules.confirmations} failed_looks={failed} "
        f"age={(now - case.sent_at) // SECOND}s proof={kind}"
    )


def wait(looks: int, jitter: float) -> int:
    """Microseconds until the next look after `looks` of them; `jitter`, from 0 to 1, is the caller's draw."""
    base = SCHEDULE[min(looks, len(SCHEDULE)) - 1] if looks else 0
    return base + int(base * JITTER * (2 * jitter - 1))


def _is_under_way(run: list[Look], rules: Rules, now: int) -> bool:
    """Whether looks that agree are being made right now: a program that was down for longer than the deadline
    asks a person only once it has looked as often as it would have (bounded by the minimum age)."""
    return 0 < len(run) < rules.confirmations and now - run[0].at < rules.min_age


def _is_proved(case: Case, rules: Rules, run: list[Look]) -> bool:
    if len(run) < rules.confirmations:
        return False
    last = run[-1].at
    return last - case.sent_at >= rules.min_age and last >= case.arrival_deadline + ARRIVAL_SLACK
