"""Client order ids: eras of a key, and what is looked up before a send after a restore (H12, H39)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.execution.ids import WEEK, id_of, ids_to_look_up, must_look_first
from app.execution.policy import Policy, policies
from app.execution.ruling import claim_of
from app.ledger import orders
from app.ledger.orders import Order
from app.ledger.restore import LOOKUP_BEFORE_SEND
from app.settings import default_text, read_settings
from tests.ledger.ledger_rows import NOON, Rows

SIGNAL = '{"symbol": "AAPL", "action": "buy"}'


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    made = Rows(tmp_path)
    yield made
    made.close()


@pytest.fixture
def policy() -> Policy:
    return policies(read_settings(default_text()))["paper"]


def generation(rows: Rows, claim: int, number: int, cid: str | None = None) -> Order:
    order = rows.order(claim, generation=number, client_order_id=cid)
    return orders.get(rows.tx, order)


def test_h12_a_key_of_another_era_has_other_ids(rows: Rows, policy: Policy) -> None:
    order = generation(rows, rows.claim("one", signal=SIGNAL), 1)
    claim = claim_of(rows.tx, order)
    assert claim.era == 0
    ids = {id_of(policy, "P1", replace(claim, era=era), order) for era in range(3)}
    assert len(ids) == 3
    assert len({*ids, id_of(policy, "P2", claim, order)}) == 4


def test_h39_only_a_ledger_that_went_back_looks_first(rows: Rows) -> None:
    assert not must_look_first(rows.tx)
    rows.tx.set_meta(LOOKUP_BEFORE_SEND, "1")
    assert must_look_first(rows.tx)


def test_h39_every_generation_that_the_lost_part_may_have_sent_is_looked_up(
    rows: Rows, policy: Policy
) -> None:
    number = rows.claim("one", signal=SIGNAL)
    first = generation(rows, number, 1)
    claim = claim_of(rows.tx, first)
    third = generation(rows, number, 3)
    wanted = tuple(id_of(policy, "P1", claim, third, each) for each in (1, 2, 3))
    assert ids_to_look_up(rows.tx, policy, "P1", claim, third) == wanted
    assert wanted[0] == id_of(policy, "P1", claim, first)


def test_h39_what_another_row_was_sent_under_is_known_and_not_looked_up(rows: Rows, policy: Policy) -> None:
    number = rows.claim("one", signal=SIGNAL)
    plain = generation(rows, number, 9)
    claim = claim_of(rows.tx, plain)
    sent = id_of(policy, "P1", claim, plain, 1)
    generation(rows, number, 1, sent)
    second = generation(rows, number, 2)
    assert ids_to_look_up(rows.tx, policy, "P1", claim, second) == (id_of(policy, "P1", claim, second),)


def test_h39_for_a_week_after_a_restore_later_generations_are_looked_up_too(
    rows: Rows, policy: Policy
) -> None:
    """A person may have replayed it in the time that was lost, and its signal comes in as if it were new."""
    first = generation(rows, rows.claim("one", signal=SIGNAL), 1)
    claim = claim_of(rows.tx, first)
    rows.tx.set_meta(LOOKUP_BEFORE_SEND, str(NOON - WEEK + 1))
    wanted = tuple(id_of(policy, "P1", claim, first, each) for each in (1, 2, 3, 4))
    assert ids_to_look_up(rows.tx, policy, "P1", claim, first) == wanted
    rows.tx.set_meta(LOOKUP_BEFORE_SEND, str(NOON - WEEK))
    assert ids_to_look_up(rows.tx, policy, "P1", claim, first) == wanted[:1]
