"""The order state machine's table, as DESIGN 6 draws it."""

from itertools import product

import pytest

from app.domain.order import EDGES, SEVERITY, TERMINAL, UNRESOLVED, OrdStatus, State, worst

DRAWN = {
    "PENDING": "SUBMITTING DENIED DONE NEEDS_OPERATOR",
    "SUBMITTING": "WORKING NOT_PLACED AMBIGUOUS PENDING DENIED NEEDS_OPERATOR",
    "AMBIGUOUS": "WORKING NOT_PLACED NEEDS_OPERATOR",
    "NEEDS_OPERATOR": "WORKING NOT_PLACED AMBIGUOUS",
    "WORKING": "DONE NEEDS_OPERATOR",
    "NOT_PLACED": "WORKING PENDING",
}


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_a_move_is_legal_exactly_where_the_design_draws_it(before: State, after: State) -> None:
    assert ((before, after) in EDGES) == (after.value in DRAWN.get(before.value, "").split())


def test_what_was_sent_is_never_pending_again_unless_proved_unsent_or_absent() -> None:
    assert {before for before, after in EDGES if after is State.PENDING} == {
        State.SUBMITTING,
        State.NOT_PLACED,
    }
    assert {before for before, after in EDGES if after is State.SUBMITTING} == {State.PENDING}


def test_no_order_leaves_done_or_denied() -> None:
    assert not [before for before, _ in EDGES if before in (State.DONE, State.DENIED)]
    assert {State.DENIED, State.NOT_PLACED, State.DONE} == TERMINAL


def test_a_signals_outcome_is_its_worst_order() -> None:
    assert worst([]) is State.DONE
    assert worst([State.DONE, State.DENIED, State.WORKING]) is State.WORKING
    assert worst([State.DONE, State.AMBIGUOUS, State.NEEDS_OPERATOR]) is State.NEEDS_OPERATOR
    assert set(SEVERITY) == set(State)
    assert all(worst([state, State.DONE]) is state for state in State)


def test_unresolved_is_what_may_be_at_the_broker_without_our_knowing() -> None:
    assert {State.SUBMITTING, State.AMBIGUOUS, State.NEEDS_OPERATOR} == UNRESOLVED


def test_terminal_statuses_are_those_that_never_fill_again() -> None:
    terminal = {status for status in OrdStatus if status.is_terminal}
    assert terminal == {OrdStatus.FILLED, OrdStatus.CANCELED, OrdStatus.REJECTED, OrdStatus.EXPIRED}
